"""The tool `session_search`: find messages of the same chat, in this session or in earlier ones.

Messages of other chats are never found: a search covers the sessions with the key of the asking session, and
a key stands for one chat, or for one person's part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from ...state.db.engine import Db
from ...state.tables import sessions, transcript
from ...state.tables.transcript import TranscriptRow
from ..tool import Result, Tool, ToolFailed, Workplace

AROUND_A_HIT = 2
AROUND_A_ROW = 10
LONGEST_ROW = 700
MOST_SESSIONS = 20


_Day = Callable[[float], str]


class SessionSearchArguments(msgspec.Struct, frozen=True):
    query: Annotated[
        str,
        Meta(
            max_length=400,
            description="Words that all occur in one message. Left out: a list of sessions.",
        ),
    ] = ""
    session_id: Annotated[str, Meta(max_length=200, description="To read on in a session: its id,")] = ""
    around: Annotated[int, Meta(description="and the number of a message in it; 0 is its end.")] = 0
    limit: Annotated[int, Meta(ge=1, le=10, description="How many hits.")] = 3


async def _look(arguments: SessionSearchArguments, place: Workplace) -> Result:
    def day(at: float) -> str:
        return f"{datetime.fromtimestamp(at, place.world.zone):%Y-%m-%d %H:%M}"

    return Result(await place.database.read(_found, place.session_id, arguments, day))


def _found(db: Db, asking: str, look: SessionSearchArguments, day: _Day) -> str:
    entry = sessions.by_id(db, asking)
    if entry is None:
        raise ToolFailed("This session is not stored.")
    key = entry.session_key
    if look.session_id:
        other = sessions.by_id(db, look.session_id)
        if other is None or other.session_key != key:
            raise ToolFailed("There is no such session in this chat.")
        rows = _messages(transcript.load(db, look.session_id))
        at = next((number for number, row in enumerate(rows) if row.id == look.around), len(rows))
        return _window(rows, at, AROUND_A_ROW, day, "") or "[This session has no messages.]"
    if not look.query.strip():
        listed = sessions.of_key(db, key, limit=MOST_SESSIONS)
        return "\n".join(
            f"{each.session_id}: {day(each.updated_at)}{', this one' if each.session_id == asking else ''}"
            for each in listed
        )
    parts = []
    for session_id, hit in transcript.search(db, look.query, limit=look.limit, key=key):
        rows = _messages(transcript.load(db, session_id))
        at = next(number for number, row in enumerate(rows) if row.id == hit.id)
        parts.append(f"[session {session_id}]\n{_window(rows, at, AROUND_A_HIT, day, look.query)}")
    return "\n\n".join(parts) or "[No message of this chat has these words.]"


def _messages(rows: Sequence[TranscriptRow]) -> list[TranscriptRow]:
    """Return the rows with messages of people and of the agent."""
    return [row for row in rows if row.role in ("user", "assistant") and row.content.strip()]


def _window(rows: Sequence[TranscriptRow], at: int, around: int, day: _Day, words: str) -> str:
    part = rows[max(0, at - around) : at + around + 1]
    return "\n".join(f"{row.id} {day(row.created_at)} {row.role}: {_cut(row.content, words)}" for row in part)


def _cut(text: str, words: str) -> str:
    """Return the part of a text around the first of these words."""
    if len(text) <= LONGEST_ROW:
        return text
    first = words.split()[:1]
    at = max(0, text.casefold().find(first[0].casefold())) if first else 0
    start = max(0, min(at - LONGEST_ROW // 2, len(text) - LONGEST_ROW))
    end = start + LONGEST_ROW
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


SESSION_SEARCH = Tool(
    "session_search",
    "Finds earlier messages of this chat, also in sessions before this one.",
    SessionSearchArguments,
    _look,
    reads_only=True,
)
