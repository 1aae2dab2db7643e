"""Reading a run journal, from any process and at any time, also while its owner writes.

Lines are split at newline bytes and decoded one by one, so damage costs only the record it hit: a flipped
byte, a torn tail, two lines that lost the newline between them, a block of zeros. Unreadable bytes are
reported with their offset. Files are read in chunks: a journal of any size needs the memory of its longest
line.
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

# The possible beginning of a record. Not after `":`, `:[` or a comma, where JSON has an object inside another
# one: a record that a tool has read from a journal and shows in a payload is no event of the run.
_BEGINNING = re.compile(rb'(?<!":)(?<![:,\[]\[)(?<!,)' + re.escape(PREFIX))

CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a journal that are not a record of its run."""

    offset: int
    length: int
    reason: str
    torn: bool = False
    """True for a last line without its newline: it was cut off by a crash, or is being written now."""


@dataclass(slots=True)
class Reading:
    """The content of a journal."""

    records: list[Record] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    torn: int = 0
    """The number of bytes of an incomplete last line."""
    size: int = 0

    @property
    def last_seq(self) -> int:
        return max((record.seq for record in self.records), default=0)

    @property
    def next_seq(self) -> int:
        """The next free seq: greater than every seq read, and than the number of records and damages, because
        somebody may have seen the events of damaged lines."""
        return max(self.last_seq, len(self.records) + len(self.damage)) + 1

    @property
    def complete(self) -> bool:
        """True if nothing is missing: every seq from 1 on was read, and there is no damage."""
        return not self.damage and self.last_seq == len(self.records)

    @property
    def terminal(self) -> Record | None:
        """The record that ends the run; None if there is none."""
        return next((record for record in reversed(self.records) if record.terminal), None)


@dataclass(frozen=True, slots=True)
class Summary:
    """The main facts about a journal, without its content."""

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
    """Return the content of a run's journal below `root`, like `read_journal`."""
    return read_journal(journal_path(root, session_id, run_id), session_id, run_id)


def read_journal(path: Path, session_id: str, run_id: str) -> Reading:
    """Return the content of a journal, in order of seq. A missing file counts as empty; whether that means
    "nothing" or "not yet" is the caller's decision. Raises `JournalError` if the file cannot be read."""
    try:
        with path.open("rb") as file:
            return read_lines(file, session_id, run_id)
    except FileNotFoundError:
        return Reading()
    except OSError as error:
        raise unreadable(run_id, error) from error


def read_lines(file: BinaryIO, session_id: str, run_id: str) -> Reading:
    """Return the content of a journal from its lines, in order of seq."""
    reading = Reading()
    _read(file, reading, session_id, run_id)
    # The owner writes in order, but a file that two programs wrote to may be unordered.
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
            reading.damage.append(Damage(-1, 0, f"seq {found.seq} occurs twice"))
        else:
            seen.add(found.seq)
            reading.records.append(found)
    reading.size = file.tell()


def unreadable(run_id: str, error: OSError) -> JournalError:
    """Return the `JournalError` for an `OSError` while reading."""
    return JournalError(
        run_id,
        f"cannot be read ({error.strerror or error})",
        "Check the permissions of the journal directory, and whether the path is a regular file.",
    )


def journals_here(root: Path) -> list[str]:
    """Return the ids of the sessions that have a journal directory. Other entries are ignored."""
    try:
        return sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and _is_id(entry.name))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable("*", error) from error


def runs_here(root: Path, session_id: str) -> dict[str, float]:
    """Return the run ids of the journals of a session, with the time of the last write to each."""
    found: dict[str, float] = {}
    try:
        for entry in os.scandir(session_path(root, session_id)):
            run_id, dot, ending = entry.name.rpartition(".")
            if dot and ending == "jsonl" and _is_id(run_id):
                found[run_id] = entry.stat(follow_symlinks=False).st_mtime
    except FileNotFoundError:  # deleted in the meantime
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
    """Return the summary of a journal."""
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
    """Yield the records of a file and the damages between them, in the order of the file."""
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
    # Perhaps only the newline between two records was damaged, or one record was written into another: try
    # every place where a record could begin.
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
    """The line without its newline; of a line that is too long only a beginning that exceeds the limit."""
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
