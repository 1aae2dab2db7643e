"""Import of the sessions of hermes-agent, the original: once, and without changing its files.

The original stores the session of each chat in `sessions/sessions.json`, and the number of consecutive
interruptions of a session in `.restart_failure_counts`. Both are read at a start, before the gateway accepts
anything, and stored in one transaction together with the note that the import is done.

The transcripts stay in the original's `state.db`: a session is imported without its messages, and the person
is told so at the next message. So no imported session has unfinished work, and resume marks are dropped.

An entry that cannot be imported is skipped and logged. Sessions that the database has already are newer and
stay. The key of an entry is built from its origin if it has one, because keys are spelled slightly
differently here, and the next message of the chat has to find its session.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ...config.schema import GatewayConfig
from ...log import Log
from ..db.engine import Db
from ..tables import meta, sessions
from ..tables.session_entry import SessionEntry
from . import settle
from .store import key_of

SESSIONS = (Path("sessions", "sessions.json"), Path("sessions.json"))
FAILURE_COUNTS = Path(".restart_failure_counts")
DONE = "imported_from_original"
LARGEST = 64 << 20

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Original:
    """The content of the original's session files."""

    entries: Mapping[str, Any]
    failure_counts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    taken: int = 0
    refused: int = 0
    """The number of unreadable entries, and of entries with unsafe ids."""
    known: int = 0
    """The number of entries whose chat had a session here already."""
    stuck: tuple[SessionEntry, ...] = ()
    """Sessions that were suspended because of too many consecutive interruptions."""


def is_imported(db: Db) -> bool:
    """Return whether the import was done."""
    return meta.get(db, DONE) is not None


def read_original(home: Path) -> Original | None:
    """Return the readable session files of the original in this home; None if there are none."""
    found = [data for name in SESSIONS if (data := _mapping(home / name)) is not None]
    counts = _mapping(home / FAILURE_COUNTS)
    if not found and counts is None:
        return None
    return Original(found[0] if found else {}, counts or {})


def import_original(db: Db, original: Original, config: GatewayConfig, at: float) -> Imported:
    """Store the sessions of the original and the note that the import is done, in one transaction."""
    taken = refused = known = 0
    stuck = []
    for key, data in original.entries.items():
        if key.startswith("_"):
            continue
        entry = entry_of(key, data, config)
        if entry is None:
            refused += 1
        elif sessions.open_by_key(db, entry.session_key) or sessions.by_id(db, entry.session_id):
            known += 1
        else:
            sessions.add(db, entry)
            taken += 1
            if _count(original.failure_counts.get(key)) >= config.agent.stuck_after:
                settle.suspend(db, entry.session_id, at, reason="stuck")
                stuck.append(entry)
    imported = Imported(taken, refused, known, tuple(stuck))
    meta.put(db, DONE, json.dumps({"at": at, "taken": taken, "refused": refused, "known": known}))
    return imported


def entry_of(key: str, data: object, config: GatewayConfig) -> SessionEntry | None:
    """Return the session of an entry of `sessions.json`; None if it cannot be used."""
    try:
        if isinstance(data, Mapping):
            data = {"session_key": key, **data}
        entry = SessionEntry.from_dict(data)
        if entry.origin is not None:
            entry = replace(entry, session_key=key_of(entry.origin, config))
        if entry.resume_pending:
            entry = replace(entry, mark=None)
        entry = replace(entry, auto_reset_reason="imported")
    except ValueError as error:
        log.warning("original session not imported", key=key[:200], error=str(error))
        return None
    return entry


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _mapping(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if the file is missing or unreadable."""
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"is larger than {LARGEST} bytes")
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        log.warning("original session file not readable", file=path.name, error=str(error))
        return None
