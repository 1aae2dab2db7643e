"""Reading the words of a command line: quotes, variables, braces, and the commands within a word."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from .command_line import LONGEST, UNKNOWN, UNSET, Command, Pieces, Unreadable, Word, decoded, known_output

DEEPEST = 24

_PLAIN = re.compile(r"[^\s;&|()<>\\'\"$`]+")
ASSIGNS = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!_-]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")


class WordReader(ABC):
    """Reads a text from its beginning to its end, word by word."""

    def __init__(self, text: str, variables: dict[str, str], depth: int) -> None:
        self.text, self.at, self.depth = text, 0, depth
        self.variables = variables
        self.commands: list[Command] = []
        """Every command that has been read, those within others first."""
        self.left = 8 * LONGEST
        """So many characters may come of it: variables in variables grow fast."""

    @abstractmethod
    def script(self, closing: str) -> None:
        """Read commands up to the closing character, or to the end."""

    @abstractmethod
    def substitution(self, opening: int) -> tuple[Command, ...]:
        """Read the commands of which the output is taken, behind so many characters."""

    @abstractmethod
    def inside(self, text: str) -> WordReader:
        """A reader of a text that stands in this one."""

    def word(self, *, assigns: bool = False) -> list[Word]:
        pieces = Pieces(self.variables["IFS"] + " \t\n")
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "(" and assigns and ASSIGNS.fullmatch(pieces.text):
                pieces.split_at = ""
                pieces.add(self._array(), quoted=True)
            elif char == "(" and pieces.text[-1:] in tuple("@?*+!") and pieces.mask[-1:] == "u":
                end = self.text.find(")", self.at)
                if end < 0:
                    raise Unreadable("a pattern is not closed")
                pieces.add(self.text[self.at : end + 1], quoted=True)
                self.at = end + 1
            elif char.isspace() or char in ";&|()<>":
                break
            elif char == "\\":
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
                assert plain is not None  # noqa: S101 - all that is special was looked for
                pieces.add(plain[0], quoted=False)
                self.at = plain.end()
                if assigns and ASSIGNS.match(pieces.text):
                    pieces.split_at = ""  # the value of a variable is one word
        pieces.next()
        return self._finished(pieces, assigns=assigns)

    def _finished(self, pieces: Pieces, *, assigns: bool) -> list[Word]:
        inner = tuple(pieces.inner)
        words = []
        for text, mask in pieces.done:
            for one, its_mask in [(text, mask)] if pieces.split_at == "" else self._braced(text, mask):
                home = self.variables.get("HOME", "~")
                if its_mask[:1] == "u" and (one == "~" or one.startswith("~/")):
                    one = home + one[1:]
                elif assigns and (found := ASSIGNS.match(one)) and one[found.end() :][:2] in ("~", "~/"):
                    one = one[: found.end()] + home + one[found.end() + 1 :]
                self._spend(len(one) + 1)
                words.append(Word(one, inner))
        return words

    def _braced(self, text: str, mask: str) -> list[tuple[str, str]]:
        """What braces stand for: `{rm,-rf}` is two words."""
        done: list[tuple[str, str]] = []
        waiting, left = [(text, mask)], 256
        while waiting:
            one, its_mask = waiting.pop()
            pairs = _BRACES.finditer(one)
            found = next((each for each in pairs if its_mask[each.start()] == "u"), None)
            if found is None:
                done.append((one, its_mask))
                continue
            left -= 1
            if not left:
                raise Unreadable("its braces stand for too much")
            for part in reversed(found[1].split(",")):
                made = one[: found.start()] + part + one[found.end() :]
                waiting.append((made, "u" * len(made)))
        return done

    def _spend(self, characters: int) -> None:
        self.left -= characters
        if self.left < 0:
            raise Unreadable("too much comes of it")

    def _up_to(self, char: str, start: int) -> str:
        end = self.text.find(char, start)
        if end < 0:
            raise Unreadable("a quote is not closed")
        self.at = end + 1
        return self.text[start:end]

    def _double(self, pieces: Pieces, closing: str) -> None:
        """What stands in double quotes, or in a place that is read like them."""
        pieces.has_quotes = True
        while True:
            if self.at >= len(self.text):
                if closing:
                    raise Unreadable("a quote is not closed")
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
                assert end is not None  # noqa: S101 - all that is special was looked for
                pieces.add(end[0], quoted=True)
                self.at = end.end()

    def within(self, text: str) -> str:
        """A text with its variables and commands put in, as in a here-document."""
        outer, at = self.text, self.at
        self.text, self.at, self.depth = text, 0, self.depth + 1
        if self.depth > DEEPEST:
            raise Unreadable("it is too deep")
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
                raise Unreadable("an array is not closed")

    # --- what is put in ---

    def _dollar(self, pieces: Pieces, *, quoted: bool) -> None:
        rest = self.text[self.at + 1 : self.at + 3]
        if rest[:1] == "'" and not quoted:
            found = re.compile(r"((?:[^'\\]|\\.)*)'", re.S).match(self.text, self.at + 2)
            if found is None:
                raise Unreadable("a quote is not closed")
            pieces.add(decoded(found[1]), quoted=True)
            self.at = found.end()
        elif rest[:1] == '"' and not quoted:
            self.at += 2
            self._double(pieces, '"')
        elif rest == "((":
            self.at += 1
            self.arithmetic()
            pieces.add(UNKNOWN, quoted=quoted)
        elif rest[:1] == "(":
            self._put_output(pieces, self.substitution(2), quoted=quoted)
        elif rest[:1] == "{":
            self._parameter(pieces, quoted=quoted)
        elif found := _NAME.match(self.text, self.at + 1):
            self.at = found.end()
            value = self._value(found[0])
            self._spend(len(value or ""))
            pieces.expand(UNSET if value is None else value, quoted=quoted and found[0] != "@")
        else:
            pieces.add("$", quoted=quoted)
            self.at += 1

    def _value(self, name: str) -> str | None:
        """What a variable holds. What a script is given stands for nothing where it was given nothing."""
        if name in self.variables:
            return self.variables[name]
        if name in "#?$!-":
            return UNKNOWN
        return "" if name.isdigit() or name in "@*" else None

    def _parameter(self, pieces: Pieces, *, quoted: bool) -> None:
        found = re.compile(r"\$\{([#!]?)(\w+|[@*#?$!-])").match(self.text, self.at)
        end = self._closing_brace(found.end() if found else self.at + 2)
        rest = self.text[found.end() if found else self.at + 2 : end]
        self.at = end + 1
        value = self._value(found[2]) if found else UNKNOWN
        if found and found[1] == "!" and value is not None:
            value = self._value(value)
        elif found and found[1] == "#":
            value = UNKNOWN
        elif found and rest.startswith(("[@]", "[*]")):
            quoted = quoted and rest.startswith("[*]")
        elif rest[:1] in (":", "-", "=", "+", "?") and (kind := rest.lstrip(":")[:1]) in tuple("-=+?"):
            other = self.within(rest[rest.index(kind) + 1 :])
            if kind == "+":
                value = other if value is None or value else ""
            elif kind != "?":
                value = value or other
        elif rest:
            self.within(rest)
            value = UNKNOWN
        self._spend(len(value or ""))
        pieces.expand(UNSET if value is None else value, quoted=quoted)

    def _closing_brace(self, start: int) -> int:
        depth = 1
        for found in re.compile(r"\\.|'[^']*'|[{}]", re.S).finditer(self.text, start):
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if not depth:
                return found.start()
        raise Unreadable("a brace is not closed")

    def arithmetic(self) -> None:
        """Skip a computation, and read the commands in it."""
        depth = 0
        for found in re.compile(r"[()]").finditer(self.text, self.at):
            depth += 1 if found[0] == "(" else -1
            if not depth:
                text, self.at = self.text[self.at : found.end()], found.end()
                self.within(text)
                return
        raise Unreadable("a parenthesis is not closed")

    def _backtick(self, pieces: Pieces, *, quoted: bool) -> None:
        found = re.compile(r"((?:[^`\\]|\\.)*)`", re.S).match(self.text, self.at + 1)
        if found is None:
            raise Unreadable("a quote is not closed")
        self.at = found.end()
        inside = self.inside(re.sub(r"\\([`$\\])", r"\1", found[1]))
        inside.left = self.left
        inside.script("")
        self.left = inside.left
        self.commands += inside.commands
        self._put_output(pieces, tuple(inside.commands), quoted=quoted)

    def _put_output(self, pieces: Pieces, commands: tuple[Command, ...], *, quoted: bool) -> None:
        pieces.inner += commands
        only = commands[0] if len(commands) == 1 and not commands[0].redirects else None
        output = known_output(only)
        pieces.expand(UNKNOWN if output is None else output.rstrip("\n"), quoted=quoted)
