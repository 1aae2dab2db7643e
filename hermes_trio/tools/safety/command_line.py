"""The values that reading a command line yields: commands and words. Pure.

A piece of text that only running the line would tell is represented by a character that no command line may
have: `UNKNOWN` for text that the line computes, `UNSET` for a variable that is set elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass


def named(names: str) -> frozenset[str]:
    """Return the names in a text as a set."""
    return frozenset(names.split())


LONGEST = 128_000
UNKNOWN, UNSET = "\ue000", "\ue001"

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNSEEN = re.compile("[\0-\x08\x0b-\x1f\x7f\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")


class UnreadableCommand(ValueError):
    """A command line that cannot be read as a shell would read it."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, without its quotes."""

    text: str
    inner: tuple[ShellCommand, ...] = ()
    """The commands whose output is a part of this word."""
    may_be_none: bool = False
    """The word consists of a variable only, so it is no word at all if that is empty."""


@dataclass(frozen=True, slots=True)
class Input:
    """The input of a command, as far as the command line tells."""

    is_piped: bool = False
    source: ShellCommand | None = None
    """The command whose output is read through a pipe, if it is one command."""
    redirects: tuple[tuple[str, Word], ...] = ()
    """Redirections, also those of its output."""
    text: str | None = None
    """The text of a here-document or a here-string."""


NO_INPUT = Input()


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One command of a command line: its words, and where it reads and writes."""

    words: tuple[Word, ...]
    input: Input = NO_INPUT
    in_background: bool = False
    """True if it is followed by `&`."""

    @property
    def texts(self) -> list[str]:
        return [word.text for word in self.words]

    @property
    def reads_ours(self) -> bool:
        """True if it reads the input of the whole line: no pipe, file or text of its own."""
        own = any("<" in operator for operator, _ in self.input.redirects)
        return not (self.input.is_piped or own or self.input.text is not None)


def normalised(text: str) -> str:
    """Return the text as a person sees it: without escape sequences, control and invisible characters, and
    with letters that look alike made the same. A shell may read something else."""
    text = _UNSEEN.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    return unicodedata.normalize("NFKC", text)
