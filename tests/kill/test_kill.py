"""A killed process loses no write that it reported: real processes, real SIGKILL, at random moments."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hermes_trio.base.world import World
from hermes_trio.journal.reader import read_run
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import open_connections
from hermes_trio.state.rules import settle
from hermes_trio.state.tables import inbox, outbox, turns

LIFE = Path(__file__).parent / "life.py"


@dataclass
class Reported:
    """The acknowledged writes that a process reported."""

    stored: list[int] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    shown: dict[tuple[str, str], int] = field(default_factory=dict)
    closed: set[tuple[str, str]] = field(default_factory=set)

    @classmethod
    def read(cls, text: str) -> Reported:
        said = cls()
        for line in text.splitlines():
            what, *words = line.split()
            if what in ("stored", "begun", "answered"):
                getattr(said, what).append(int(words[0]))
            elif what == "shown":
                said.shown[words[0], words[1]] = int(words[2])
            elif what == "closed":
                said.closed.add((words[0], words[1]))
        return said


def live_and_be_killed(home: Path, life: str, after: float) -> Reported:
    """Run a process, kill it `after` seconds of work, and return its reports."""
    log = home.parent / f"{life}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, str(LIFE), str(home), life], stdout=output)
        try:
            until = time.monotonic() + 20
            while not log.stat().st_size:
                assert process.poll() is None, "the process must run until it is killed"
                assert time.monotonic() < until, "the process must start"
                time.sleep(0.002)
            time.sleep(after)
            assert process.poll() is None, "the process must run until it is killed"
        finally:
            process.kill()
            process.wait()
    return Reported.read(log.read_text())


def check(home: Path, life: str, said: Reported) -> int:
    """Check the state after a kill, as the next start does; return the number of cut turns."""
    connections = open_connections(home / "gateway.db", World(), shipped_steps())
    connections.reading.close()
    db = connections.writing
    try:
        assert connections.damaged_copy is None
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        _check_rows(db, said)
        _check_journals(home, db, life, said)
        return _check_cut_turns(db, life)
    finally:
        db.close()


def _check_rows(db: Db, said: Reported) -> None:
    stored = {row[0] for row in db.execute("SELECT inbox_id FROM inbox")}
    assert set(said.stored) <= stored
    for turn_id in said.begun:
        assert turns.get(db, turn_id) is not None
    for turn_id in said.answered:
        turn = turns.get(db, turn_id)
        assert turn is not None
        assert turn.outcome == "answered"
    # The end of a turn is one transaction: its answer is owed and its messages are done, or neither.
    answered = {row[0] for row in db.execute("SELECT turn_id FROM turns WHERE outcome = 'answered'")}
    owed = {row[0] for row in db.execute("SELECT turn_id FROM outbox")}
    done = {
        row[0]
        for row in db.execute(
            "SELECT turn_id FROM inbox JOIN turns USING (turn_id) "
            "WHERE state = 'done' AND outcome = 'answered'"
        )
    }
    told = {row[0] for row in db.execute("SELECT turn_id FROM messages WHERE role = 'assistant'")}
    assert answered == owed == done == told
    assert all(delivery.state == "owed" for delivery in outbox.undelivered(db, "telegram", "main"))


def _check_journals(home: Path, db: Db, life: str, said: Reported) -> None:
    for session_id, run_id in db.execute(
        "SELECT session_id, run_id FROM turns WHERE life = ?", (life,)
    ).fetchall():
        reading = read_run(home / "journal", session_id, run_id)
        assert reading.complete
        # A kill may stop a write at a page boundary: half a record, which was shown to nobody.
        assert reading.torn == 0 or reading.terminal is None
        assert reading.last_seq >= said.shown.get((session_id, run_id), 0)
        if (session_id, run_id) in said.closed:
            assert reading.terminal is not None
        if reading.terminal is not None:
            turn = turns.by_run(db, run_id)
            assert turn is not None
            assert turn.outcome == "answered", "the end of a journal follows the end of the turn"


def _check_cut_turns(db: Db, life: str) -> int:
    """Check that the cut turns are those without an end, before any session is marked."""
    open_before = {turn.turn_id: turn for turn in turns.unended(db)}
    assert {turn.life for turn in open_before.values()} <= {life}
    db.execute("BEGIN IMMEDIATE")
    found = settle.settle_cut_turns(db, World().time())
    db.execute("ROLLBACK")  # the next life does this itself
    assert {turn.turn_id for turn in found} == set(open_before)
    for key in inbox.keys_with_pending(db):
        assert len(inbox.pending(db, key)) == 1, "each chat waits for a turn before it says more"
    for turn_id in open_before:
        assert len(inbox.of_turn(db, turn_id)) == 1, "its message stays with it"
    return len(open_before)


def storm(home: Path, kills: int, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - moments, not secrets
    cut = 0
    for number in range(kills):
        life = f"life{number}"
        said = live_and_be_killed(home, life, after=dice.uniform(0, 0.25))
        cut += check(home, life, said)
    assert cut > kills, "some kills happened during turns"


@pytest.mark.timeout(120)
def test_thirty_kills_of_the_storage_lose_nothing(tmp_path: Path) -> None:
    storm(tmp_path / "home", kills=30, seed=20260520)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_kills_of_the_storage_lose_nothing(tmp_path: Path) -> None:
    storm(tmp_path / "home", kills=1000, seed=20261118)
