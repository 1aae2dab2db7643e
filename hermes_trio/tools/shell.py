"""A command line as a shell would read it, as far as that can be known without running it. Pure.

Read are quotes, variables that the line itself sets, `$IFS`, braces, the output of an `echo`, here-documents,
and every command wherever it stands: in a substitution, a loop, a subshell. What only running would tell is
a character that no command line has: `UNKNOWN` for what the line computes, `UNSET` for a variable that it
has from elsewhere. A line that is too long, too deep, or not closed is `Unreadable`; nobody should call it
harmless.

It is no shell. Where one reading is riskier than another it takes the riskier: both branches of an `if`
are read, and a default counts where a variable is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .command_line import UNKNOWN, Command, Unreadable, Word, named, normalised
from .shell_words import ASSIGNS, DEEPEST, WordReader

_BLANKS = re.compile(r"(?:[ \t]|\\\n)*")
_OPERATOR = re.compile(r"&&|&>>?|\|\||\|&|;;&|;;|;&|[;&|\n]")
_REDIRECT = re.compile(r"<<<|<<-?|[<>]&|>>|>\||<>|&>>?|[<>]")
_KEYWORDS = named("if then else elif fi while until do done { } ! time coproc esac function")
_BINDS = named("export declare local readonly typeset")


def commands_of(text: str, variables: Mapping[str, str] | None = None, *, depth: int = 0) -> list[Command]:
    """Every command in a line, those within others first. Raises `Unreadable`."""
    reader = _Reader(normalised(text), {"IFS": " \t\n", **(variables or {})}, depth)
    reader.script("")
    return reader.commands


class _Reader(WordReader):
    """Reads a script, command by command."""

    def __init__(self, text: str, variables: dict[str, str], depth: int) -> None:
        super().__init__(text, variables, depth)
        self._bodies: list[tuple[str, bool, list[str]]] = []
        self._cases = 0

    def inside(self, text: str) -> WordReader:
        return _Reader(text, self.variables, self.depth + 1)

    def substitution(self, opening: int) -> tuple[Command, ...]:
        self.at += opening
        before, bodies, self._bodies = len(self.commands), self._bodies, []
        self.depth += 1
        self.script(")")
        self.depth -= 1
        self._bodies = bodies
        return tuple(self.commands[before:])

    def script(self, closing: str) -> None:
        if self.depth > DEEPEST:
            raise Unreadable("it is too deep")
        opened, source, piped, grouped, cases = 0, None, False, False, self._cases
        while True:
            command, behind = self._command(piped, None if grouped else source)
            if command is not None:
                self.commands.append(command)
            grouped = behind == ")" or (command is None and grouped and behind in ("|", "|&"))
            if behind == ")":
                if opened:
                    opened -= 1
                elif closing == ")":
                    self._cases = cases
                    return
            opened += behind == "("
            if behind == "in" or (behind[:2] in (";;", ";&") and self._cases > cases):
                self._pattern()
            if behind == "":
                if closing:
                    raise Unreadable("a parenthesis is not closed")
                return
            piped = behind in ("|", "|&") or (behind == "(" and piped)
            source = command

    def _command(self, piped: bool, source: Command | None) -> tuple[Command | None, str]:
        words: list[Word] = []
        redirects: list[tuple[str, Word]] = []
        body: list[str] = []
        while True:
            blank = _BLANKS.match(self.text, self.at)
            self.at = blank.end() if blank else self.at
            rest = self.text[self.at : self.at + 3]
            if rest[:1] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
                continue
            if rest[:2] in ("<(", ">("):
                inner = self.substitution(2)
                words.append(Word(f"/dev/fd/{UNKNOWN}", inner))
                continue
            if rest[:2] == "((" and not words:
                self.arithmetic()
                continue
            if rest[:1] in ("<", ">") or rest[:2] == "&>":
                self._redirect(redirects, body)
                continue
            behind = self._operator()
            if behind is not None:
                break
            before = self.at
            found = self.word(assigns=not words or words[0].text in _BINDS)
            if self.at == before:
                raise Unreadable("a character stands where none can")
            if len(found) == 1 and found[0].text.isdigit() and self.text[self.at : self.at + 1] in ("<", ">"):
                continue  # the number of a descriptor
            raw = self.text[before : self.at]
            if not words and raw in _KEYWORDS:
                self._cases -= raw == "esac" and self._cases > 0
                continue
            if not words and raw == "[[":
                found += self._condition()
            words += found
            if raw == "in" and len(words) == 3 and words[0].text == "case":
                self._cases += 1
                behind = "in"
                break
        return self._made(words, redirects, body, piped, source, behind), behind

    def _made(
        self,
        words: list[Word],
        redirects: list[tuple[str, Word]],
        body: list[str],
        piped: bool,
        source: Command | None,
        behind: str,
    ) -> Command | None:
        while words and (found := ASSIGNS.match(words[0].text)):
            self.variables[found[1]] = words.pop(0).text[found.end() :]
        self._bind([word.text for word in words])
        if not words and not redirects:
            return None
        if behind == "\n":
            self._read_bodies()
        return Command(tuple(words), tuple(redirects), body, piped, source if piped else None, behind)

    def _bind(self, texts: list[str]) -> None:
        """What a command says of variables."""
        name, rest = (texts[0], texts[1:]) if texts else ("", [])
        if name in _BINDS:
            for text in rest:
                if found := ASSIGNS.match(text):
                    self.variables[found[1]] = text[found.end() :]
        elif name in ("read", "mapfile", "readarray", "getopts"):
            self.variables.update((text, UNKNOWN) for text in rest if not text.startswith("-"))
        elif name in ("for", "select") and len(rest) > 1:
            self.variables[rest[0]] = rest[2] if len(rest) == 3 else UNKNOWN
        elif name == "printf" and rest[:1] == ["-v"] and len(rest) > 1:
            self.variables[rest[1]] = UNKNOWN
        elif name == "set" and "--" in rest:
            given = rest[rest.index("--") + 1 :]
            self.variables |= {str(number): text for number, text in enumerate(given, start=1)}
            self.variables |= dict.fromkeys("@*", " ".join(given))

    def _operator(self) -> str | None:
        """The operator that ends a command here; None if it goes on."""
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
            redirects.append((found[0], Word(f"/dev/fd/{UNKNOWN}", self.substitution(2))))
            return
        before = self.at
        words = self.word()
        if not words:
            raise Unreadable("a redirection leads nowhere")
        if found[0] in ("<<", "<<-"):
            raw = self.text[before : self.at]
            self._bodies.append((words[0].text, any(c in raw for c in "'\"\\"), body))
        elif found[0] == "<<<":
            body[:] = [words[0].text]
        else:
            redirects.append((found[0], words[0]))

    def _read_bodies(self) -> None:
        """The here-documents that begin behind this line."""
        bodies, self._bodies = self._bodies, []
        for delimiter, literal, body in bodies:
            lines = []
            while self.at < len(self.text):
                line, _, _ = self.text[self.at :].partition("\n")
                self.at += len(line) + 1
                if line.lstrip("\t") == delimiter:
                    break
                lines.append(line)
            self.at = min(self.at, len(self.text))
            text = "\n".join(lines)
            body[:] = [text if literal else self.within(text)]

    def _pattern(self) -> None:
        """The pattern of a case, up to its parenthesis; or the end of the cases."""
        blank = re.compile(r"(?:\s|\\\n|#[^\n]*\n)*").match(self.text, self.at)
        self.at = blank.end() if blank else self.at
        if re.compile(r"esac\b").match(self.text, self.at):
            return
        found = re.compile(r"\(?(?:[^()'\"\\]|\\.|'[^']*'|\"[^\"]*\")*\)", re.S).match(self.text, self.at)
        if found is None:
            raise Unreadable("a case is not closed")
        self.at = found.end()

    def _condition(self) -> list[Word]:
        """What stands between `[[` and `]]`."""
        end = re.compile(r"(?:[^\\'\"\]]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\](?!\]))*\]\]", re.S).match(
            self.text, self.at
        )
        if end is None:
            raise Unreadable("a condition is not closed")
        text, self.at = self.text[self.at : end.end()], end.end()
        return [Word(self.within(text))]
