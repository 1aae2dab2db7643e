"""Read a command line: its commands, wherever they stand, and their words. Pure.

The reader follows the tree of a line (`grammar`) and resolves quotes, here-documents and variables that the
line itself sets. Text that only running the line would tell becomes `UNKNOWN`, or `UNSET` for a variable that
is set elsewhere. Of two readings it takes the riskier one: both branches of an `if` are read, and a variable
that gets a second value is `UNKNOWN`. It is no shell: what it does not resolve is `UNKNOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tree_sitter import Node

from .command_line import LONGEST, NO_INPUT, UNKNOWN, UNSET, Input, ShellCommand, UnreadableCommand, Word
from .grammar import COMMANDS, NO_TEXT, parsed

DEEPEST = 40

_SPLIT, _QUOTED = "\ue002", "\ue003"
"""Marks in a word while it is read: a place where it splits, and a quoted part."""
_DELIMITER = re.compile(r"\\?[\w.+-]+|'[^'\n]+'|\"[^\"\\$`\n]+\"")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
_ESCAPES = re.compile(r"""(?:[^\\]|\\(?:x[0-9A-Fa-f]{2}|[0-3]?[0-7]{1,2}|u[0-9A-Fa-f]{4}|[abfnrtv\\'"]))*""")
_SET_VARIABLES = frozenset({"read", "mapfile", "readarray", "getopts", "printf"})
_WORDS = frozenset(
    {"word", "string", "raw_string", "ansi_c_string", "translated_string", "concatenation", "number",
     "simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion",
     "brace_expression", "array", "extglob_pattern"}
)  # fmt: skip


def commands_of(
    text: str, variables: Mapping[str, str] | None = None, *, given: Input = NO_INPUT, depth: int = 0
) -> list[ShellCommand]:
    """Return every command in a line, inner ones first. `given` is the input of a script that another command
    runs. Raises `UnreadableCommand`."""
    if depth == 0 and re.search("[\ue000-\ue003]", text):
        raise UnreadableCommand("it has characters that stand for unknown text")
    reader = _Reader(variables or {}, depth)
    reader.read(text, given)
    return reader.commands


class _Reader:
    """Reads a script command by command."""

    def __init__(self, variables: Mapping[str, str], depth: int) -> None:
        self.commands: list[ShellCommand] = []
        """Every command that has been read, inner ones first."""
        self._variables = {"IFS": " \t\n", **variables}
        self._depth = depth
        self._unset = UNKNOWN if depth else UNSET  # a script around this one may have set any variable
        self._left = 8 * LONGEST
        """The characters that the text may still expand to: variables in variables grow fast."""
        self._source = b""

    def read(self, text: str, given: Input) -> None:
        """Read a text as a script."""
        tree = parsed(text)
        outer, self._source = self._source, text.encode()
        self._script([tree], given)
        self._source = outer

    # --- statements ---

    def _script(self, nodes: Sequence[Node], given: Input, *, background: bool = False) -> None:
        """Read the statements in these nodes. A chain of `&&` is as deep as it is long, so this does not
        recurse into lists."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise UnreadableCommand("it is too deep")
        waiting = [(node, background) for node in reversed(nodes)]
        while waiting:
            node, background = waiting.pop()
            if node.type in COMMANDS:
                self._command(node, given, background=background)
            elif node.type in _WORDS:
                self._words(node)
            elif node.type == "variable_assignment":
                self._assignment(node, alone=True)
            elif node.type == "pipeline":
                self._pipeline(node, given, background=background)
            elif node.type in ("redirected_statement", "function_definition"):
                self._redirected(node, given, background=background)
            else:
                if node.type == "for_statement":
                    self._loop(node)
                ends = [one.type == "&" for one in node.children[1:]] + [background]
                waiting += reversed(list(zip(node.children, ends, strict=False)))
        self._depth -= 1

    def _pipeline(self, node: Node, given: Input, *, background: bool) -> None:
        for child in node.named_children:
            if child.type != "comment":
                self._script([child], given, background=background)
                given = replace(given, is_piped=True, source=self._last(child), text=None)

    def _last(self, node: Node | None) -> ShellCommand | None:
        """Return the command that this node was read as, if it is one command."""
        return self.commands[-1] if self.commands and node is not None and node.type in COMMANDS else None

    def _loop(self, node: Node) -> None:
        """Set the variable of a loop."""
        values = [word.text for child in node.children_by_field_name("value") for word in self._words(child)]
        for variable in node.children_by_field_name("variable"):
            self._assign(_raw(variable), values[0] if len(values) == 1 else UNKNOWN)

    def _redirected(self, node: Node, given: Input, *, background: bool) -> None:
        """Read a statement with redirections, or a function."""
        body, inner = node.child_by_field_name("body"), given
        after, more = list[Node](), list[Word]()
        for name in node.children_by_field_name("name"):
            self.commands.append(ShellCommand((Word("function"), Word(_raw(name)))))
        for child in node.children_by_field_name("redirect"):
            inner = self._redirect(child, inner, more, after)
        if body is None or body.type in COMMANDS:
            self._command(body, inner, more, background=background)
        else:
            self._script([body], inner, background=background)
        for child in after:
            if child.type == "pipeline":
                given = replace(given, is_piped=True, source=self._last(body))
            self._script([child], given, background=background)

    def _redirect(self, node: Node, given: Input, more: list[Word], after: list[Node]) -> Input:
        """Return the input with this redirection. Words and statements of the line that the grammar puts into
        it go to `more` and `after`."""
        if node.type == "herestring_redirect":
            return replace(
                given, text=" ".join(one.text for one in self._words(node.children[-1], split=False))
            )
        if node.type == "file_redirect":
            operator = next(_raw(child) for child in node.children if not child.is_named)
            words = [self._words(one) for one in node.children_by_field_name("destination")]
            # What follows an operator that closes a descriptor is a word of the command.
            target, *others = [[], *words] if operator.endswith("&-") else words
            more += (word for words in others for word in words)
            return replace(given, redirects=(*given.redirects, *((operator, word) for word in target)))
        start, end, text = "", node, ""
        for child in node.named_children:
            if child.type == "heredoc_start":
                start = _raw(child)
            elif child.type == "heredoc_end":
                end = child
            elif child.type == "heredoc_body":
                text = _raw(child) if start[0] in "'\"\\" else self._here(child, start)
            elif child.type.endswith("_redirect"):
                given = self._redirect(child, given, more, after)
            elif child.type in _WORDS:
                more += self._words(child)
            else:
                after.append(child)
        tabs = b"\t" if _raw(node.children[0]) == "<<-" else b""
        before_end = self._source[: end.start_byte].rstrip(tabs)
        if not _DELIMITER.fullmatch(start) or not before_end.endswith(b"\n"):
            raise UnreadableCommand("the end of a here-document is not clear")
        return replace(given, text=text)

    def _here(self, body: Node, end: str) -> str:
        """Return the text of a here-document. A shell joins its lines before it looks for the end."""
        raw = _raw(body)
        lines = raw.replace("\\\n", "").split("\n")
        if raw.endswith("\\\n") or end in map(str.strip, lines) or "`" in re.sub(r"\\.", "", raw):
            raise UnreadableCommand("the text of a here-document is not clear")
        return _unmarked(self._spliced(body, body.start_byte, body.end_byte))

    def _command(
        self, node: Node | None, given: Input, more: Sequence[Word] = (), *, background: bool
    ) -> None:
        words = list[Word]()
        for child in node.children if node is not None else ():
            if child.type == "variable_assignment":
                text = self._assignment(child)
                words += [Word(text)] if words else []  # else it stands before the command
            elif child.type.endswith("_redirect"):
                given = self._redirect(child, given, words, [])
            elif child.type != "comment":
                words += self._words(child)
        words += more
        if words and words[0].text in _SET_VARIABLES:
            for word in (Word("REPLY"), *words[1:]):
                self._assign(word.text.removeprefix("-v"), UNKNOWN)
        if words or given.redirects:
            self.commands.append(ShellCommand(tuple(words), given, background))

    # --- variables ---

    def _assignment(self, node: Node, *, alone: bool = False) -> str:
        """Set a variable; return the assignment as one word."""
        name, *_, value = node.children
        if name.type == "subscript":
            self._script(name.children[1:], Input())
            name = name.children[0]
        text = " ".join(one.text for one in self._words(value, split=False)) if value.is_named else ""
        if _raw(name) != "IFS":
            is_added = any(child.type == "+=" for child in node.children)
            self._assign(_raw(name), UNKNOWN if is_added else text)
        elif alone and text.strip(" \t\n"):
            raise UnreadableCommand("it splits words at unusual characters")
        return f"{_raw(name)}={text}"

    def _assign(self, name: str, value: str) -> None:
        """Set a variable. If it has another value already, only running would tell which one counts, as after
        an `&&` or in a subshell."""
        self._variables[name] = value if self._variables.get(name, value) == value else UNKNOWN

    def _value(self, name: str) -> str:
        """Return the value of a variable. Parameters of a script are not known, those of the line are
        empty."""
        if name in self._variables:
            return self._variables[name]
        if name in "#?$!-":
            return UNKNOWN
        return "" if name.isdigit() or name in "@*" else self._unset

    # --- words ---

    def _words(self, node: Node, *, split: bool = True) -> list[Word]:
        """Return the words that this word expands to; one or none without `split`."""
        before = len(self.commands)
        parts = self._text(node, split=split).split(_SPLIT)
        inner = tuple(self.commands[before:])
        self._left -= sum(map(len, parts)) + len(parts)
        if self._left < 0:
            raise UnreadableCommand("it expands to too much text")
        texts = [re.sub(r"^~(?=/|$)", self._variables.get("HOME", "~"), part) for part in parts if part]
        is_variable = (node.children[0] if node.type == "command_name" else node).type.endswith("expansion")
        return [Word(_unmarked(text), inner, is_variable) for text in texts or ([""] if inner else [])]

    def _text(self, node: Node, *, split: bool) -> str:
        """Return the text of a part of a word, with marks."""
        raw = _raw(node)
        match node.type:
            case "raw_string":
                return _QUOTED + raw[1:-1]
            case "ansi_c_string":
                return _QUOTED + _decoded(raw[2:-1])
            case "string" | "translated_string":
                return _QUOTED + self._spliced(node, node.start_byte + raw.index('"') + 1, node.end_byte - 1)
            case "concatenation" | "command_name":
                text = "".join(self._text(child, split=split) for child in node.children)
                return _BRACES.sub(UNKNOWN, text)
            case "simple_expansion":
                return self._split(self._value(raw[1:]), split=split or raw == "$@")
            case "expansion":
                return self._parameter(node, split=split)
            case "array":
                return _QUOTED + " ".join(
                    one.text for child in node.children[1:-1] for one in self._words(child)
                )
            case "command_substitution":
                return self._split(self._substitution(node), split=split)
            case "process_substitution":
                self._script(node.children, Input(is_piped=raw[0] == ">"))
                return f"/dev/fd/{UNKNOWN}"
            case "word":
                return re.sub(r"\\(.)", lambda found: _QUOTED + found[1].strip("\n"), raw, flags=re.S)
        before = len(self.commands)
        self._script(node.children, Input())
        return UNKNOWN if len(self.commands) > before or node.type == "arithmetic_expansion" else raw

    def _spliced(self, node: Node, at: int, end: int) -> str:
        """Return a text in double quotes, or one that is read in the same way."""
        parts = list[str]()
        for child in node.children:
            if child.type == "expansion" and "'" in _raw(child):
                raise UnreadableCommand("it is not clear what an apostrophe quotes")
            if child.type in _WORDS:
                parts += [self._quoted(at, child.start_byte), self._text(child, split=False)]
                at = child.end_byte
        return "".join([*parts, self._quoted(at, end)])

    def _quoted(self, start: int, end: int) -> str:
        text = self._source[start:end].decode()
        return re.sub(r"\\([$`\"\\\n])", lambda found: found[1].strip("\n"), text)

    def _split(self, value: str, *, split: bool) -> str:
        self._left -= len(value)
        return re.sub(r"[ \t\n]+", _SPLIT, value) if split else value

    def _substitution(self, node: Node) -> str:
        """Return the output of a command: unknown, but for one that finds a path."""
        raw, before = _raw(node), len(self.commands)
        if raw[0] == "`" and "\\" in raw:
            self.read(re.sub(r'\\([`$\\"])', r"\1", raw[1:-1]), Input())
        else:
            self._script(node.children, Input())
        texts = self.commands[-1].texts if len(self.commands) == before + 1 else []
        is_path = texts[:1] in (["which"], ["realpath"], ["readlink"]) or texts[:2] == ["command", "-v"]
        return texts[-1] if is_path else UNKNOWN

    def _parameter(self, node: Node, *, split: bool) -> str:
        """Return the value of `${name}` and `${name:-other}`; all else is unknown."""
        before = len(self.commands)
        name, *rest = node.children[1:]
        if name.type in _WORDS:
            self._words(name)
        others = "".join(self._text(child, split=False) for child in rest[1:-1] if child.is_named)
        if name.type == "subscript":
            self._script(name.children[1:], Input())
            is_all, name = _raw(name).endswith(("[@]", "[*]")), name.children[0]
            return self._split(self._value(_raw(name)) if is_all else UNKNOWN, split=split or is_all)
        key, operator = _raw(name), _raw(rest[0]) if rest else ""
        is_unset = key not in self._variables
        if operator == "}":
            return self._split(self._value(key), split=split or key == "@")
        if operator in (":=", "="):
            self._assign(key, others)
        if operator in (":-", "-", ":=", "=") and len(self.commands) == before and is_unset:
            return self._split(others, split=split)
        return UNKNOWN


def _raw(node: Node) -> str:
    return node.text.decode() if node.text is not None else ""


def _decoded(text: str) -> str:
    """Return the text of `$'…'`; unknown if it has an escape that Python reads in another way."""
    if not _ESCAPES.fullmatch(text):
        return UNKNOWN
    decoded = text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    return UNKNOWN if NO_TEXT.search(decoded) else decoded


def _unmarked(text: str) -> str:
    return text.replace(_QUOTED, "").replace(_SPLIT, " ")
