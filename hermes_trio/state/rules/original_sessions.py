"""Taking over the sessions of an original: once, and without touching its files.

The original keeps which chat writes which transcript in `sessions/sessions.json`, and how often in a row
a session was interrupted in `.restart_failure_counts`. Both are read at a start before any door opens, put
into the database in one transaction together with the note that it is done, and left as they are.

Its transcripts stay in its `state.db`: a session is taken over without its messages, and says so at the next
message in its chat. So nothing in it is unfinished, and a mark to resume it is left out.

An entry that cannot be taken over costs itself only, and is named in the log. What the database knows
already is newer and stays. The key of an entry is made from its origin where it has one, for keys are
spelled a little differently here; the next message of the chat has to find its session.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ...config.schema import GatewayConfig
from ...log import Log
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
    """What the files of an original say."""

    entries: Mapping[str, Any]
    failure_counts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Imported:
    """What came over."""

    taken: int = 0
    refused: int = 0
    """Entries that could not be read, or have ids that are not safe."""
    known: int = 0
    """Entries of chats that had a session here already."""
    stuck: tuple[SessionEntry, ...] = ()
    """Sessions that were interrupted too often in a row, and were suspended for it."""


def is_imported(db: sqlite3.Connection) -> bool:
    """Whether it was done."""
    return meta.get(db, DONE) is not None


def read_original(home: Path) -> Original | None:
    """The files of an original in this home, as far as they can be read; None if there are none."""
    found = [data for name in SESSIONS if (data := _mapping(home / name)) is not None]
    counts = _mapping(home / FAILURE_COUNTS)
    if not found and counts is None:
        return None
    return Original(found[0] if found else {}, counts or {})


def import_original(db: sqlite3.Connection, original: Original, config: GatewayConfig, at: float) -> Imported:
    """A step: take over what an original knew, and note that this is done."""
    taken = refused = known = 0
    stuck = []
    for key, data in original.entries.items():
        if key.startswith("_"):
            continue
        entry = _entry(key, data, config)
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


def _entry(key: str, data: object, config: GatewayConfig) -> SessionEntry | None:
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
        log.warning("a session of the original was not taken over", key=key[:200], error=str(error))
        return None
    return entry


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _mapping(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None if there is no such file, or none that can be read."""
    try:
        if path.stat().st_size > LARGEST:
            raise ValueError(f"is larger than {LARGEST} bytes")
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        log.warning("a file of the original cannot be read", file=path.name, error=str(error))
        return None
