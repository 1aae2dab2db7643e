"""Read a command line as a shell would, as far as that is possible without running it. Pure.

The reader knows quotes, variables that the line itself sets, `$IFS`, braces, the output of an `echo`,
here-documents, and finds every command wherever it stands: in a substitution, a loop, a subshell. Text that
only running the line would tell becomes a character that no command line has: `UNKNOWN` for text that the
line computes, `UNSET` for a variable that is set elsewhere. A line that is too long, too deep, or not closed
raises `UnreadableCommand`; it must not count as harmless.

It is no shell. Of two readings it takes the riskier one: both branches of an `if` are read, a default counts
where a variable is not known, and a variable that gets a second value is `UNKNOWN`, because either value may
count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from .command_line import LONGEST, UNKNOWN, ShellCommand, UnreadableCommand, Word, named
from .shell_words import ASSIGNS, DEEPEST, WordReader

_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_OPERATOR = re.compile(r"&&|&>>?|\|\||\|&|;;&|;;|;&|[;&|\n]")
_REDIRECT = re.compile(r"<<<|<<-?|[<>]&|>>|>\||<>|&>>?|[<>]")
_KEYWORDS = named("if then else elif fi while until do done { } ! time coproc esac function")
_COMPOUNDS = named("{ if while until for case select [[")
_BINDS = named("export declare local readonly typeset")
_TIME_OPTIONS = re.compile(r"(?:[ \t]+(?:-p|--)(?=[ \t]))*")
_VARIABLES = re.compile(r"(?:\$(?:\w+|\{\w+\}))+")
_DESCRIPTOR = re.compile(r"[0-9]+|\{\w+\}")
_SEPARATORS = re.compile(r"[ \t\n,:;|=%+@]*")
_DELIMITER = re.compile(r"\\?([\w.+-]+)|'([^'\n]+)'|\"([^\"\\$`\n]+)\"")
_LINES_TO_IN = re.compile(r"\n(?:[ \t\n]|#[^\n]*\n)*(?=in[ \t\n])")
_LINE = re.compile(r"([^\n]*)\n?")
_JOINED_LINE = re.compile(r"((?:[^\\\n]|\\.)*\\?)\n?", re.S)
_GROUP = re.compile(r"[ \t\n]*(?:[({]|(?:if|while|until|for|case|select)\b)")
_APART = re.compile(r"(?:[ \t\n|]|\\\n|(?<=[ \t\n])#[^\n]*)*")
_APART_IN_CONDITION = re.compile(r"(?:[ \t\n;&|()<>]|\\\n)*")


def commands_of(
    text: str, variables: Mapping[str, str] | None = None, *, depth: int = 0
) -> list[ShellCommand]:
    """Return every command in a line, inner ones first. Raises `UnreadableCommand`."""
    if len(text) > LONGEST:
        raise UnreadableCommand("it is too long")
    reader = _Reader(text, {"IFS": " \t\n", **(variables or {})}, depth)
    reader.script("")
    return reader.commands


class _Reader(WordReader):
    """Reads a script command by command."""

    def __init__(self, text: str, variables: dict[str, str], depth: int) -> None:
        super().__init__(text, variables, depth)
        if depth:  # the script around this one may have set any variable
            self.unset = UNKNOWN
        self._bodies: list[tuple[str, bool, bool, list[str]]] = []
        """The here-documents that start after this line: the delimiter of each, whether it is literal (no
        variables), whether leading tabs are removed, and the list that receives its text."""
        self._cases = 0

    def inside(self, text: str) -> WordReader:
        reader = _Reader(text, self.variables, self.depth + 1)
        reader.unset = self.unset
        return reader

    def substitution(self, opening: int, *, piped: bool = False) -> tuple[ShellCommand, ...]:
        self.at += opening
        before, bodies, self._bodies = len(self.commands), self._bodies, []
        self.depth += 1
        self.script(")", piped=piped)
        self.depth -= 1
        self._bodies = bodies
        return tuple(self.commands[before:])

    def script(self, closing: str, *, piped: bool = False) -> None:
        if self.depth > DEEPEST:
            raise UnreadableCommand("it is too deep")
        opened, source, grouped, cases, fed = 0, None, False, self._cases, piped
        while True:
            command, operator = self._command(piped, None if grouped else source)
            if command is not None:
                self.commands.append(command)
            elif operator == "\n":
                continue  # an empty line: an operator before it, such as a pipe, still counts after it
            grouped = operator == ")" or (command is None and grouped and operator in ("|", "|&"))
            if operator == ")":
                if opened:
                    opened -= 1
                elif closing == ")":
                    self._cases = cases
                    return
            opened += operator == "("
            if operator == "in" or (operator[:2] in (";;", ";&") and self._cases > cases):
                self._pattern()
            if operator == "":
                if closing:
                    raise UnreadableCommand("a parenthesis is not closed")
                return
            piped = operator in ("|", "|&") or (operator == "(" and piped) or fed
            fed = fed or (piped and _GROUP.match(self.text, self.at) is not None)
            source = command

    def _command(self, piped: bool, source: ShellCommand | None) -> tuple[ShellCommand | None, str]:
        words: list[Word] = []
        redirects: list[tuple[str, Word]] = []
        body: list[str] = []
        word_count = before = 0
        names = False
        while True:
            blank = _BLANKS.match(self.text, self.at)
            self.at = blank.end() if blank else self.at
            rest = self.text[self.at : self.at + 3]
            is_case = word_count == 2 and words[:1] == [Word("case")] and not redirects
            is_for = word_count == 2 and words[:1] in ([Word("for")], [Word("select")])
            if rest[:1] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
                continue
            if is_case and (lines := _LINES_TO_IN.match(self.text, self.at)):
                self.at = lines.end()
                continue
            if rest[:2] in ("<(", ">("):
                inner = self.substitution(2, piped=rest[0] == ">")
                words.append(Word(f"/dev/fd/{UNKNOWN}", inner))
                continue
            if rest[:2] == "((" and words in ([], [Word("for")]) and self.arithmetic(self.at):
                continue
            if rest[:1] in ("<", ">") or rest[:2] == "&>":
                self._redirect(redirects, body)
                continue
            operator = self._operator()
            if operator is not None:
                break
            before = self.at
            new_words = self.word(assigns=not words or words[0].text in _BINDS)
            if self.at == before:
                raise UnreadableCommand("a character stands where none can")
            raw = self.text[before : self.at].replace("\\\n", "")
            if _DESCRIPTOR.fullmatch(raw) and self.text[self.at : self.at + 1] in ("<", ">"):
                continue
            if not words and raw in _KEYWORDS:
                names = raw in ("function", "coproc")
                self._cases -= raw == "esac" and self._cases > 0
                if raw == "time" and (options := _TIME_OPTIONS.match(self.text, self.at)):
                    self.at = options.end()
                continue
            if (names and len(words) == 1 and raw in _COMPOUNDS) or (is_for and raw in ("do", "{")):
                self.at, operator = before, "{"
                break
            if not words and raw == "[[":
                new_words += self._condition()
            if _VARIABLES.fullmatch(raw):
                new_words = [replace(word, may_be_none=True) for word in new_words]
            words += new_words
            word_count += 1
            if raw == "in" and is_case:
                self._cases += 1
                operator = "in"
                break
        return self._made(words, redirects, body, piped, source, operator), operator

    def _made(
        self,
        words: list[Word],
        redirects: list[tuple[str, Word]],
        body: list[str],
        piped: bool,
        source: ShellCommand | None,
        operator: str,
    ) -> ShellCommand | None:
        given = list[tuple[str, str]]()
        while words and (found := ASSIGNS.match(words[0].text)):
            given.append((found[1], words.pop(0).text[found.end() :]))
        for name, value in given:
            if name != "IFS":
                self.assign(name, value)
            elif not words:  # else it counts only for that command
                self._split_at(value)
        self._bind([word.text for word in words])
        if not words and not redirects:
            return None
        if operator == "\n":
            self._read_bodies()
        return ShellCommand(tuple(words), tuple(redirects), body, piped, source if piped else None, operator)

    def _split_at(self, characters: str) -> None:
        """Split words at these characters too. Only running would tell whether the earlier ones still
        count."""
        if not _SEPARATORS.fullmatch(characters):
            raise UnreadableCommand("it splits words at unusual characters")
        self.variables["IFS"] += characters

    def _bind(self, texts: list[str]) -> None:
        """Set the variables that a command sets."""
        name, rest = (texts[0], texts[1:]) if texts else ("", [])
        if name in _BINDS:
            for text in rest:
                if found := ASSIGNS.match(text):
                    self.assign(found[1], text[found.end() :])
        elif name in ("read", "mapfile", "readarray", "getopts"):
            for text in ("REPLY", *rest):
                self.assign(text, UNKNOWN)
        elif name in ("for", "select") and len(rest) > 1:
            self.assign(rest[0], rest[2] if len(rest) == 3 else UNKNOWN)
        elif name == "printf" and rest[:1] and rest[0].startswith("-v"):
            self.assign(rest[0][2:] or "".join(rest[1:2]), UNKNOWN)
        elif name == "set" and rest and (rest[0] == "--" or not rest[0].startswith(("-", "+"))):
            given = rest[rest[0] == "--" :]
            for number, text in enumerate(given, start=1):
                self.assign(str(number), text)
            self.assign("@", " ".join(given))
            self.assign("*", " ".join(given))

    def _operator(self) -> str | None:
        """Return the operator that ends a command here; None if the command goes on."""
        if self.at >= len(self.text):
            self._read_bodies()
            return ""
        if self.text[self.at] in "()":
            self.at += 1
            return self.text[self.at - 1]
        found = _OPERATOR.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        if found[0] == "\n":
            self._read_bodies()
        return found[0]

    def _redirect(self, redirects: list[tuple[str, Word]], body: list[str]) -> None:
        found = _REDIRECT.match(self.text, self.at)
        assert found is not None  # noqa: S101 - the caller looked
        self.at = found.end()
        blank = _BLANKS.match(self.text, self.at)
        self.at = blank.end() if blank else self.at
        if self.text[self.at : self.at + 2] in ("<(", ">("):
            inner = self.substitution(2, piped=self.text[self.at] == ">")
            redirects.append((found[0], Word(f"/dev/fd/{UNKNOWN}", inner)))
            return
        before = self.at
        words = self.word()
        if not words:
            raise UnreadableCommand("a redirection has no target")
        if found[0] in ("<<", "<<-"):
            ends = _DELIMITER.fullmatch(raw := self.text[before : self.at])
            if ends is None:
                raise UnreadableCommand("the end of a here-document cannot be known")
            delimiter = ends[1] or ends[2] or ends[3]
            self._bodies.append((delimiter, raw[0] in "'\"\\", found[0] == "<<-", body))
        elif found[0] == "<<<":
            body[:] = [words[0].text]
        else:
            redirects.append((found[0], words[0]))

    def _read_bodies(self) -> None:
        """Read the here-documents that start here."""
        bodies, self._bodies = self._bodies, []
        for delimiter, literal, tabs, body in bodies:
            lines = []
            while self.at < len(self.text):
                found = (_LINE if literal else _JOINED_LINE).match(self.text, self.at)
                assert found is not None  # noqa: S101 - the pattern matches any text
                self.at = found.end()
                line = found[1] if literal else re.sub(r"(\\[^\n])|\\\n", r"\1", found[1])
                line = line.lstrip("\t") if tabs else line
                if line == delimiter:
                    break
                lines.append(line)
            text = "\n".join(lines)
            body[:] = [text if literal else self.within(text)]

    def _pattern(self) -> None:
        """Skip the pattern of a case up to its parenthesis; or stop before `esac`."""
        self._skip(_APART)
        if re.compile(r"esac\b").match(self.text, self.at):
            return
        self.at += self.text[self.at : self.at + 1] == "("
        while True:
            self._skip(_APART)
            if self.text[self.at : self.at + 1] == ")":
                self.at += 1
                return
            before = self.at
            self.word()
            if self.at == before:
                raise UnreadableCommand("a case is not closed")

    def _condition(self) -> list[Word]:
        """Return the words between `[[` and `]]`."""
        words: list[Word] = []
        while True:
            self._skip(_APART_IN_CONDITION)
            before = self.at
            words += self.word()
            if self.at == before:
                raise UnreadableCommand("a condition is not closed")
            if self.text[before : self.at] == "]]":
                return words

    def _skip(self, apart: re.Pattern[str]) -> None:
        found = apart.match(self.text, self.at)
        self.at = found.end() if found else self.at
