"""The table `sessions`: the conversations of each chat.

The key of a row identifies the chat, its id the transcript. A reset ends the row and adds another with the
same key; a unique index allows only one open session for each key.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ...base.ids import path_safe_id
from ...base.messages import SessionSource
from ..db.column_text import read_stored
from ..db.engine import Answer, Db
from .session_entry import Mark, SessionEntry, Usage

_COLUMNS = (
    "session_key, session_id, created_at, updated_at, origin, display_name, platform, chat_type, mark, "
    "mark_reason, marked_at, ended_at, end_reason, auto_reset_reason, reset_had_activity, cuts_forgiven, "
    "model_override, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, "
    "last_prompt_tokens, cost_usd"
)
_SELECT = f"SELECT {_COLUMNS} FROM sessions"  # noqa: S608 - constants of this module
_LAST_USED_FIRST = "ORDER BY updated_at DESC, created_at DESC, session_id DESC"


_override = msgspec.json.Decoder(dict[str, str]).decode


def _source(text: str) -> SessionSource:
    return SessionSource.from_dict(json.loads(text))


def _entry(row: tuple[Any, ...]) -> SessionEntry:
    kind = row[8]
    return SessionEntry(
        session_key=row[0],
        session_id=row[1],
        created_at=row[2],
        updated_at=row[3],
        origin=read_stored(row[4], _source, "origin", session=row[1]),
        display_name=row[5],
        platform=row[6],
        chat_type=row[7],
        mark=Mark(kind, row[9], row[10]) if kind else None,
        ended_at=row[11],
        end_reason=row[12],
        auto_reset_reason=row[13],
        reset_had_activity=bool(row[14]),
        cuts_forgiven=row[15],
        model_override=read_stored(row[16], _override, "model_override", session=row[1]),
        usage=Usage(*row[17:23]),
    )


def add(db: Db, entry: SessionEntry) -> None:
    """Add a session."""
    mark, usage = entry.mark, entry.usage
    db.execute(
        f"INSERT INTO sessions ({_COLUMNS}) VALUES "  # noqa: S608 - a constant of this module
        "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            entry.session_key,
            path_safe_id(entry.session_id),
            entry.created_at,
            entry.updated_at,
            json.dumps(entry.origin.to_dict()) if entry.origin else None,
            entry.display_name,
            entry.platform,
            entry.chat_type,
            mark.kind if mark else None,
            mark.reason if mark else None,
            mark.at if mark else None,
            entry.ended_at,
            entry.end_reason,
            entry.auto_reset_reason,
            entry.reset_had_activity,
            entry.cuts_forgiven,
            json.dumps(dict(entry.model_override)) if entry.model_override else None,
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.last_prompt_tokens,
            usage.cost_usd,
        ),
    )


def open_by_key(db: Db, key: str) -> SessionEntry | None:
    """Return the open session of a key; None if there is none."""
    query = f"{_SELECT} WHERE session_key = ? AND ended_at IS NULL"
    row = db.execute(query, (key,)).fetchone()
    return _entry(row) if row else None


def open_id(db: Db, key: str) -> str | None:
    """Return the id of the open session of a key; None if there is none."""
    row = db.execute(
        "SELECT session_id FROM sessions WHERE session_key = ? AND ended_at IS NULL", (key,)
    ).fetchone()
    return row[0] if row else None


def by_id(db: Db, session_id: str) -> SessionEntry | None:
    """Return a session by its id, open or ended; None if there is none."""
    query = f"{_SELECT} WHERE session_id = ?"
    row = db.execute(query, (session_id,)).fetchone()
    return _entry(row) if row else None


def newest(db: Db, *, limit: int, offset: int = 0) -> list[SessionEntry]:
    """Return sessions, the most recently used first."""
    query = f"{_SELECT} {_LAST_USED_FIRST} LIMIT ? OFFSET ?"
    return [_entry(row) for row in db.execute(query, (limit, offset))]


def of_key(db: Db, key: str, *, limit: int) -> list[SessionEntry]:
    """Return the sessions of a key, open or ended, the most recently used first."""
    query = f"{_SELECT} WHERE session_key = ? {_LAST_USED_FIRST} LIMIT ?"
    return [_entry(row) for row in db.execute(query, (key, limit))]


def marked(db: Db) -> list[SessionEntry]:
    """Return the open sessions with a resume mark, the oldest mark first."""
    return ask_all_marked(db)()


def ask_all_marked(db: Db) -> Answer[list[SessionEntry]]:
    """Ask for the open sessions with a resume mark."""
    query = (
        f"{_SELECT} WHERE mark = 'resume_pending' AND ended_at IS NULL "
        "ORDER BY marked_at NULLS FIRST, created_at, session_id"
    )
    found = db.execute(query)
    return lambda: [_entry(row) for row in found]


def used_since(db: Db, at: float) -> list[SessionEntry]:
    """Return the open sessions that were used at `at` or later."""
    query = f"{_SELECT} WHERE updated_at >= ? AND ended_at IS NULL ORDER BY updated_at, session_id"
    return [_entry(row) for row in db.execute(query, (at,))]


def prunable(db: Db, *, used_before: float) -> list[str]:
    """Return the ids of sessions that were last used before a time and have no mark, running turn, process
    row or waiting message. A process row keeps its session, because only that row names the spool."""
    return [
        session_id
        for (session_id,) in db.execute(
            "SELECT session_id FROM sessions WHERE updated_at < ? AND mark IS NULL "
            "AND NOT EXISTS (SELECT 1 FROM turns WHERE turns.session_id = sessions.session_id "
            "AND turns.ended_at IS NULL) "
            "AND NOT EXISTS (SELECT 1 FROM processes WHERE processes.session_id = sessions.session_id) "
            "AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.session_key = sessions.session_key "
            "AND inbox.state = 'pending') ORDER BY updated_at, session_id",
            (used_before,),
        )
    ]


def end(db: Db, session_id: str, reason: str, at: float) -> bool:
    """End a session for ever. Return False if it has ended already: the first end wins."""
    return (
        db.execute(
            "UPDATE sessions SET ended_at = ?, end_reason = ?, mark = NULL, mark_reason = NULL, "
            "marked_at = NULL WHERE session_id = ? AND ended_at IS NULL",
            (at, reason, session_id),
        ).rowcount
        == 1
    )


def set_mark(db: Db, session_id: str, mark: Mark | None) -> None:
    """Replace the mark of an open session. An ended session is not used again and has no mark."""
    db.execute(
        "UPDATE sessions SET mark = ?, mark_reason = ?, marked_at = ? "
        "WHERE session_id = ? AND ended_at IS NULL",
        (mark.kind, mark.reason, mark.at, session_id) if mark else (None, None, None, session_id),
    )


def ask_marked(db: Db, turn_id: int) -> Answer[bool]:
    """Ask whether the session of a turn has a resume mark."""
    query = "SELECT mark FROM sessions WHERE session_id = (SELECT session_id FROM turns WHERE turn_id = ?)"
    found = db.execute(query, (turn_id,))
    return lambda: found.fetchone() == ("resume_pending",)


def mark_cut(db: Db, session_id: str, reason: str | None, at: float) -> bool:
    """Set the resume mark of a session. Return False if it has ended or is suspended and will not resume."""
    return (
        db.execute(
            "UPDATE sessions SET mark = 'resume_pending', mark_reason = ?, marked_at = ? "
            "WHERE session_id = ? AND ended_at IS NULL AND coalesce(mark, '') <> 'suspended'",
            (reason, at, session_id),
        ).rowcount
        == 1
    )


def unmark_cut(db: Db, session_id: str) -> bool:
    """Remove the resume mark of a session. Return False if it has none."""
    return (
        db.execute(
            "UPDATE sessions SET mark = NULL, mark_reason = NULL, marked_at = NULL "
            "WHERE session_id = ? AND mark = 'resume_pending'",
            (session_id,),
        ).rowcount
        == 1
    )


def rename(db: Db, session_id: str, name: str) -> None:
    """Set the display name of a session. This is no use of the session."""
    db.execute("UPDATE sessions SET display_name = ? WHERE session_id = ?", (name, session_id))


def touch(db: Db, session_id: str, at: float) -> None:
    """Record that a person or the agent used the session; a repair is no use and does not reorder lists. The
    time never goes back, so that a wrong clock makes no session old enough to be deleted."""
    db.execute(
        "UPDATE sessions SET updated_at = ?1 WHERE session_id = ?2 AND updated_at < ?1", (at, session_id)
    )


def add_usage(db: Db, session_id: str, used: Usage) -> None:
    """Add the usage of one turn. A known cost is added to the known costs; `last_prompt_tokens` replaces."""
    db.execute(
        "UPDATE sessions SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?, "
        "cache_read_tokens = cache_read_tokens + ?, cache_write_tokens = cache_write_tokens + ?, "
        "last_prompt_tokens = ?, cost_usd = coalesce(coalesce(cost_usd, 0) + ?, cost_usd) "
        "WHERE session_id = ?",
        (
            used.input_tokens,
            used.output_tokens,
            used.cache_read_tokens,
            used.cache_write_tokens,
            used.last_prompt_tokens,
            used.cost_usd,
            session_id,
        ),
    )


def forgive_cuts(db: Db, session_id: str) -> None:
    """Stop counting the cut turns up to now towards a stuck session. A running turn is not cut yet."""
    db.execute(
        "UPDATE sessions SET cuts_forgiven = "
        "(SELECT coalesce(max(turn_id), 0) FROM turns WHERE turns.session_id = sessions.session_id "
        "AND turns.ended_at IS NOT NULL) "
        "WHERE session_id = ?",
        (session_id,),
    )


def delete(db: Db, session_id: str) -> bool:
    """Delete a session with the rows of its turns, transcript, processes and approvals. The database refuses
    this while its turns have open messages: `settle.delete_session` closes them first."""
    return db.execute("DELETE FROM sessions WHERE session_id = ?", (session_id,)).rowcount == 1


def prompt(db: Db, session_id: str) -> str | None:
    """Return the system prompt of a session; None before its first turn with a model."""
    row = db.execute("SELECT prompt FROM sessions WHERE session_id = ?", (session_id,)).fetchone()
    return row[0] if row else None


def set_prompt(db: Db, session_id: str, text: str) -> None:
    """Store the system prompt of a session."""
    db.execute("UPDATE sessions SET prompt = ? WHERE session_id = ?", (text, session_id))
