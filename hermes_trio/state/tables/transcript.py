"""The transcript: what was said in a session, row by row, and what stands there where an answer was
cut.

A row belongs to a turn and has a place in it: the seq of the run's last event that the row tells of
(0 for what came before the first event, the person's message above all). So rows are ordered by
(turn, place), a row that is found later still stands where it belongs, and what a run journal knows
beyond the transcript is exactly its events behind the last place.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from ..db.column_text import read_stored, storable

Role = Literal["user", "assistant", "tool", "system"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call the model asked for: its id joins it to the row that holds its result."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolCard:
    """What a person saw of a tool call whose own rows were never written."""

    id: str
    name: str
    preview: str = ""
    snippet: str = ""
    args: Mapping[str, str] = field(default_factory=dict)
    done: bool = False
    """False for a call whose end nobody saw: whether it had an effect is unknown."""
    is_error: bool = False
    duration: float | None = None


@dataclass(frozen=True, slots=True)
class TranscriptRow:
    """One row of a transcript."""

    role: Role
    content: str
    created_at: float
    turn_id: int | None = None
    run_id: str | None = None
    place: int = 0
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    """Assistant rows: what the model asked for, whole (a partial call is never stored)."""
    finish: str | None = None
    """Assistant rows: why the model stopped, as the provider said it; None while unknown."""
    tool_call_id: str | None = None
    tool_name: str | None = None
    status: str | None = None
    """Tool rows: `ok`, `error`, or `unanswered` (a question the person did not answer)."""
    cards: tuple[ToolCard, ...] = ()
    """Recovered assistant rows: the calls that followed this text."""
    recovered: bool = False
    """Found in the run journal after its turn was cut."""
    id: int | None = None
    opaque: str | None = None
    """Assistant rows: what the model wants back with them; nobody else reads it."""
    marker: str | None = None
    """Not None on the row that says what is known of a cut answer. Such a row is not stored: it is what
    the turn says of its recovery, put where the answer would go on. No model is ever sent one."""

    @property
    def type(self) -> str:
        """`interrupted` on a marker, `message` on everything else."""
        return "message" if self.marker is None else "interrupted"


_COLUMNS = (
    "role, content, created_at, messages.turn_id, run_id, place, reasoning, tool_calls, finish, "
    "tool_call_id, tool_name, status, cards, recovered, message_id, opaque"
)
_calls = msgspec.json.Decoder(tuple[ToolCall, ...]).decode
_cards = msgspec.json.Decoder(tuple[ToolCard, ...]).decode


def _json(values: tuple[ToolCall, ...] | tuple[ToolCard, ...]) -> str | None:
    if not values:
        return None
    try:
        return msgspec.json.encode(values).decode()
    except UnicodeEncodeError:
        return storable(json.dumps(msgspec.to_builtins(values), ensure_ascii=False))


def _message(row: tuple[Any, ...]) -> TranscriptRow:
    values = list(row)
    values[7] = read_stored(row[7], _calls, "tool_calls", message=row[14]) or ()
    values[12] = read_stored(row[12], _cards, "cards", message=row[14]) or ()
    values[13] = bool(row[13])
    return TranscriptRow(*values)


def append(db: sqlite3.Connection, session_id: str, row: TranscriptRow) -> int:
    """Add a row where its turn and place say; returns its id."""
    cursor = db.execute(
        "INSERT INTO messages (session_id, turn_id, place, role, content, created_at, reasoning, "
        "tool_calls, finish, tool_call_id, tool_name, status, cards, recovered, opaque) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            session_id,
            row.turn_id,
            row.place,
            row.role,
            storable(row.content),
            row.created_at,
            storable(row.reasoning),
            _json(row.tool_calls),
            storable(row.finish),
            storable(row.tool_call_id),
            storable(row.tool_name),
            storable(row.status),
            _json(row.cards),
            row.recovered,
            row.opaque,
        ),
    )
    assert cursor.lastrowid is not None  # noqa: S101 - SQLite always gives one after an insert
    return cursor.lastrowid


def load(db: sqlite3.Connection, session_id: str) -> list[TranscriptRow]:
    """The transcript of a session, in order, with the times at which its rows were written."""
    query = (
        f"SELECT {_COLUMNS} FROM messages LEFT JOIN turns USING (turn_id) "  # noqa: S608 - a constant
        "WHERE messages.session_id = ? ORDER BY messages.turn_id, place, message_id"
    )
    return [_message(row) for row in db.execute(query, (session_id,))]


def instruct(db: sqlite3.Connection, session_id: str, row: TranscriptRow) -> None:
    """Let this be all that is said in front of a session of how it is to be led."""
    query = "SELECT content FROM messages WHERE session_id = ? AND turn_id IS NULL AND role = 'system'"
    if [content for (content,) in db.execute(query, (session_id,))] == [storable(row.content)]:
        return
    db.execute(
        "DELETE FROM messages WHERE session_id = ? AND turn_id IS NULL AND role = 'system'", (session_id,)
    )
    append(db, session_id, row)


def answer_of(db: sqlite3.Connection, turn_id: int) -> str | None:
    """What a turn answered: the last that the agent said in it."""
    query = (
        "SELECT content FROM messages WHERE turn_id = ? AND role = 'assistant' "
        "ORDER BY place DESC, message_id DESC LIMIT 1"
    )
    row = db.execute(query, (turn_id,)).fetchone()
    return row[0] if row else None


def remove(db: sqlite3.Connection, session_id: str, *, limit: int) -> int:
    """Remove some rows of a session that goes, at most so many; returns how many."""
    return db.execute(
        "DELETE FROM messages WHERE message_id IN "
        "(SELECT message_id FROM messages WHERE session_id = ? LIMIT ?)",
        (session_id, limit),
    ).rowcount


def forget_turn(db: sqlite3.Connection, turn_id: int) -> None:
    """Remove all that was said in a turn, as if it had not been."""
    db.execute("DELETE FROM messages WHERE turn_id = ?", (turn_id,))


def replace_recovered(
    db: sqlite3.Connection, session_id: str, turn_id: int, rows: Sequence[TranscriptRow]
) -> None:
    """Let `rows` be all that recovery has put into this turn. Doing it again changes nothing, doing it
    with more adds what is more: a turn never has two copies of anything recovered."""
    db.execute("DELETE FROM messages WHERE turn_id = ? AND recovered", (turn_id,))
    for row in rows:
        append(db, session_id, row)


def search(
    db: sqlite3.Connection, words: str, *, limit: int = 50, key: str | None = None
) -> list[tuple[str, TranscriptRow]]:
    """Rows in which all of `words` occur, the best first, each with the id of its session; with a `key`
    only those of the sessions that have it. The words are taken literally: nothing in them is an operator."""
    phrases = " ".join(
        '"' + word.replace('"', '""') + '"' for word in storable(words).replace("\0", " ").split()
    )
    if not phrases:
        return []
    query = (
        "WITH found AS (SELECT rowid AS message_id, rank FROM messages_text WHERE messages_text MATCH ?1) "  # noqa: S608
        f"SELECT messages.session_id, {_COLUMNS} FROM found "
        "JOIN messages USING (message_id) LEFT JOIN turns USING (turn_id) "
        "WHERE ?2 IS NULL OR messages.session_id IN (SELECT session_id FROM sessions WHERE session_key = ?2) "
        "ORDER BY rank, message_id DESC LIMIT ?3"
    )
    return [(row[0], _message(row[1:])) for row in db.execute(query, (phrases, key, limit))]
