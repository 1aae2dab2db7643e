"""Session files of hermes-agent, the original, written by hand for tests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

AT = "2026-05-19T12:00:00"
README = "This file is a mirror."


def entry(chat: str, session_id: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a session entry as an old version of the original wrote it, with few fields."""
    return {
        "session_key": f"agent:main:memory:dm:{chat}",
        "session_id": session_id or f"20260519_120000_000000{chat}",
        "created_at": AT,
        "updated_at": AT,
        "origin": {"platform": "memory", "chat_id": chat, "user_id": chat, "user_name": "Kim"},
        **more,
    }


def original(home: Path, *entries: dict[str, Any], counts: object = None, place: str = "sessions") -> None:
    folder = home / place
    folder.mkdir(parents=True, exist_ok=True)
    keyed = {"_README": README, **{one["session_key"]: one for one in entries}}
    (folder / "sessions.json").write_text(json.dumps(keyed))
    if counts is not None:
        (home / ".restart_failure_counts").write_text(json.dumps(counts))


SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, session_key TEXT,
    chat_id TEXT, chat_type TEXT, thread_id TEXT, display_name TEXT, origin_json TEXT,
    started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, title TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL,
    content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL,
    finish_reason TEXT, reasoning TEXT, reasoning_content TEXT, active INTEGER NOT NULL DEFAULT 1,
    compacted INTEGER NOT NULL DEFAULT 0);
CREATE TABLE gateway_routing (scope TEXT NOT NULL DEFAULT '', session_key TEXT NOT NULL,
    entry_json TEXT NOT NULL, updated_at REAL NOT NULL, PRIMARY KEY (scope, session_key));
"""
"""The columns of the database of the original that matter here, as version 0.19.0 names them."""


@contextmanager
def state_db(home: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of the original, and make it if it is missing."""
    home.mkdir(parents=True, exist_ok=True)
    path = home / "state.db"
    is_new = not path.exists()
    with closing(sqlite3.connect(path)) as db:
        if is_new:
            db.executescript(SCHEMA)
        yield db
        db.commit()


def said(db: sqlite3.Connection, session_id: str, *rows: dict[str, Any], at: float, **session: Any) -> None:
    """Add a conversation with these messages."""
    columns = {"id": session_id, "source": "telegram", "started_at": at, **session}
    _insert(db, "sessions", columns)
    for number, row in enumerate(rows):
        _insert(db, "messages", {"session_id": session_id, "timestamp": at + number, **row})


def _insert(db: sqlite3.Connection, table: str, columns: dict[str, Any]) -> None:
    marks = ", ".join("?" * len(columns))
    db.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", tuple(columns.values()))  # noqa: S608
