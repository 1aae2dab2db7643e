"""The values that reading a command line yields: commands and words. Pure.

A piece of text that only running the line would tell is represented by a character that no command line has:
`UNKNOWN` for text that the line computes, `UNSET` for a variable that is set elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field, replace


def named(names: str) -> frozenset[str]:
    """Return the names in a text as a set."""
    return frozenset(names.split())


LONGEST = 128_000
UNKNOWN, UNSET = "\0", "\1"

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_ANSI_C = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.S
)
_ESCAPED = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "e": "\x1b",
    "E": "\x1b",
}


class UnreadableCommand(ValueError):
    """A command line that cannot be read as a shell would read it."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, without its quotes."""

    text: str
    inner: tuple[ShellCommand, ...] = ()
    """The commands whose output is a part of this word."""
    may_be_none: bool = False
    """The word consists of variables only, so it is no word at all if they are empty. Whether they are set,
    as after an `&&` or in a subshell, only running would tell."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One command of a command line: its words, and where it reads and writes."""

    words: tuple[Word, ...]
    redirects: tuple[tuple[str, Word], ...] = ()
    body: Sequence[str] = ()
    is_piped: bool = False
    source: ShellCommand | None = None
    """The command whose output this one reads through a pipe, if it is one command."""
    operator: str = ""
    """The operator after it: `&`, `|`, `;` and so on."""

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words]

    @property
    def text_in(self) -> str | None:
        """The text that it reads, if it stands in the command line. A here-document stands after the end of
        the line, and is known only when that has been read."""
        return self.body[0] if self.body else None

    def inside(self, around: ShellCommand) -> ShellCommand:
        """Return this command as a part of a script that `around` runs: it reads the input of `around`,
        unless it has an input of its own."""
        if self.is_piped or self.body or any("<" in operator for operator, _ in self.redirects):
            return self
        inherited = tuple(one for one in around.redirects if "<" in one[0])
        return replace(
            self,
            redirects=self.redirects + inherited,
            body=around.body,
            is_piped=around.is_piped,
            source=around.source,
        )


@dataclass(slots=True)
class Pieces:
    """A word while it is being read: its characters, and which of them are quoted."""

    split_at: str
    done: list[tuple[str, str]] = field(default_factory=list)
    text: str = ""
    mask: str = ""
    has_quotes: bool = False
    inner: list[ShellCommand] = field(default_factory=list)

    def add(self, text: str, *, quoted: bool) -> None:
        self.text += text
        self.mask += ("q" if quoted else "u") * len(text)
        self.has_quotes = self.has_quotes or quoted

    def expand(self, value: str, *, quoted: bool) -> None:
        """Add the value of a variable or the output of a command: unquoted, it may be several words."""
        if quoted:
            self.add(value, quoted=True)
            return
        first, *others = re.split(f"[{re.escape(self.split_at)}]+", value) if self.split_at else [value]
        self.add(first, quoted=False)
        for part in others:
            self.next()
            self.add(part, quoted=False)

    def next(self) -> None:
        if self.text or self.has_quotes:
            self.done.append((self.text, self.mask))
        self.text, self.mask, self.has_quotes = "", "", False


def normalised(text: str) -> str:
    """Return the text as a person sees it: without escape sequences, control and invisible characters, and
    with letters that look alike made the same. A shell may read something else."""
    text = _UNSEEN.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    return unicodedata.normalize("NFKC", text)


def known_output(command: ShellCommand | None) -> str | None:
    """Return the output of a command that only prints a text (`echo`, `printf`); None if it cannot be
    known."""
    if command is None or not command.words or command.is_piped:
        return None
    name, *rest = command.texts
    name = name.rpartition("/")[2]
    if name == "cat" and not rest and command.text_in is not None:
        return command.text_in
    if name == "echo":
        while rest and re.fullmatch(r"-[neE]+", rest[0]):
            rest = rest[1:]
        return decoded(" ".join(rest))
    if name == "printf" and rest and rest[0] != "-v":
        form, values = decoded(rest[0]), rest[1:]
        for value in values:
            form = re.sub(r"%[sbdq]", lambda _, value=value: value, form, count=1)  # type: ignore[misc]
        return UNKNOWN if re.search(r"%[^%]", form) else form
    if name in ("which", "realpath", "readlink") or command.texts[:2] in (["command", "-v"], ["type", "-P"]):
        return rest[-1] if rest else None
    return None


def decoded(text: str) -> str:
    """Return a text with its escapes resolved, as in `$'…'`."""

    def put(found: re.Match[str]) -> str:
        hexadecimal = found[1] or found[2] or found[3]
        try:
            if hexadecimal or found[4]:
                return chr(int(hexadecimal, 16) if hexadecimal else int(found[4], 8))
        except (ValueError, OverflowError):
            return UNKNOWN
        return _ESCAPED.get(found[5], found[5] if found[5] in "\\'\"?" else found[0])

    return _ANSI_C.sub(put, text)
