"""The lives: whoever stores proves that its life goes on, and a life that is over stays over."""

from __future__ import annotations

from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import lives, turns
from hermes_trio.state.tables.lives import LifeRow
from tests.state.rows import NOON, session


def test_a_life_counts_its_transactions_until_it_is_over(db: Db) -> None:
    lives.begin(db, "one", "here", NOON)
    lives.begin(db, "two", "there", NOON + 1)
    assert lives.move_beat(db, "one")()
    assert lives.living(db) == [LifeRow("one", "here", 1), LifeRow("two", "there", 0)]
    lives.leave(db, "one", NOON + 2)
    assert not lives.move_beat(db, "one")()
    assert lives.living(db) == [LifeRow("two", "there", 0)]


def test_a_life_is_ended_only_by_who_has_seen_its_last_beat(db: Db) -> None:
    lives.begin(db, "one", "here", NOON)
    [seen] = lives.living(db)
    lives.move_beat(db, "one")
    assert not lives.end(db, seen, "two", NOON), "it has stored something since"
    [seen] = lives.living(db)
    assert lives.end(db, seen, "two", NOON)
    assert not lives.end(db, seen, "three", NOON), "it is over, and was taken over once"
    assert not lives.move_beat(db, "one")()


def test_a_name_belongs_to_one_life_at_a_time(db: Db) -> None:
    assert lives.begin(db, "one", "here", NOON, home="a")
    assert not lives.begin(db, "two", "here", NOON, home="b")
    assert [row.life for row in lives.living(db)] == ["one"]
    assert lives.living_named(db, "here") == LifeRow("one", "here", 0)
    assert lives.living_named(db, "there") is None
    lives.leave(db, "one", NOON)
    assert lives.begin(db, "two", "here", NOON, home="b")
    assert [row.life for row in lives.living_in(db, "b")] == ["two"]
    assert lives.living_in(db, "a") == []


def test_a_life_without_a_home_is_known_by_its_name(db: Db) -> None:
    """As those of a version that knew no homes."""
    lives.begin(db, "one", "here", NOON)
    assert [row.life for row in lives.living_in(db, "here")] == ["one"]


def test_a_life_that_never_was_does_not_go_on(db: Db) -> None:
    assert not lives.move_beat(db, "nobody")()


def test_old_lives_are_deleted_and_living_ones_stay(db: Db) -> None:
    for life in ("one", "two"):
        lives.begin(db, life, life, NOON)
    lives.leave(db, "one", NOON)
    lives.prune(db, over_before=NOON + 1)
    assert db.execute("SELECT life FROM lives").fetchall() == [("two",)]


def test_turns_are_left_open_by_lives_that_are_over_or_unknown(db: Db) -> None:
    lives.begin(db, "goes on", "here", NOON)
    lives.begin(db, "is over", "there", NOON)
    lives.leave(db, "is over", NOON)
    for number, life in enumerate(("goes on", "is over", "unknown")):
        session(db, f"s{number}")
        turns.begin(db, run_id=life, session_id=f"s{number}", life=life, at=NOON)
    assert [turn.run_id for turn in turns.left_open(db)] == ["is over", "unknown"]
    assert [turn.run_id for turn in turns.unended(db)] == ["goes on", "is over", "unknown"]
