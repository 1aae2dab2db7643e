"""Reading from a request the session that it names, and its numbers."""

from __future__ import annotations

from starlette.requests import Request

from ...base.ids import path_safe_id
from ...state.db.database import Database
from ...state.tables import sessions
from ...state.tables.session_entry import SessionEntry
from ..http.http_errors import NotThere, Refusal

NO_SESSION = ("session", "GET /api/sessions has the list.")
MOST_AT_ONCE = 1000


def id_of(request: Request) -> str:
    """Return the session id in the path. Raises `InvalidId`."""
    return path_safe_id(request.path_params["session_id"])


async def entry_of(database: Database, request: Request) -> SessionEntry:
    """Return the session that the path names. Raises `NotThere` and `InvalidId`."""
    entry = await database.read(sessions.by_id, id_of(request))
    if entry is None:
        raise NotThere(*NO_SESSION)
    return entry


def number_of(request: Request, name: str, default: int, *, least: int = 1) -> int:
    """Return a number of the query; at most `MOST_AT_ONCE` for `limit`. Raises `Refusal`."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or not least <= int(text[:9]) <= MOST_AT_ONCE * 1000:
        raise Refusal(400, "bad_number", f"{name} is not a number in range.", f"Leave {name} out.")
    return min(int(text[:9]), MOST_AT_ONCE) if name == "limit" else int(text[:9])
