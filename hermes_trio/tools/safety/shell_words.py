"""Read the words of a command line: quotes, variables, braces, and the commands within a word. Pure."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from .braces import braced
from .command_line import (
    LONGEST,
    UNKNOWN,
    UNSET,
    Pieces,
    ShellCommand,
    UnreadableCommand,
    Word,
    decoded,
    known_output,
)

DEEPEST = 24

# A shell ends a word at these characters only, not at the other spaces of Unicode.
_PLAIN = re.compile(r"[^ \t\n;&|()<>\\'\"$`}]+|}")
_SUBSCRIPT = re.compile(r"[A-Za-z_]\w*\[[^]\n'\"\\$`]*\]\+?=")
ASSIGNS = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!_-]")
_PARAMETER = re.compile(r"\$\{([#!]?)(\w+|[@*#?$!-])?(:?[-=+?])?")
_PARENTHESES = re.compile(r"\\.|\$'(?:[^'\\]|\\.)*'|'[^']*'|\"(?:[^\"\\]|\\.)*\"|[()]", re.S)


class WordReader(ABC):
    """Reads a text from start to end, word by word."""

    def __init__(self, text: str, variables: dict[str, str], depth: int) -> None:
        self.text, self.at, self.depth = text, 0, depth
        self.variables = variables
        self.unset = UNSET
        """The value of a variable that is not set here."""
        self.commands: list[ShellCommand] = []
        """Every command that has been read, inner ones first."""
        self.left = 8 * LONGEST
        """The characters that the text may still expand to: variables in variables grow fast."""

    @abstractmethod
    def script(self, closing: str) -> None:
        """Read commands up to the closing character, or to the end."""

    @abstractmethod
    def substitution(self, opening: int) -> tuple[ShellCommand, ...]:
        """Return the commands of a substitution; its opening mark has `opening` characters."""

    @abstractmethod
    def inside(self, text: str) -> WordReader:
        """Return a reader of a text that stands in this one."""

    def word(self, *, assigns: bool = False) -> list[Word]:
        """Read the next word, which may expand to several or none. With `assigns` it may be an assignment."""
        pieces = Pieces(self.variables["IFS"] + " \t\n")
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "(" and assigns and ASSIGNS.fullmatch(pieces.text):
                pieces.split_at = ""
                pieces.add(self._array(), quoted=True)
            elif (
                char == "(" and not assigns and pieces.text[-1:] in tuple("@?*+!") and pieces.mask[-1:] == "u"
            ):
                self._alternatives(pieces)
            elif char in " \t\n;&|()<>":
                break
            elif assigns and not pieces.text and (subscript := _SUBSCRIPT.match(self.text, self.at)):
                pieces.add(subscript[0], quoted=False)
                pieces.split_at = ""
                self.at = subscript.end()
            else:
                self._piece(pieces)
                if assigns and ASSIGNS.match(pieces.text):
                    pieces.split_at = ""  # the value of a variable is one word
        pieces.next()
        return self._finished(pieces, assigns=assigns)

    def _piece(self, pieces: Pieces) -> None:
        """Read the next piece of a word: a quoted text, an expansion, or plain text."""
        char = self.text[self.at]
        if char == "\\":
            pieces.add(self.text[self.at + 1 : self.at + 2].replace("\n", ""), quoted=True)
            self.at += 2
        elif char == "'":
            pieces.add(self._up_to("'", self.at + 1), quoted=True)
        elif char == '"':
            self.at += 1
            self._double(pieces, '"')
        elif char == "$":
            self._dollar(pieces, quoted=False)
        elif char == "`":
            self._backtick(pieces, quoted=False)
        else:
            plain = _PLAIN.match(self.text, self.at)
            found = plain[0] if plain else char
            pieces.add(found, quoted=False)
            self.at += len(found)

    def _alternatives(self, pieces: Pieces) -> None:
        """Read the alternatives of a pattern such as `@(a|b)`."""
        depth = 0
        while True:
            char = self.text[self.at : self.at + 1]
            if not char or self.depth + depth > DEEPEST:
                raise UnreadableCommand("a pattern is not closed")
            depth += {"(": 1, ")": -1}.get(char, 0)
            if char in "()":
                pieces.add(char, quoted=True)
                self.at += 1
                if not depth:
                    return
            else:
                self._piece(pieces)

    def _finished(self, pieces: Pieces, *, assigns: bool) -> list[Word]:
        inner = tuple(pieces.inner)
        words = []
        for text, mask in pieces.done:
            for one, its_mask in [(text, mask)] if pieces.split_at == "" else braced(text, mask):
                home = self.variables.get("HOME", "~")
                if its_mask[:1] == "u" and (one == "~" or one.startswith("~/")):
                    one = home + one[1:]
                elif assigns and (found := ASSIGNS.match(one)) and one[found.end() :][:2] in ("~", "~/"):
                    one = one[: found.end()] + home + one[found.end() + 1 :]
                self._spend(len(one) + 1)
                words.append(Word(one, inner))
        return words

    def _spend(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise UnreadableCommand("it expands to too much text")

    def _up_to(self, char: str, start: int) -> str:
        end = self.text.find(char, start)
        if end < 0:
            raise UnreadableCommand("a quote is not closed")
        self.at = end + 1
        return self.text[start:end]

    def _double(self, pieces: Pieces, closing: str) -> None:
        """Read a text in double quotes, or one that is read in the same way."""
        pieces.has_quotes = True
        while True:
            if self.at >= len(self.text):
                if closing:
                    raise UnreadableCommand("a quote is not closed")
                return
            char = self.text[self.at]
            if char == closing:
                self.at += 1
                return
            if char == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                pieces.add(
                    {"\n": ""}.get(following, following if following in '$`"\\' else char + following),
                    quoted=True,
                )
                self.at += 2
            elif char == "$":
                self._dollar(pieces, quoted=True)
            elif char == "`":
                self._backtick(pieces, quoted=True)
            else:
                end = re.compile(r'[^\\$`"]+|"').match(self.text, self.at)
                assert end is not None  # noqa: S101 - all special characters were handled above
                pieces.add(end[0], quoted=True)
                self.at = end.end()

    def within(self, text: str) -> str:
        """Return a text with its variables and commands expanded, as in a here-document."""
        outer, at = self.text, self.at
        self.text, self.at, self.depth = text, 0, self.depth + 1
        if self.depth > DEEPEST:
            raise UnreadableCommand("it is too deep")
        pieces = Pieces("")
        self._double(pieces, "")
        self.text, self.at, self.depth = outer, at, self.depth - 1
        self._spend(len(pieces.text))
        return pieces.text

    def _array(self) -> str:
        self.at += 1
        values: list[str] = []
        while True:
            blank = re.compile(r"(?:\s|#[^\n]*\n)*").match(self.text, self.at)
            self.at = blank.end() if blank else self.at
            if self.text[self.at : self.at + 1] == ")":
                self.at += 1
                return " ".join(values)
            before = self.at
            values += [word.text for word in self.word()]
            if self.at == before:
                raise UnreadableCommand("an array is not closed")

    # --- expansions ---

    def _dollar(self, pieces: Pieces, *, quoted: bool) -> None:
        while self.text.startswith("\\\n", self.at + 1):  # a shell has joined the lines by now
            self.text = self.text[: self.at + 1] + self.text[self.at + 3 :]
        rest = self.text[self.at + 1 : self.at + 3]
        if rest[:1] == "'" and not quoted:
            found = re.compile(r"((?:[^'\\]|\\.)*)'", re.S).match(self.text, self.at + 2)
            if found is None:
                raise UnreadableCommand("a quote is not closed")
            pieces.add(decoded(found[1]), quoted=True)
            self.at = found.end()
        elif rest[:1] == '"' and not quoted:
            self.at += 2
            self._double(pieces, '"')
        elif rest == "((" and self.arithmetic(self.at + 1):
            pieces.add(UNKNOWN, quoted=quoted)
        elif rest[:1] == "(":
            self._put_output(pieces, self.substitution(2), quoted=quoted)
        elif rest[:1] == "{":
            self._parameter(pieces, quoted=quoted)
        elif found := _NAME.match(self.text, self.at + 1):
            self.at = found.end()
            value = self._value(found[0])
            self._spend(len(value or ""))
            pieces.expand(self.unset if value is None else value, quoted=quoted and found[0] != "@")
        else:
            pieces.add("$", quoted=quoted)
            self.at += 1

    def assign(self, name: str, value: str) -> None:
        """Set a variable. If it has another value already, only running would tell which one counts, as after
        an `&&` or in a subshell."""
        self.variables[name] = value if self.variables.get(name, value) == value else UNKNOWN

    def _value(self, name: str) -> str | None:
        """Return the value of a variable; None if it is not set. Parameters of a script that are not given
        are empty."""
        if name in self.variables:
            return self.variables[name]
        if name in "#?$!-":
            return UNKNOWN
        return "" if name.isdigit() or name in "@*" else None

    def _parameter(self, pieces: Pieces, *, quoted: bool) -> None:
        found = _PARAMETER.match(self.text, self.at)
        assert found is not None  # noqa: S101 - the pattern matches any text
        self.at = found.end()
        sign, name, kind = found[1], found[2] or "", found[3] or ""
        other = self._up_to_brace(quoted=quoted, literal=bool(kind))
        value = self._value(name) if name else UNKNOWN
        if sign == "!" and value is not None:
            value = self._value(value)
        elif sign == "#":
            value = UNKNOWN
        elif kind:
            value = self._chosen(name, kind, value, other)
        elif other.startswith(("[@]", "[*]")):
            quoted = quoted and other.startswith("[*]")
        elif other:
            value = UNKNOWN
        self._spend(len(value or ""))
        pieces.expand(self.unset if value is None else value, quoted=quoted and name != "@")

    def _chosen(self, name: str, kind: str, value: str | None, other: str) -> str | None:
        """Return the value of `${name:-other}` and its like."""
        is_set = name in self.variables
        if kind[-1] == "+":
            if not is_set:
                return UNKNOWN
            return other if value or kind == "+" else ""
        if kind[-1] == "?":
            return value
        value = value if value or (is_set and kind in ("-", "=")) else other
        if kind[-1] == "=":
            self.assign(name, value or "")
        return value

    def _up_to_brace(self, *, quoted: bool, literal: bool) -> str:
        """Read the text after the name of a variable, up to the closing brace. Within double quotes an
        apostrophe in a default value quotes nothing."""
        if self.depth > DEEPEST:
            raise UnreadableCommand("it is too deep")
        self.depth += 1
        pieces = Pieces("")
        while (char := self.text[self.at : self.at + 1]) != "}":
            if not char:
                raise UnreadableCommand("a brace is not closed")
            if char == "'" and quoted and literal:
                pieces.add(char, quoted=True)
                self.at += 1
            else:
                self._piece(pieces)
        self.at += 1
        self.depth -= 1
        return pieces.text

    def arithmetic(self, start: int) -> bool:
        """Skip the arithmetic expression that starts here, and read the commands in it. Return False if it is
        none: `((a);b)` is two subshells."""
        depth = 0
        for found in _PARENTHESES.finditer(self.text, start):
            depth += {"(": 1, ")": -1}.get(found[0], 0)
            if depth == 1 and found[0] == ")":
                if self.text[found.end() : found.end() + 1] != ")":
                    return False
                self.at = found.end() + 1
                self.within(self.text[start : self.at])
                return True
        raise UnreadableCommand("a parenthesis is not closed")

    def _backtick(self, pieces: Pieces, *, quoted: bool) -> None:
        found = re.compile(r"((?:[^`\\]|\\.)*)`", re.S).match(self.text, self.at + 1)
        if found is None:
            raise UnreadableCommand("a quote is not closed")
        self.at = found.end()
        inside = self.inside(re.sub(r'\\([`$\\"])' if quoted else r"\\([`$\\])", r"\1", found[1]))
        inside.left = self.left
        inside.script("")
        self.left = inside.left
        self.commands += inside.commands
        self._put_output(pieces, tuple(inside.commands), quoted=quoted)

    def _put_output(self, pieces: Pieces, commands: tuple[ShellCommand, ...], *, quoted: bool) -> None:
        pieces.inner += commands
        only = commands[0] if len(commands) == 1 and not commands[0].redirects else None
        output = known_output(only)
        pieces.expand(UNKNOWN if output is None else output.rstrip("\n"), quoted=quoted)
