"""A background process, as the tools and the gateway know it; and the watch over what it writes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from ..host.processes.process_groups import ChildProcess

MATCH_EVERY = 15.0
"""Seconds between two matches that are told, at least."""
MOST_STRIKES = 3
MOST_LINES = 20
MOST_CHARACTERS = 2000
LONGEST_WORD = 400
"""Characters that are told beyond these, until a word ends."""
LONGEST_LINE = 64 << 10
"""Bytes of a line that are looked at, if it does not end."""


@dataclass(eq=False, slots=True)
class ProcessInput:
    """The input that a process was given, as far as it counts for judging more of it."""

    judged: str = ""
    """Whole statements."""
    open: str = ""
    """The beginning of a statement, or of a line, that has no end yet."""
    lock: trio.Lock = field(default_factory=trio.Lock)
    """Held from judging a piece until it is sent."""


@dataclass(eq=False, slots=True)
class BackgroundProcess:
    """A background process of a session, as long as anybody may ask for it."""

    id: str
    session_id: str
    session_key: str
    command: str
    process: ChildProcess
    started_at: float
    """By the time of day, as is `ended_at`."""
    cwd: Path
    """Where it was started."""
    notify: bool = False
    """Whether its end begins a turn, if the model has not heard of it by then."""
    told: bool = False
    """Whether the model has heard of its end."""
    ended_at: float | None = None
    over: trio.Event = field(default_factory=trio.Event)
    """Set when it is gone, with all that came of it."""
    input: ProcessInput = field(default_factory=ProcessInput)

    @property
    def is_running(self) -> bool:
        return self.ended_at is None and self.process.exit_code is None

    def last(self, characters: int) -> str:
        """The end of what it wrote."""
        return self.process.output.tail.decode("utf-8", "replace")[-characters:]


@dataclass(eq=False, slots=True)
class OutputWatch:
    """Looks for words in what a process writes. It may be run by one after another, and goes on where it
    was: nothing is told twice. What is written faster than anybody can look (a tail of `spool.TAIL` bytes at
    a time) is missed, and so is what comes when the process itself has ended: then its end is the news."""

    kept: BackgroundProcess
    patterns: Sequence[str]
    told: int = 0
    """How often something was told."""
    _position: int = 0
    _rest: bytes = b""
    _last: float = field(default=-math.inf)
    _strikes: int = 0

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to watch any more."""
        return self._strikes >= MOST_STRIKES or not self.kept.is_running

    async def run(self, tell: Callable[[str], None]) -> None:
        """Watch until the process ends or closes its output, or until it says too much: then its end is
        told instead."""
        output = self.kept.process.output
        while (total := await output.beyond(self._position)) > self._position:
            data = output.since(self._position)
            if len(data) < total - self._position:
                self._rest = b""  # what stood between is gone, and with it the beginning of a word
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
        now = trio.current_time()
        if now - self._last >= MATCH_EVERY:
            self._last, self._strikes = now, 0
            self.told += 1
            text = _cut("\n".join(found[:MOST_LINES]), MOST_CHARACTERS)
            tell(f"Background process {self.kept.id} ({_cut(self.kept.command, 200)}) wrote:\n{text}")
            return
        self._strikes += 1
        if self._strikes == MOST_STRIKES:
            self.kept.notify = True
            self.told += 1
            tell(
                f"Background process {self.kept.id} writes what you wait for all the time. It is no longer "
                "watched; you will hear of its end."
            )


def _after_a_word(data: bytes) -> bytes:
    """What comes after the first word, whose beginning is missing: half a secret looks like none."""
    return re.sub(rb"\A\S*", b"", data)


def _cut(text: str, most: int) -> str:
    """The beginning of a text, up to the end of a word: a secret that is cut in two looks like none."""
    if len(text) <= most:
        return text
    return re.sub(rf"\S{{0,{LONGEST_WORD}}}\Z", "", text[: most + LONGEST_WORD])
