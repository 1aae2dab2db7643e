"""Rows for tests of the tables and rules, and the content of a whole database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

from hermes_trio.base.messages import MessageEvent, SessionSource
from hermes_trio.state.db.engine import Db
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables import inbox, sessions, turns
from hermes_trio.state.tables.outbox import Owed
from hermes_trio.state.tables.session_entry import Mark, SessionEntry
from hermes_trio.state.tables.turns import Outcome, TurnRow
from tests.conftest import Home

NOON = 1_779_278_400.0
KIM = SessionSource(platform="telegram", chat_id="42", user_id="42", user_name="Kim")
KEY = "agent:main:telegram:dm:42"


def texts(max_size: int) -> st.SearchStrategy[str]:
    """Texts that every engine stores unchanged."""
    return st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=max_size)


@contextmanager
def undone(db: Db) -> Iterator[Db]:
    """Run the block in a transaction that is rolled back at its end."""
    db.execute("BEGIN")
    try:
        yield db
    finally:
        db.execute("ROLLBACK")


def session(
    db: Db,
    session_id: str = "s1",
    *,
    key: str | None = None,
    mark: Mark | None = None,
    used_at: float = NOON,
) -> SessionEntry:
    """Add a session, by default last used at noon."""
    entry = SessionEntry(
        key or f"key of {session_id}", session_id, used_at, used_at, KIM, "Kim", "telegram", mark=mark
    )
    sessions.add(db, entry)
    return entry


def turn(
    db: Db,
    session_id: str = "s1",
    *,
    run: str = "r1",
    life: str = "life-1",
    requested: bool = True,
    ended: Outcome | None = None,
) -> int:
    """Add a turn, by default running and with a request to its model; return its id."""
    turn_id = turns.begin(db, run_id=run, session_id=session_id, life=life, at=NOON)
    if requested:
        turns.note_request(db, turn_id, NOON)
    if ended is not None:
        assert turns.ask_end(db, turn_id, ended, NOON)()
    return turn_id


def the_turn(db: Db, turn_id: int) -> TurnRow:
    """Return an existing turn."""
    found = turns.get(db, turn_id)
    assert found is not None
    return found


def the_session(db: Db, session_id: str = "s1") -> SessionEntry:
    """Return an existing session."""
    found = sessions.by_id(db, session_id)
    assert found is not None
    return found


def received(db: Db, message_id: str, *, key: str = "key of s1", text: str = "Hello.") -> int:
    """Store a received message; return its row id."""
    event = MessageEvent(KIM, text, message_id=message_id)
    return inbox.store(db, event, session_key=key, own_key=f"own {message_id}", at=NOON).inbox_id


async def cut_with_message(home: Home, session_id: str) -> int:
    """Cut a turn of this session that has a message; return the row id of the message."""
    turn = await home.turn(session_id)
    row = await home.database.write(received, f"of {turn.run_id}")
    await home.database.write(inbox.join_turn, turn.turn_id, [row])
    await home.database.write(
        settle.settle, turn.turn_id, Settlement(Outcome.CUT, "restart_timeout"), home.world.time()
    )
    return row


def state_of(db: Db, inbox_id: int) -> tuple[str, int | None]:
    """Return the state and the turn id of a message."""
    found: tuple[str, int | None] = db.execute(
        "SELECT state, turn_id FROM inbox WHERE inbox_id = ?", (inbox_id,)
    ).fetchone()
    return found


def to_chat(key: str, **more: str | int | None) -> Owed:
    """Return a message that is owed to the chat."""
    return Owed(key, "telegram", "main", "42", '{"text": "Hello."}', **more)  # type: ignore[arg-type]


TABLES = ("sessions", "turns", "messages", "inbox", "outbox", "processes", "approvals", "endings", "meta")


def everything(db: Db) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of all tables, for comparison."""
    return {table: db.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in TABLES}  # noqa: S608


def scans(db: Db, statement: str, parameters: Sequence[Any] = ()) -> list[str]:
    """Return the full table scans of this statement and of the triggers and foreign keys it activates."""
    plan = db.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
    return [detail for (*_, detail) in plan if detail.startswith("SCAN")]
