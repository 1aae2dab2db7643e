"""Sessions of the platform `api`: their address, their creation, and the way to a session's chat.

A session that is created here lives on the platform `api`, and its chat id is its session id.

It may touch the table of sessions only.
"""

from __future__ import annotations

from collections.abc import Container

from ...base.messages import SessionSource
from ...base.world import World
from ...config.schema import GatewayConfig
from ...state.db.engine import Db
from ...state.rules.store import key_of
from ...state.tables import sessions
from ...state.tables.session_entry import SessionEntry
from .operation_errors import OperationRefused

API_PLATFORM = "api"
LONGEST_TITLE = 60


class SessionUnreachable(OperationRefused):
    """The platform of a session is not connected."""

    def __init__(self) -> None:
        super().__init__(
            "The chat of this session is on a platform that is not connected.",
            "Connect the platform, or start another session.",
        )


def source_of(session_id: str) -> SessionSource:
    """Return the address of a session on the platform `api`."""
    return SessionSource(platform=API_PLATFORM, chat_id=session_id)


def reachable_origin(entry: SessionEntry, connected: Container[tuple[str, str]]) -> SessionSource:
    """Return the address of a session. Raises `SessionUnreachable` if its platform and account are not in
    `connected`."""
    origin = entry.origin
    if origin is None or (origin.platform, origin.account) not in connected:
        raise SessionUnreachable
    return origin


def title_of(text: str) -> str | None:
    """Return a title for a conversation that starts with this text: its first line, without the Markdown
    characters at the start of the line."""
    lines = (line.lstrip(" \t#>*`-").rstrip() for line in text.splitlines())
    line = next(filter(None, lines), "")
    return (line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1].rstrip()}…") or None


def new_session(config: GatewayConfig, world: World, session_id: str, title: str | None) -> SessionEntry:
    """Return a session of the API that is not stored yet."""
    source, at = source_of(session_id), world.time()
    return SessionEntry(
        session_key=key_of(source, config),
        session_id=session_id,
        created_at=at,
        updated_at=at,
        origin=source,
        display_name=title,
        platform=API_PLATFORM,
        chat_type="dm",
    )


def find_or_create(db: Db, entry: SessionEntry) -> tuple[SessionEntry, bool]:
    """Return the session with the id of this one, and whether it was created by this call."""
    # After a reset the session that took the place of this one has the same key and another id.
    known = sessions.by_id(db, entry.session_id) or sessions.open_by_key(db, entry.session_key)
    if known is None:
        sessions.add(db, entry)
    return known or entry, known is None
