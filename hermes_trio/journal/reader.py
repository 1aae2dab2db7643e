"""Reading a run journal: any process, any time, also while its owner writes.

Lines are split at newline bytes and decoded one by one, so damage costs the record it hit and no
other: a flipped byte, a torn tail, two lines that lost the newline between them, a stretch of zeros.
What could not be read is reported with its place. Files are read in pieces: a journal of any size
needs the memory of its longest line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from ..base.errors import InvalidId, JournalError
from ..base.ids import path_safe_id
from .record import LONGEST_LINE, PREFIX, Malformed, Record, decode, journal_path, session_path

# Where a record may begin. Not where JSON has an object inside another one, behind `":` or `:[` or a
# comma: what a tool has read out of a journal and shows in a payload is no event of the run.
_BEGINNING = re.compile(rb'(?<!":)(?<![:,\[]\[)(?<!,)' + re.escape(PREFIX))

CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a journal that are no record of its run."""

    offset: int
    length: int
    reason: str
    torn: bool = False
    """The last line, without its newline: cut off by a crash, or being written this very moment."""


@dataclass(slots=True)
class Reading:
    """A whole journal, read."""

    records: list[Record] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    torn: int = 0
    """How many bytes of a line that is not whole stand at the end."""
    size: int = 0

    @property
    def last_seq(self) -> int:
        return max((record.seq for record in self.records), default=0)

    @property
    def next_seq(self) -> int:
        """A seq that no event of this run has had, as far as can be told: behind all that were read,
        and behind as many as there are damaged lines, for somebody may have seen those events."""
        return max(self.last_seq, len(self.records) + len(self.damage)) + 1

    @property
    def complete(self) -> bool:
        """Nothing is missing: every seq from 1 on is there, and all bytes were understood."""
        return not self.damage and self.last_seq == len(self.records)

    @property
    def terminal(self) -> Record | None:
        """The record that says how the run ended."""
        return next((record for record in reversed(self.records) if record.terminal), None)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a journal amounts to, without its contents."""

    session_id: str
    run_id: str
    event_count: int
    last_seq: int
    last_event_id: str | None
    last_event: str | None
    terminal: bool
    state: str
    """The terminal state; `running` while there is none; `unknown` for a journal without events."""


def read_run(root: Path, session_id: str, run_id: str) -> Reading:
    """Everything in the journal of a run, in the order of the seqs. A missing file is empty: whether
    that means "nothing" or "not yet" is for the caller to say. `JournalError` if the system does not
    let us read it."""
    path = journal_path(root, session_id, run_id)
    reading = Reading()
    try:
        with path.open("rb") as file:
            _read(file, reading, session_id, run_id)
    except FileNotFoundError:
        return reading
    except OSError as error:
        raise unreadable(run_id, error) from error
    # One owner writes in order; a file that two programs have written to need not be.
    reading.records.sort(key=lambda record: record.seq)
    return reading


def _read(file: BinaryIO, reading: Reading, session_id: str, run_id: str) -> None:
    seen: set[int] = set()
    for found in scan(file, session_id, run_id):
        if isinstance(found, Damage) and found.torn:
            reading.torn = found.length
        elif isinstance(found, Damage):
            reading.damage.append(found)
        elif found.seq in seen:
            reading.damage.append(Damage(-1, 0, f"seq {found.seq} is there twice"))
        else:
            seen.add(found.seq)
            reading.records.append(found)
    reading.size = file.tell()


def unreadable(run_id: str, error: OSError) -> JournalError:
    """The error of ours for a file that the system does not let us read."""
    return JournalError(
        run_id,
        f"cannot be read ({error.strerror or error})",
        "Check the rights of the journal directory and what is in the place of the file.",
    )


def journals_here(root: Path) -> list[str]:
    """The sessions that have a directory of journals. What else lies there is none of ours."""
    try:
        return sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and _is_id(entry.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable("*", error) from error


def runs_here(root: Path, session_id: str) -> dict[str, float]:
    """The runs of a session that have a journal, and when each was last written to."""
    found: dict[str, float] = {}
    try:
        for entry in os.scandir(session_path(root, session_id)):
            run_id, dot, ending = entry.name.rpartition(".")
            if dot and ending == "jsonl" and _is_id(run_id):
                found[run_id] = entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:  # removed meanwhile
        return found
    except OSError as error:
        raise unreadable(f"{session_id}/*", error) from error
    return found


def _is_id(name: str) -> bool:
    try:
        path_safe_id(name)
    except InvalidId:
        return False
    return True


def summary(root: Path, session_id: str, run_id: str) -> Summary:
    """A journal in a few words."""
    reading = read_run(root, session_id, run_id)
    last = reading.records[-1] if reading.records else None
    terminal = reading.terminal
    running = "running" if last else "unknown"
    return Summary(
        session_id=session_id,
        run_id=run_id,
        event_count=len(reading.records),
        last_seq=reading.last_seq,
        last_event_id=last.event_id if last else None,
        last_event=last.event if last else None,
        terminal=terminal is not None,
        state=(terminal.terminal_state or running) if terminal else running,
    )


def scan(file: BinaryIO, session_id: str, run_id: str) -> Iterator[Record | Damage]:
    """The records of a file and what lies between them, in the order of the file."""
    for line in _lines(file):
        if len(line.kept) > LONGEST_LINE:
            yield Damage(line.offset, len(line.kept), f"longer than {LONGEST_LINE} bytes")
        elif line.kept.strip():
            yield from _records_of(line, session_id, run_id)


def _records_of(line: _Line, session_id: str, run_id: str) -> Iterator[Record | Damage]:
    try:
        yield decode(line.kept, session_id, run_id)
        return
    except Malformed as error:
        reason = str(error)
    # Perhaps only the newline between two records was hit, or one was written into another: every
    # place where a record could begin is looked at once.
    head, *pieces = _BEGINNING.split(line.kept)
    offset = line.offset
    if head:
        yield Damage(offset, len(head), reason, torn=not (line.ended or pieces))
        offset += len(head)
    for left, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
        try:
            yield decode(PREFIX + piece, session_id, run_id)
        except Malformed as error:
            size = len(PREFIX) + len(piece)
            yield Damage(offset, size, str(error), torn=not (line.ended or left))
        offset += len(PREFIX) + len(piece)


@dataclass(frozen=True, slots=True)
class _Line:
    offset: int
    kept: bytes
    """Without the newline; of a line that is too long only its beginning, one byte too long at least."""
    ended: bool


def _lines(file: BinaryIO) -> Iterator[_Line]:
    offset, pending, skipping = 0, b"", False
    while chunk := file.read(CHUNK):
        *whole, rest = (pending + chunk).split(b"\n")
        for line in whole:
            if not skipping:
                yield _Line(offset, line, ended=True)
            skipping = False
            offset += len(line) + 1
        if skipping or len(rest) > LONGEST_LINE:
            if not skipping:
                yield _Line(offset, rest, ended=True)
            skipping, offset, rest = True, offset + len(rest), b""
        pending = rest
    if pending and not skipping:
        yield _Line(offset, pending, ended=False)
