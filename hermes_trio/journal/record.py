"""One line of a run journal.

    {"version":1,"event_id":"<run>:7","seq":7,"run_id":…,"session_id":…,"event":…,"type":…,
     "created_at":…,"terminal":false,"terminal_state":null,"payload":{…}}

Compact JSON in UTF-8, ended by a newline. Every line names its run, its session and its place, so a
line that stands where it does not belong is found out and not trusted. `type` says the same as
`event`: readers of the original look for either.
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
"""How every line begins. A quote inside a JSON string is escaped, so no text can hold this; an object
in a payload can, behind a colon, a comma or a bracket."""
LONGEST_LINE = 4 * 1024 * 1024


class TerminalState(StrEnum):
    """How a run ended, as its last line says it."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    CUT = "cut"


class Record(msgspec.Struct, frozen=True, gc=False):
    """A line of a run journal. The order of the fields is the order in the line.

    Python's collector passes records by, and events too: what is JSON holds nothing that holds it, and
    thousands of them live for a moment while answers stream.
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
    """A line that is not a record of this run."""


_NO_JSON = (TypeError, ValueError, msgspec.EncodeError, RecursionError)
_encoder = msgspec.json.Encoder()
encode = _encoder.encode
_decode = msgspec.json.Decoder(Record).decode


def lines_of(records: Sequence[Record]) -> bytes:
    """The lines of these records, made in one go: they are looked at one by one only if one may be bad.
    `JournalError` for what is no JSON, or too long."""
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
            record.run_id, f"{record.event!r} is no JSON ({error})", "Send only JSON values in events."
        ) from error
    if len(line) > LONGEST_LINE:
        raise JournalError(
            record.run_id,
            f"{record.event!r} has {len(line)} bytes",
            f"Keep events below {LONGEST_LINE} bytes: store what is large elsewhere and name it.",
        )


def decode(line: bytes, session_id: str, run_id: str) -> Record:
    """The record that `line` holds, if it is one and belongs to this run; `Malformed` if not."""
    try:
        record = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(str(error)) from error
    if record.version != VERSION:
        raise Malformed(f"version {record.version} is not known here")
    if record.run_id != run_id or record.session_id != session_id:
        raise Malformed("it belongs to another run")
    if record.seq < 1 or record.event_id != f"{run_id}:{record.seq}":
        raise Malformed("its id and its seq disagree")
    if not record.event or not isinstance(record.payload, dict):
        raise Malformed("it has no event or no payload")
    return record


TERMINAL = frozenset({RunCompleted.event, RunCancelled.event, RunFailed.event})


def terminal_state(event: str, payload: Event | Mapping[str, Any]) -> TerminalState | None:
    """How a run has ended if this is its last event; None if it goes on."""
    if event == RunCompleted.event:
        return TerminalState.COMPLETED
    if event == RunCancelled.event:
        return TerminalState.CANCELLED
    if event == RunFailed.event:
        code = payload.get("code") if isinstance(payload, Mapping) else getattr(payload, "code", None)
        return TerminalState.CUT if code == INTERRUPTED else TerminalState.FAILED
    return None


def journal_path(root: Path, session_id: str, run_id: str) -> Path:
    """Where the journal of a run is. `InvalidId` for ids that would lead anywhere else."""
    return session_path(root, session_id) / f"{path_safe_id(run_id, 'run id')}.jsonl"


def session_path(root: Path, session_id: str) -> Path:
    """Where the journals of a session are."""
    return root / path_safe_id(session_id)
