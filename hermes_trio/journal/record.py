"""One line of a run journal.

    {"version":1,"event_id":"<run>:7","seq":7,"run_id":…,"session_id":…,"event":…,"type":…,
     "created_at":…,"terminal":false,"terminal_state":null,"payload":{…}}

Compact JSON in UTF-8, ended by a newline. Every line names its run, its session and its seq, so a line in the
wrong place is detected and not trusted. `type` has the same value as `event`, because readers of the original
use one or the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from ..base.errors import JournalError
from ..base.events import INTERRUPTED, Event, RunCancelled, RunCompleted, RunFailed
from ..base.ids import path_safe_id

VERSION = 1
PREFIX = b'{"version":1,"event_id":"'
"""The beginning of every line. A quote inside a JSON string is escaped, so no text contains it; an object in
a payload can, after a colon, a comma or a bracket."""
LONGEST_LINE = 4 * 1024 * 1024


class TerminalState(StrEnum):
    """The end of a run, as its last line states it."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    CUT = "cut"


class Record(msgspec.Struct, frozen=True, gc=False):
    """A line of a run journal, with the fields in their order in the line.

    Records and events are excluded from garbage collection (`gc=False`): JSON values contain no reference
    cycles, and thousands of records exist for a moment while answers are streamed.
    """

    version: int
    event_id: str
    seq: int
    run_id: str
    session_id: str
    event: str
    type: str
    created_at: float
    terminal: bool
    terminal_state: str | None
    payload: Any


class Malformed(ValueError):
    """The line is not a record of this run."""


_NO_JSON = (TypeError, ValueError, msgspec.EncodeError, RecursionError)
_encoder = msgspec.json.Encoder()
encode = _encoder.encode
_decode = msgspec.json.Decoder(Record).decode


def lines_of(records: Sequence[Record]) -> bytes:
    """Return the lines of these records. They are encoded together, and checked one by one only if one of
    them may be bad. Raises `JournalError` for a value that is not JSON, or a line that is too long."""
    try:
        lines = _encoder.encode_lines(records)
    except _NO_JSON:
        lines = b""
    if not lines or len(lines) > LONGEST_LINE:
        for record in records:
            _check(record)
    return lines


def _check(record: Record) -> None:
    try:
        line = encode(record)
    except _NO_JSON as error:
        raise JournalError(
            record.run_id, f"{record.event!r} is not JSON ({error})", "Use only JSON values in events."
        ) from error
    if len(line) > LONGEST_LINE:
        raise JournalError(
            record.run_id,
            f"{record.event!r} has {len(line)} bytes",
            f"Keep events below {LONGEST_LINE} bytes: store large data elsewhere and refer to it.",
        )


def decode(line: bytes, session_id: str, run_id: str) -> Record:
    """Return the record in `line`. Raises `Malformed` if it is none, or does not belong to this run."""
    try:
        record = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(str(error)) from error
    if record.version != VERSION:
        raise Malformed(f"version {record.version} is unknown")
    if record.run_id != run_id or record.session_id != session_id:
        raise Malformed("it belongs to another run")
    if record.seq < 1 or record.event_id != f"{run_id}:{record.seq}":
        raise Malformed("its id and its seq disagree")
    if not record.event or not isinstance(record.payload, dict):
        raise Malformed("it has no event or no payload")
    return record


TERMINAL = frozenset({RunCompleted.event, RunCancelled.event, RunFailed.event})


def terminal_state(event: str, payload: Event | Mapping[str, Any]) -> TerminalState | None:
    """Return the end of a run whose last event is this one; None if the event does not end a run."""
    if event == RunCompleted.event:
        return TerminalState.COMPLETED
    if event == RunCancelled.event:
        return TerminalState.CANCELLED
    if event == RunFailed.event:
        code = payload.get("code") if isinstance(payload, Mapping) else getattr(payload, "code", None)
        return TerminalState.CUT if code == INTERRUPTED else TerminalState.FAILED
    return None


def journal_path(root: Path, session_id: str, run_id: str) -> Path:
    """Return the path of a run's journal. Raises `InvalidId` for an id that would lead outside `root`."""
    return session_path(root, session_id) / f"{path_safe_id(run_id, 'run id')}.jsonl"


def session_path(root: Path, session_id: str) -> Path:
    """Return the directory of a session's journals. Raises `InvalidId` like `journal_path`."""
    return root / path_safe_id(session_id)
