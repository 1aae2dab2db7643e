"""Audit of the store of gateways that were killed many times, with only SQL and the journal reader."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from hermes_trio.journal.reader import Reading, read_run
from hermes_trio.state.db.engine import Db

Rows = list[tuple[Any, ...]]
ReadRun = Callable[[str, str], Reading]
"""Reads the journal of a run of a session."""

# The turns of each message in order: the one that took it, and the ones that resumed that turn.
_CHAINS = """
    WITH RECURSIVE chain (inbox_id, turn_id) AS (
        SELECT inbox_id, turn_id FROM inbox WHERE state = 'done' UNION ALL
        SELECT chain.inbox_id, turns.turn_id FROM chain JOIN turns ON turns.resumes = chain.turn_id)
    SELECT event, turns.turn_id, outcome, resumes, session_id, turns.run_id
    FROM chain JOIN inbox USING (inbox_id) JOIN turns ON turns.turn_id = chain.turn_id
    ORDER BY inbox_id, turns.turn_id
"""


@contextmanager
def database_of(home: Path) -> Iterator[Db]:
    """Open the database read-only, also while a gateway writes. A reader repairs nothing, so the next life
    finds the state that the kill has left."""
    with closing(sqlite3.connect(f"{(home / 'gateway.db').as_uri()}?mode=ro", uri=True, timeout=30)) as db:
        yield db


def rows_of(home: Path, chat: str) -> Rows:
    """Return every row about one chat."""
    here = "WHERE chat_id = ?"
    of_session = "WHERE session_id IN (SELECT session_id FROM sessions WHERE session_key LIKE '%:' || ?)"
    with database_of(home) as db:
        return [
            row
            for table, where in {
                "inbox": here,
                "outbox": here,
                "sessions": of_session,
                "turns": of_session,
                "messages": of_session,
            }.items()
            for row in db.execute(f"SELECT '{table}', * FROM {table} {where}", (chat,))  # noqa: S608
        ]


def left_alone(home: Path) -> set[str]:
    """Return the messages that are not run again automatically, because the turn that resumed them was cut
    before it had shown anything."""
    with database_of(home) as db:
        return alone_in(db, partial(read_run, home / "journal"))


def alone_in(db: Db, read: ReadRun) -> set[str]:
    """Return the messages that are `left_alone` in a store."""
    return {
        said
        for said, turns in _chains(db).items()
        if "answered" not in [outcome for _, outcome, *_ in turns]
        if turns[-1][2] is not None and not _deltas(read, turns[-1])
    }


def told_of_results(home: Path) -> dict[str, str]:
    """Return the messages whose turn was cut after a command's result and resumed by the demo agent, with the
    answer: the demo agent reports the result of the command, and does not repeat the message."""
    with database_of(home) as db:
        answers = dict(
            db.execute("SELECT turn_id, content FROM messages WHERE role = 'assistant' AND finish = 'stop'")
        )
        last = {said: turns[-1][0] for said, turns in _chains(db).items()}
    return {said: answers[turn] for said, turn in last.items() if "came of it" in answers.get(turn, "")}


def check(home: Path, witness: Path, said: set[str]) -> None:
    """Assert that the database and the journals are consistent, and that nothing is open."""
    with database_of(home) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        check_rows(db, partial(read_run, home / "journal"), said)
        _check_witness(db, witness)


def check_rows(db: Db, read: ReadRun, said: set[str]) -> None:
    """Assert that a store and the journals are consistent, and that nothing is open."""
    assert db.execute("SELECT state, count(*) FROM inbox GROUP BY 1").fetchall() == [("done", len(said))]
    states = dict(db.execute("SELECT state, count(*) FROM outbox WHERE NOT streamed GROUP BY 1"))
    assert set(states) == {"sent"}
    _check_turns(db)
    _check_chains(read, db, said)
    _check_journals(read, db)


def _check_turns(db: Db) -> None:
    others = (
        "SELECT run_id, outcome, reason FROM turns "
        "WHERE coalesce(outcome, '') NOT IN ('answered', 'cut', 'unstarted')"
    )
    assert db.execute(others).fetchall() == [], "every turn has an end"
    resumed = db.execute(
        "SELECT cut.outcome, count(*) FROM turns JOIN turns AS cut ON cut.turn_id = turns.resumes "
        "GROUP BY cut.turn_id"
    ).fetchall()
    assert set(resumed) <= {("cut", 1)}, "only cut turns are resumed, each once"


def _check_chains(read: ReadRun, db: Db, said: set[str]) -> None:
    chains = _chains(db)
    assert set(chains) == said
    alone = alone_in(db, read)
    told = {key for (key,) in db.execute("SELECT delivery_key FROM outbox")}
    marked = {
        session_id for (session_id,) in db.execute("SELECT session_id FROM sessions WHERE mark IS NOT NULL")
    }
    # What is left alone keeps its mark for the next message of its person, who may have said nothing more.
    unfinished = {chains[text][-1][3] for text in alone & said}
    assert marked <= unfinished, "a mark is left only where a turn was left alone"
    for text, turns in chains.items():
        outcomes = [outcome for _, outcome, *_ in turns]
        assert set(outcomes[:-1]) <= {"cut"}, f"{text}: {outcomes}"
        assert outcomes[-1] == "answered" or text in alone, f"{text}: {outcomes}"
        if text in alone:
            last, _, resumes, *_ = turns[-1]
            assert told & {f"left:{last}", f"left:{resumes}"}, f"{text}: nobody was told"


def _check_witness(db: Db, witness: Path) -> None:
    """Compare the turns with the agent's own record."""
    outcome = dict(db.execute("SELECT run_id, outcome FROM turns"))
    begun: dict[str, list[str]] = {}
    runs = [tuple(line.split(" ", 1)) for line in witness.read_text().splitlines()]
    for run_id, text in runs:
        begun.setdefault(text, []).append(outcome[run_id])
    assert len(set(runs)) == len(runs), "a run starts once"
    for text, outcomes in begun.items():
        assert set(outcomes[:-1]) <= {"cut"}, f"{text}: {outcomes}: an answered message never runs again"


def _check_journals(read: ReadRun, db: Db) -> None:
    for session_id, run_id, outcome in db.execute("SELECT session_id, run_id, outcome FROM turns"):
        reading = read(session_id, run_id)
        assert reading.complete, (run_id, reading.damage, [record.seq for record in reading.records])
        # A kill may stop a write at a page boundary: half a record, which was shown to nobody.
        assert reading.torn == 0 or reading.terminal is None
        if reading.terminal is not None:
            assert (reading.terminal.terminal_state == "completed") == (outcome == "answered")


def _chains(db: Db) -> dict[str, Rows]:
    chains: dict[str, Rows] = {}
    for event, *turn in db.execute(_CHAINS):
        chains.setdefault(json.loads(event)["text"].partition("\n")[0], []).append(tuple(turn))
    return chains


def _deltas(read: ReadRun, turn: tuple[Any, ...]) -> int:
    *_, session_id, run_id = turn
    records = read(session_id, run_id).records
    return sum(record.event == "message.delta" for record in records)
