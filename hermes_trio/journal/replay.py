"""Replay: the events after a cursor, for a client that was disconnected.

A cursor is the id of the last event the client has, `<run>:<seq>`. A replay is the rest of that run and every
later run of the session. It is either complete, without gaps, or empty with a status that names the reason: a
client must never have a gap it does not know of. Runs before the cursor are not read, so damage in them does
not matter.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ..base.errors import InvalidId, JournalError
from ..base.events import INTERRUPTED, RunFailed
from ..base.ids import path_safe_id
from ..log import Log
from .reader import Damage, Reading, scan
from .record import VERSION, Record, TerminalState, encode, journal_path, session_path

MAX_ROWS = 4096
MAX_BYTES = 4 * 1024 * 1024

log = Log(__name__)


class ReplayStatus(StrEnum):
    """The result of a replay: complete, or the reason why not."""

    OK = "ok"
    CURSOR_INVALID = "cursor_invalid"
    CURSOR_RUN_MISSING = "cursor_run_missing"
    CURSOR_SESSION_MISMATCH = "cursor_session_mismatch"
    CURSOR_EVENT_MISSING = "cursor_event_missing"
    MALFORMED = "replay_malformed"
    """An event after the cursor cannot be read."""
    NONCONTIGUOUS = "replay_noncontiguous"
    LIMIT_ROWS = "replay_limit_rows"
    LIMIT_BYTES = "replay_limit_bytes"


@dataclass(frozen=True, slots=True)
class Replay:
    """The events after a cursor."""

    status: ReplayStatus
    records: tuple[Record, ...] = ()


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position of the last event that a client has."""

    run_id: str
    seq: int


def parse_cursor(text: str) -> Cursor | None:
    """Return the cursor in a client's text; None if the text is no cursor."""
    run_id, _, seq = text.strip().rpartition(":")
    # `isdecimal` alone accepts digits of other scripts, and so does int().
    if not (seq.isascii() and seq.isdecimal()) or len(seq) > 18 or int(seq) < 1:
        return None
    try:
        return Cursor(path_safe_id(run_id, "run id"), int(seq))
    except InvalidId:
        return None


def replay_session(
    root: Path,
    session_id: str,
    cursor: str | None,
    *,
    max_rows: int = MAX_ROWS,
    max_bytes: int = MAX_BYTES,
) -> Replay:
    """Return all events of a session after `cursor`; none without a cursor."""
    directory = session_path(root, session_id)
    if cursor is None:
        return Replay(ReplayStatus.OK)
    after = parse_cursor(cursor)
    if after is None:
        return Replay(ReplayStatus.CURSOR_INVALID)
    try:
        if not os.path.lexists(journal_path(root, session_id, after.run_id)):
            elsewhere = any(root.glob(f"*/{after.run_id}.jsonl"))
            return Replay(
                ReplayStatus.CURSOR_SESSION_MISMATCH if elsewhere else ReplayStatus.CURSOR_RUN_MISSING
            )
        return _replay(directory, session_id, after, max_rows, max_bytes)
    except OSError as error:
        log.warning("run journal not readable", session=session_id, error=str(error))
        return Replay(ReplayStatus.MALFORMED)


def _replay(directory: Path, session_id: str, after: Cursor, max_rows: int, max_bytes: int) -> Replay:
    found: list[Record] = []
    size = 0
    for path in _runs_from(directory, session_id, after.run_id):
        run_id = path.stem
        have = after.seq if run_id == after.run_id else 0
        seq = 0
        with path.open("rb") as file:
            for record in scan(file, session_id, run_id):
                if isinstance(record, Damage):
                    if record.torn:
                        break  # being written, or cut off by a crash: it was shown to nobody
                    return Replay(ReplayStatus.MALFORMED)
                seq += 1
                if record.seq != seq:
                    return Replay(ReplayStatus.NONCONTIGUOUS)
                if seq <= have:
                    continue
                found.append(record)
                size += len(encode(record))
                if len(found) > max_rows:
                    return Replay(ReplayStatus.LIMIT_ROWS)
                if size > max_bytes:
                    return Replay(ReplayStatus.LIMIT_BYTES)
        if seq < have:
            return Replay(ReplayStatus.CURSOR_EVENT_MISSING)
    return Replay(ReplayStatus.OK, tuple(found))


def _runs_from(directory: Path, session_id: str, run_id: str) -> list[Path]:
    """Return the journals of a session from one run on, ordered by the time of their first event, then by
    name."""
    begun = {path: at for path in directory.glob("*.jsonl") if (at := _began(path, session_id)) is not None}
    order = sorted(begun, key=lambda path: (begun[path], path.stem))
    first = directory / f"{run_id}.jsonl"
    return order[order.index(first) :] if first in begun else [first]


def _began(path: Path, session_id: str) -> float | None:
    """Return the time of a run's first event; None for a file that is not a journal. An unreadable journal
    gets the time of its last write, so that it is skipped only where it cannot cause a gap."""
    try:
        run_id = path_safe_id(path.stem, "run id")
        with path.open("rb") as file:
            for found in scan(file, session_id, run_id):
                if isinstance(found, Record):
                    return found.created_at
    except InvalidId:
        return None  # not a journal
    except OSError as error:
        log.warning("run journal not readable", path=path.name, error=str(error))
    return path.lstat().st_mtime


def closing_event(reading: Reading, session_id: str, run_id: str, at: float) -> Record | None:
    """Return a terminal event for a dead run without one, to be sent after its last event and never stored.
    Return None if the journal has a terminal event, or no events."""
    if not reading.records or reading.terminal is not None:
        return None
    seq = reading.next_seq
    payload = {
        "error": "The run ended before it was finished. Its output until then is kept.",
        "code": INTERRUPTED,
        "synthetic": True,
    }
    event = RunFailed.event
    return Record(
        VERSION, f"{run_id}:{seq}", seq, run_id, session_id, event, event, at, True,
        TerminalState.CUT, payload,
    )  # fmt: skip


# --- all sessions at once ----------------------------------------------------------------------------

MOST_MISSED = 16 * 1024 * 1024
"""The maximum number of bytes that are replayed from the journals. A model needs a quarter of an hour of
uninterrupted writing for them."""


@dataclass(frozen=True, slots=True)
class KnownRun:
    """A run, described by its turn's row."""

    session_id: str
    run_id: str
    cut_at: float | None = None
    """The time at which it was cut; None if it was not."""
    over: bool = False
    """True if it has ended in another way, and its journal is not written any more."""


@dataclass(slots=True)
class MissedEvents:
    """The events that a client of all sessions has missed."""

    records: list[Record] = field(default_factory=list)
    """In order of time."""
    gaps: list[KnownRun] = field(default_factory=list)
    """The runs whose events are incomplete, or too many to be replayed."""
    whole: bool = True
    """True if the cursor could be used."""


def missed_events(
    read: Callable[[str, str], Reading], runs: Sequence[KnownRun], cursor: str, margin: float = 0.0
) -> MissedEvents:
    """Return the events of these runs after a cursor. The times of the records of all runs of one gateway
    are in order of writing, so the other runs are divided at the cursor's time, and its own run at the seq.
    Events of other runs with exactly that time are included, perhaps for the second time. So are those of
    `margin` seconds before it, for gateways whose clocks differ. With a cursor that cannot be used all events
    of these runs are returned."""
    found, after = MissedEvents(), parse_cursor(cursor)
    readings: dict[str, tuple[KnownRun, Reading]] = {}
    for run in runs:
        try:
            readings[run.run_id] = run, read(run.session_id, run.run_id)
        except JournalError as error:
            log.warning("run journal not readable", run=run.run_id, error=str(error))
            found.gaps.append(run)
    since = _moment(*readings[after.run_id], after) if after and after.run_id in readings else None
    found.whole = since is not None
    earliest = since - margin if since is not None else 0.0
    size = 0
    for run, reading in readings.values():
        if not reading.complete:
            found.gaps.append(run)
            continue
        records = list(reading.records)
        if run.over and reading.terminal is None:
            found.gaps.append(run)
        if run.cut_at is not None:
            # Its process died or wrote no terminal event: a client must not wait for one.
            closing = closing_event(reading, run.session_id, run.run_id, run.cut_at)
            records += [closing] if closing else []
        if since is not None and after is not None:
            own = run.run_id == after.run_id
            records = [r for r in records if (r.seq > after.seq if own else r.created_at >= earliest)]
        of_run = sum(len(encode(record)) for record in records)
        if size + of_run > MOST_MISSED:
            found.gaps.append(run)
            continue
        found.records += records
        size += of_run
    found.records.sort(key=lambda record: (record.created_at, record.run_id, record.seq))
    return found


def _moment(run: KnownRun, reading: Reading, cursor: Cursor) -> float | None:
    """Return the time of the event at a cursor; None if there is no such event."""
    at = next((record.created_at for record in reading.records if record.seq == cursor.seq), None)
    if at is None and cursor.seq == reading.next_seq:
        return run.cut_at  # the time of its `closing_event`
    return at
