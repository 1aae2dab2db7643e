"""The table `messages`: the transcript of each session.

A row belongs to a turn and has a place in it: the seq of the last event of the run that the row covers (0 for
rows before the first event, such as the person's message). So rows are ordered by (turn, place), a row that
is recovered later still gets its correct position, and a run journal knows more than the transcript exactly
if it has events after the last place.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from ...base.messages import StoredFile
from ..db.column_text import read_stored, storable
from ..db.engine import Answer, Db

_BYTES_WITHOUT_TEXTS = 700
"""About the size of a row in memory without its texts, as measured."""

Role = Literal["user", "assistant", "tool", "system"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model; its id connects it to the row with the result."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ToolCard:
    """A tool call as a person saw it; its own rows were never stored."""

    id: str
    name: str
    preview: str = ""
    snippet: str = ""
    args: Mapping[str, str] = field(default_factory=dict)
    done: bool = False
    """False if the end of the call is unknown, and so its effect."""
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
    """Assistant rows: the complete tool calls of the model (a partial call is never stored)."""
    finish: str | None = None
    """Assistant rows: the provider's reason why the model stopped; None if unknown."""
    tool_call_id: str | None = None
    tool_name: str | None = None
    status: str | None = None
    """Tool rows: `ok`, `error`, or `unanswered` (a question the person did not answer)."""
    cards: tuple[ToolCard, ...] = ()
    """Recovered assistant rows: the tool calls after this text."""
    recovered: bool = False
    """True for a row from the run journal, added after the turn was cut."""
    id: int | None = None
    opaque: str | None = None
    """Assistant rows: data that the provider wants back with the row; nobody else reads it."""
    files: tuple[StoredFile, ...] = ()
    """User rows: the files that the person sent along."""
    marker: str | None = None
    """Set on the row that describes the recovery of a cut answer. Such a row is not stored: it is made from
    the turn and shown where the answer would continue. It is never sent to a model."""

    @property
    def type(self) -> str:
        """`interrupted` for a marker, `message` for every other row."""
        return "message" if self.marker is None else "interrupted"


_COLUMNS = (
    "role, content, created_at, messages.turn_id, run_id, place, reasoning, tool_calls, finish, "
    "tool_call_id, tool_name, status, cards, recovered, message_id, opaque, files"
)
_calls = msgspec.json.Decoder(tuple[ToolCall, ...]).decode
_files = msgspec.json.Decoder(tuple[StoredFile, ...]).decode
_cards = msgspec.json.Decoder(tuple[ToolCard, ...]).decode


def _json(values: tuple[ToolCall, ...] | tuple[ToolCard, ...] | tuple[StoredFile, ...]) -> str | None:
    if not values:
        return None
    try:
        return msgspec.json.encode(values).decode()
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(values), ensure_ascii=False)


def _message(row: tuple[Any, ...]) -> TranscriptRow:
    values = list(row)
    values[7] = read_stored(row[7], _calls, "tool_calls", message=row[14]) or ()
    values[12] = read_stored(row[12], _cards, "cards", message=row[14]) or ()
    values[13] = bool(row[13])
    values[16] = read_stored(row[16], _files, "files", message=row[14]) or ()
    return TranscriptRow(*values)


def append(db: Db, session_id: str, row: TranscriptRow) -> None:
    """Add a row at the position given by its turn and place."""
    db.execute(
        "INSERT INTO messages (session_id, turn_id, place, role, content, created_at, reasoning, "
        "tool_calls, finish, tool_call_id, tool_name, status, cards, recovered, opaque, files) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            session_id,
            row.turn_id,
            row.place,
            row.role,
            row.content,
            row.created_at,
            row.reasoning,
            _json(row.tool_calls),
            row.finish,
            row.tool_call_id,
            row.tool_name,
            row.status,
            _json(row.cards),
            row.recovered,
            row.opaque,
            _json(row.files),
        ),
    )


def load(db: Db, session_id: str) -> list[TranscriptRow]:
    """Return the stored rows of a session, in order."""
    query = (
        f"SELECT {_COLUMNS} FROM messages LEFT JOIN turns USING (turn_id) "  # noqa: S608 - a constant
        "WHERE messages.session_id = ? ORDER BY messages.turn_id NULLS FIRST, place, message_id"
    )
    return [_message(row) for row in db.execute(query, (session_id,))]


@dataclass(frozen=True, slots=True)
class KnownRows:
    """The rows of a session that a reader has: their number, their greatest id, and the last position."""

    count: int
    newest: int
    last: tuple[int, int, int]


def position(row: TranscriptRow) -> tuple[int, int, int]:
    """Return the position of a stored row in its transcript. Rows without a turn come first."""
    return row.turn_id or 0, row.place, row.id or 0


def bytes_of(row: TranscriptRow) -> int:
    """Return about the size of a row in memory."""
    texts = (row.content, row.reasoning, row.opaque, *(call.arguments for call in row.tool_calls))
    return _BYTES_WITHOUT_TEXTS + sum(len(text) for text in texts if text)


def ask_after(db: Db, session_id: str, known: KnownRows) -> Answer[tuple[list[TranscriptRow], bool]]:
    """Ask for the rows after the known ones, which the answer has with True. If the known rows are not the
    beginning of the transcript any more, it has all rows, and False.

    No row is ever changed, and no id is used twice. So the known rows are all there if the number is right.
    """
    query = (
        f"SELECT {_COLUMNS} FROM messages LEFT JOIN turns USING (turn_id) "  # noqa: S608 - a constant
        "WHERE messages.session_id = ? AND message_id > ? "
        "ORDER BY messages.turn_id NULLS FIRST, place, message_id"
    )
    found = db.execute(query, (session_id, known.newest))
    counted = db.execute("SELECT count(*) FROM messages WHERE session_id = ?", (session_id,))

    def answer() -> tuple[list[TranscriptRow], bool]:
        new, (count,) = [_message(row) for row in found], counted.fetchone()
        if count == known.count + len(new) and (not new or position(new[0]) > known.last):
            return new, True
        return load(db, session_id), False

    return answer


def replace_instructions(db: Db, session_id: str, row: TranscriptRow) -> None:
    """Replace the session's system instructions with this row."""
    query = "SELECT content FROM messages WHERE session_id = ? AND turn_id IS NULL AND role = 'system'"
    if [content for (content,) in db.execute(query, (session_id,))] == [storable(row.content)]:
        return
    db.execute(
        "DELETE FROM messages WHERE session_id = ? AND turn_id IS NULL AND role = 'system'", (session_id,)
    )
    append(db, session_id, row)


def answer_of(db: Db, turn_id: int) -> str | None:
    """Return the last text of the agent in a turn; None if there is none."""
    query = (
        "SELECT content FROM messages WHERE turn_id = ? AND role = 'assistant' "
        "ORDER BY place DESC, message_id DESC LIMIT 1"
    )
    row = db.execute(query, (turn_id,)).fetchone()
    return row[0] if row else None


def places_of_calls(db: Db, turn_id: int) -> list[int]:
    """Return the places of the rows of a turn that call tools, in order."""
    query = "SELECT place FROM messages WHERE turn_id = ? AND tool_calls IS NOT NULL ORDER BY place"
    return [place for (place,) in db.execute(query, (turn_id,))]


def has_other_results(db: Db, session_id: str, tools: Collection[str]) -> bool:
    """Return True if the transcript has results of other tools than these, or recovered tool calls."""
    marks = ", ".join("?" * len(tools))
    query = (
        "SELECT EXISTS (SELECT 1 FROM messages WHERE session_id = ? AND (cards IS NOT NULL "  # noqa: S608
        f"OR (role = 'tool' AND coalesce(tool_name, '') NOT IN ({marks}))))"
    )
    (found,) = db.execute(query, (session_id, *tools)).fetchone()
    return bool(found)


def remove(db: Db, session_id: str, *, limit: int) -> int:
    """Delete up to `limit` rows of a session that is being deleted; return their number."""
    return db.execute(
        "DELETE FROM messages WHERE message_id IN "
        "(SELECT message_id FROM messages WHERE session_id = ? LIMIT ?)",
        (session_id, limit),
    ).rowcount


def forget_turn(db: Db, turn_id: int) -> None:
    """Delete all rows of a turn."""
    db.execute("DELETE FROM messages WHERE turn_id = ?", (turn_id,))


def replace_recovered(db: Db, session_id: str, turn_id: int, rows: Sequence[TranscriptRow]) -> None:
    """Replace the recovered rows of a turn. Repeating it changes nothing, and repeating it with more rows
    adds the new ones: a turn never has two copies of recovered text."""
    db.execute("DELETE FROM messages WHERE turn_id = ? AND recovered", (turn_id,))
    for row in rows:
        append(db, session_id, row)


def search(db: Db, words: str, *, limit: int = 50, key: str | None = None) -> list[tuple[str, TranscriptRow]]:
    """Return up to `limit` rows that contain all of `words`, the best match first, each with its session id;
    with a `key` only rows of sessions with that key. The words are literal: none is a search operator."""
    phrases = " ".join('"' + word.replace('"', '""') + '"' for word in words.replace("\0", " ").split())
    if not phrases:
        return []
    of_key = "WHERE messages.session_id IN (SELECT session_id FROM sessions WHERE session_key = ?3) "
    query = (
        "WITH found AS (SELECT rowid AS message_id, rank FROM messages_text(?1)) "  # noqa: S608
        f"SELECT messages.session_id, {_COLUMNS} FROM found "
        "JOIN messages USING (message_id) LEFT JOIN turns USING (turn_id) "
        f"{'' if key is None else of_key}ORDER BY rank, message_id DESC LIMIT ?2"
    )
    parameters = (phrases, limit) if key is None else (phrases, limit, key)
    return [(row[0], _message(row[1:])) for row in db.execute(query, parameters)]
