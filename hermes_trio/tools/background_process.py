"""A background process of a session, and the watch over its output."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from ..host.processes.process_groups import ChildProcess
from .sandbox.views import NOTHING, Grants

MATCH_EVERY = 15.0
"""Shortest time in seconds between two reported matches."""
MOST_STRIKES = 3
MOST_LINES = 20
MOST_CHARACTERS = 2000
LONGEST_WORD = 400
"""Characters beyond the limit that are reported to complete a word."""
LONGEST_LINE = 64 << 10
"""Bytes of an unfinished line that are searched."""


@dataclass(eq=False, slots=True)
class ProcessInput:
    """The input that a process was given, as far as it matters for judging more input."""

    judged: str = ""
    """Complete statements."""
    open: str = ""
    """The beginning of a statement, or of a line, that is not complete yet."""
    lock: trio.Lock = field(default_factory=trio.Lock)
    """Held from the judgement of a piece until it is sent."""


@dataclass(eq=False, slots=True)
class BackgroundProcess:
    """A background process of a session, for as long as the tools may ask for it."""

    id: str
    session_id: str
    session_key: str
    command: str
    process: ChildProcess
    started_at: float
    """Wall clock time, like `ended_at`."""
    cwd: Path
    """The directory in which it was started."""
    notify: bool = False
    """True if its end starts a turn, unless the model has been told of the end by then."""
    grants: Grants | None = None
    """Grants beyond its sandbox; None if it runs in none."""
    told: bool = False
    """True if the model has been told of its end."""
    ended_at: float | None = None
    over: trio.Event = field(default_factory=trio.Event)
    """Set when it has ended with all its descendants."""
    input: ProcessInput = field(default_factory=ProcessInput)

    @property
    def is_confined(self) -> bool:
        """True if it runs in a sandbox and was granted nothing: whatever it is told to do stays in there."""
        return self.grants == NOTHING

    @property
    def is_running(self) -> bool:
        return self.ended_at is None and self.process.exit_code is None

    def last(self, characters: int) -> str:
        """Return the last characters of its output."""
        return self.process.output.tail.decode("utf-8", "replace")[-characters:]


@dataclass(eq=False, slots=True)
class OutputWatch:
    """Searches the output of a process for patterns. Several tasks may run it one after another; it continues
    where it stopped, so nothing is reported twice. Output that comes faster than it can be searched (a tail
    of `spool.TAIL` bytes at a time) is missed, and so is output after the end of the process itself, which is
    reported instead."""

    background: BackgroundProcess
    patterns: Sequence[str]
    told: int = 0
    """Number of reports."""
    _position: int = 0
    _rest: bytes = b""
    _last: float = field(default=-math.inf)
    _strikes: int = 0

    @property
    def is_over(self) -> bool:
        """True if the watch has ended: too many matches, or the process is gone."""
        return self._strikes >= MOST_STRIKES or not self.background.is_running

    async def run(self, tell: Callable[[str], None]) -> None:
        """Watch until the process ends or closes its output, or until there are too many matches; from then
        on its end is reported instead."""
        output = self.background.process.output
        while (total := await output.beyond(self._position)) > self._position:
            data = output.since(self._position)
            if len(data) < total - self._position:
                self._rest = b""  # the bytes between are lost, and with them the beginning of a word
                data = _after_a_word(data)
            self._position = total
            *lines, rest = (self._rest + data).split(b"\n")
            self._rest = rest[-LONGEST_LINE:]
            found = [
                line if len(raw) < LONGEST_LINE else "…" + _after_a_word(raw).decode("utf-8", "replace")
                for raw in lines
                if self._matches(line := raw.decode("utf-8", "replace"))
            ]
            if self.is_over:
                return
            if found:
                self._tell(found, tell)

    def _matches(self, line: str) -> bool:
        return any(pattern in line for pattern in self.patterns)

    def _tell(self, found: Sequence[str], tell: Callable[[str], None]) -> None:
        now, name = trio.current_time(), f"Background process {self.background.id}"
        if now - self._last >= MATCH_EVERY:
            self._last, self._strikes = now, 0
            self.told += 1
            text = _cut("\n".join(found[:MOST_LINES]), MOST_CHARACTERS)
            tell(f"{name} ({_cut(self.background.command, 200)}) wrote:\n{text}")
            return
        self._strikes += 1
        if self._strikes == MOST_STRIKES:
            self.background.notify = True
            self.told += 1
            tell(
                f"{name} writes matching lines all the time. It is no longer watched; you will be told when "
                "it ends."
            )


def _after_a_word(data: bytes) -> bytes:
    """Return the bytes after the first word, whose beginning is missing: half a secret is not recognised."""
    return re.sub(rb"\A\S*", b"", data)


def _cut(text: str, most: int) -> str:
    """Return the beginning of a text, up to the end of a word: half a secret is not recognised."""
    if len(text) <= most:
        return text
    return re.sub(rf"\S{{0,{LONGEST_WORD}}}\Z", "", text[: most + LONGEST_WORD])
