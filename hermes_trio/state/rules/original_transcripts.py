"""Import of the conversations of hermes-agent, the original, with every message, from its `state.db`.

| conversation of the original | here |
|---|---|
| that a chat continues (`gateway_routing`, `sessions.json`) | the open session of that chat |
| an earlier one of a chat | an ended session of that chat |
| without a chat, as of the API or a terminal | a conversation of the page and the API, under its id |

A transcript is the rows that the original itself would go on with, in their order. Rows that it has taken
back or has replaced by a summary stay there, as do those that are neither of a person nor of the agent or a
tool.
A session that the database has already is left as it is, so a second import changes nothing.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...base.errors import GatewayError
from ...base.messages import SessionSource
from ...config.schema import GatewayConfig
from ...log import Log
from ..db.engine import Db
from ..tables import sessions, transcript
from ..tables.session_entry import SessionEntry, parse_time
from ..tables.transcript import ToolCall, TranscriptRow
from .original_sessions import entry_of
from .store import key_of

PAGE = "api"
"""The platform of conversations without a chat."""

_JSON = "\0json:"
"""Before the content of a message that is not plain text."""
_ROLES = ("user", "assistant", "tool")

log = Log(__name__)

Row = Mapping[str, Any]


class OriginalUnreadable(GatewayError):
    """The database of the original cannot be read."""

    def __init__(self, path: Path, error: Exception) -> None:
        remedy = "Start hermes-agent once, which repairs it, and stop it. Then try again."
        super().__init__(f"{path} cannot be read ({error}). {remedy}")


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation of the original."""

    entry: SessionEntry
    rows: tuple[TranscriptRow, ...]
    left: int
    """The number of its rows that are not taken."""


@dataclass(slots=True)
class Moved:
    """The result of an import."""

    taken: list[Conversation] = field(default_factory=list)
    known: int = 0
    """The number of conversations that were here before."""
    refused: list[str] = field(default_factory=list)
    """The ids of conversations that cannot be stored."""

    @property
    def messages(self) -> int:
        return sum(len(one.rows) for one in self.taken)


@contextmanager
def open_original(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the database of the original in one read transaction, also while the original runs. Nothing in it
    is changed. Raises `OriginalUnreadable`."""
    wal = path.with_name(f"{path.name}-wal")
    # Without a log nobody has it open, and SQLite need not make files beside it.
    alone = not wal.exists() or not wal.stat().st_size
    uri = f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if alone else ''}"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as db:
            db.row_factory = sqlite3.Row
            db.text_factory = lambda raw: raw.decode("utf-8", "replace")
            db.execute("BEGIN")
            yield db
    except sqlite3.Error as error:
        raise OriginalUnreadable(path, error) from error


def move_conversations(
    db: Db, original: sqlite3.Connection, routes: Mapping[str, Any], config: GatewayConfig, *, dry: bool
) -> Moved:
    """Store every conversation that is not here yet; with `dry` only tell what would be stored. `routes` are
    the sessions that chats continue, by their keys, as `sessions.json` has them."""
    moved = Moved()
    routed = {**_routing(original), **routes}
    by_session = {
        str(data.get("session_id")): (key, data) for key, data in routed.items() if isinstance(data, Mapping)
    }
    for row in _rows(original, "SELECT * FROM sessions ORDER BY started_at, id"):
        session_id = str(row["id"])
        try:
            conversation = _conversation(original, row, by_session.get(session_id), config)
        except ValueError as error:
            log.warning("original session not imported", session=session_id[:200], error=str(error))
            moved.refused.append(session_id)
            continue
        if conversation is None:
            continue
        entry = conversation.entry
        if sessions.by_id(db, entry.session_id):
            moved.known += 1
            continue
        if entry.ended_at is None and sessions.open_by_key(db, entry.session_key):
            # The chat has begun a conversation here, which is newer.
            entry = replace(entry, ended_at=entry.updated_at, end_reason="imported")
            conversation = replace(conversation, entry=entry)
        moved.taken.append(conversation)
        if not dry:
            sessions.add(db, entry)
            for message in conversation.rows:
                transcript.append(db, entry.session_id, message)
    return moved


def _routing(original: sqlite3.Connection) -> dict[str, Any]:
    """Return the sessions that chats continue, as newer versions of the original keep them."""
    if not list(_rows(original, "SELECT 1 FROM sqlite_schema WHERE name = 'gateway_routing'")):
        return {}
    found = {}
    for row in _rows(original, "SELECT session_key, entry_json FROM gateway_routing ORDER BY updated_at"):
        try:
            found[row["session_key"]] = json.loads(row["entry_json"])
        except ValueError:
            log.warning("original session not imported", key=str(row["session_key"])[:200], error="no JSON")
    return found


def _conversation(
    original: sqlite3.Connection, row: Row, route: tuple[str, Row] | None, config: GatewayConfig
) -> Conversation | None:
    """Return a conversation with its rows; None for one without any. Raises ValueError."""
    query = "SELECT * FROM messages WHERE session_id = ? ORDER BY id"
    every = list(_rows(original, query, (row["id"],)))
    said = [one for one in every if one.get("active", 1) != 0 and one["role"] in _ROLES]
    rows = tuple(_message(one, place) for place, one in enumerate(said))
    if not rows:
        return None
    entry = entry_of(*route, config) if route is not None else None
    if entry is None:
        entry = _unrouted(row, config)
    used = max(entry.updated_at, *(one.created_at for one in rows))
    ended = None if entry.ended_at is None else used
    title = entry.display_name or row.get("title") or None
    entry = replace(entry, auto_reset_reason=None, updated_at=used, ended_at=ended, display_name=title)
    return Conversation(entry, rows, len(every) - len(rows))


def _unrouted(row: Row, config: GatewayConfig) -> SessionEntry:
    """Return the session of a conversation that no chat continues."""
    at = parse_time(row["started_at"]) or 0.0
    chat = _origin(row)
    source = chat or SessionSource(platform=PAGE, chat_id=str(row["id"]))
    ended = None if chat is None else at
    data = {
        "session_key": key_of(source, config),
        "session_id": row["id"],
        "created_at": at,
        "platform": source.platform,
        "chat_type": source.chat_type,
        "display_name": row.get("display_name"),
    }
    reason = None if ended is None else "imported"
    return replace(SessionEntry.from_dict(data), origin=source, ended_at=ended, end_reason=reason)


def _origin(row: Row) -> SessionSource | None:
    """Return the chat of a conversation, if it had one that can be written to."""
    if not row.get("chat_id") or row["source"] in ("api_server", "cli", "tui", "webhook"):
        return None
    names = ("chat_id", "chat_type", "user_id", "thread_id")
    data = {name: row[name] for name in names if row.get(name)}
    return SessionSource.from_dict({"platform": row["source"], **data})


def _message(row: Row, place: int) -> TranscriptRow:
    return TranscriptRow(
        role=row["role"],
        content=_text(row["content"]),
        created_at=parse_time(row["timestamp"]) or 0.0,
        place=place,
        reasoning=row.get("reasoning_content") or row.get("reasoning") or None,
        tool_calls=tuple(_calls(row.get("tool_calls"))),
        finish=row.get("finish_reason"),
        tool_call_id=row.get("tool_call_id"),
        tool_name=row.get("tool_name"),
        status="ok" if row["role"] == "tool" else None,
    )


def _text(content: object) -> str:
    """Return the text of a message. Other parts, such as pictures, are named in its place."""
    if not isinstance(content, str):
        return "" if content is None else str(content)
    if not content.startswith(_JSON):
        return content
    try:
        parts = json.loads(content.removeprefix(_JSON))
    except ValueError:
        return content
    if not isinstance(parts, list):
        return json.dumps(parts, ensure_ascii=False)
    texts = (
        str(part.get("text", ""))
        if isinstance(part, Mapping) and part.get("type") == "text"
        else f"[{str(part.get('type')) if isinstance(part, Mapping) else 'part'}, left in hermes-agent]"
        for part in parts
    )
    return "\n".join(texts)


def _calls(text: object) -> Iterator[ToolCall]:
    try:
        calls = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping) and call.get("id") and function.get("name"):
            arguments = function.get("arguments") or "{}"
            given = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            yield ToolCall(str(call["id"]), str(function["name"]), given)


def _rows(db: sqlite3.Connection, query: str, parameters: tuple[object, ...] = ()) -> Iterator[Row]:
    return map(dict, db.execute(query, parameters))
