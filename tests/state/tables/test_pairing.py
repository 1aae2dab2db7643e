"""Pairing in the database: the limits of strangers, the decisions of the owner, and clock changes."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.base.errors import StoreDamaged, StoreUnusable
from hermes_trio.base.world import World
from hermes_trio.state.db.database import open_database
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import Connections, connect_reading, open_connections
from hermes_trio.state.tables import pairing
from hermes_trio.state.tables.pairing import ALPHABET, Person, WrongCode, deciding, new_code, sealed
from tests.state.rows import NOON, undone

KIM = Person("telegram", "42", "Kim", NOON)
CODE = "ABCD2345"
CODES = st.text(ALPHABET, min_size=8, max_size=8)
HOUR = 3600.0


def asks(db: Db, code: str = CODE, *, at: float = NOON, user: str = "42") -> bool:
    return pairing.ask(db, replace(KIM, user_id=user, at=at), sealed(code))


def tries(db: Db, *codes: str, at: float = NOON) -> list[int]:
    """Enter wrong codes one after the other; return the attempts left after each."""
    answers = [pairing.approve(db, code, at) for code in codes]
    assert all(isinstance(answer, WrongCode) for answer in answers)
    return [answer.attempts_left for answer in answers if isinstance(answer, WrongCode)]


def test_a_person_is_approved_once_by_the_code_they_were_shown(db: Db) -> None:
    assert asks(db) is True
    assert pairing.is_paired(db, "telegram", ["42"]) is False
    assert pairing.waiting(db, NOON) == [KIM]
    assert pairing.approve(db, CODE, NOON + 60) == KIM
    assert pairing.is_paired(db, "telegram", ["42"]) is True
    assert pairing.is_paired(db, "telegram", ["other", "42"]) is True, "by any of their ids"
    assert pairing.is_paired(db, "telegram", []) is False
    assert pairing.is_paired(db, "matrix", ["42"]) is False, "an id of one platform means nothing on another"
    assert pairing.all_paired(db) == [replace(KIM, at=NOON + 60)]
    assert pairing.waiting(db, NOON) == []
    assert pairing.approve(db, CODE, NOON + 61) == WrongCode(4, None), "a code counts once"


def test_a_code_is_valid_for_exactly_an_hour(db: Db) -> None:
    asks(db)
    assert len(pairing.waiting(db, NOON + HOUR - 0.001)) == 1
    assert pairing.waiting(db, NOON + HOUR) == []
    assert tries(db, CODE, at=NOON + HOUR) == [4]
    assert pairing.approve(db, CODE, NOON + HOUR - 0.001) == KIM


def test_a_corrected_clock_extends_no_code(db: Db) -> None:
    asks(db, at=NOON + 24 * HOUR)
    assert tries(db, CODE, at=NOON) == [4]


def test_a_second_request_gets_a_new_code_after_ten_minutes(
    db: Db,
) -> None:
    asks(db)
    for later in (0, 1, 599.999):
        assert asks(db, "EFGH6789", at=NOON + later) is False
    assert asks(db, "EFGH6789", at=NOON + 600) is True
    assert tries(db, CODE, at=NOON + 601) == [4], "the earlier code is invalid"
    assert pairing.waiting(db, NOON + 601) == [replace(KIM, at=NOON + 600)]
    assert pairing.approve(db, "EFGH6789", NOON + 601) == replace(KIM, at=NOON + 600)


def test_waiting_strangers_are_limited_on_each_platform_separately(
    db: Db,
) -> None:
    assert [asks(db, user=user) for user in "1234"] == [True, True, True, False]
    assert asks(db, user="2", at=NOON + 700) is True, "a second request takes no second place"
    assert pairing.ask(db, replace(KIM, platform="matrix"), sealed(CODE)) is True
    assert asks(db, user="4", at=NOON + HOUR) is True, "the first requests have expired"
    people = db.execute("SELECT user_id FROM pairing_requests WHERE platform = 'telegram' ORDER BY 1")
    assert people.fetchall() == [("2",), ("4",)], "expired requests are deleted"


def test_five_wrong_codes_lock_approval_for_an_hour_even_for_the_right_code(db: Db) -> None:
    asks(db)
    assert tries(db, *["WRONG222"] * 4) == [4, 3, 2, 1]
    assert pairing.approve(db, "WRONG222", NOON + 10) == WrongCode(0, NOON + 10 + HOUR)
    asks(db, "EFGH6789", at=NOON + 700)
    for moment in (NOON + 10, NOON + 700, NOON + 10 + HOUR - 0.001):
        locked = pairing.approve(db, "EFGH6789", moment)
        assert locked == WrongCode(0, NOON + 10 + HOUR), "attempts during the lock do not extend it"
    assert isinstance(pairing.approve(db, "EFGH6789", NOON + 10 + HOUR), Person)


def test_a_right_code_or_an_hour_without_a_wrong_one_resets_the_count(db: Db) -> None:
    asks(db)
    assert tries(db, *["WRONG222"] * 4) == [4, 3, 2, 1]
    assert pairing.approve(db, CODE, NOON) == KIM
    assert tries(db, *["WRONG222"] * 4) == [4, 3, 2, 1]
    assert tries(db, "WRONG222", at=NOON + HOUR) == [4]


def test_a_lock_with_a_time_in_the_future_does_not_last_longer(db: Db) -> None:
    tries(db, *["WRONG222"] * 5, at=NOON + 1000 * HOUR)
    asks(db)
    assert pairing.approve(db, CODE, NOON) == KIM


def test_revoking_removes_the_approval_and_the_code(db: Db) -> None:
    assert pairing.revoke(db, "telegram", "42") is False
    asks(db)
    assert pairing.revoke(db, "telegram", "42") is True
    assert tries(db, CODE) == [4]
    asks(db)
    asks(db, "EFGH6789", user="43")
    pairing.approve(db, CODE, NOON)
    pairing.approve(db, "EFGH6789", NOON)
    assert pairing.revoke(db, "telegram", "42") is True
    assert pairing.is_paired(db, "telegram", ["42"]) is False
    assert pairing.is_paired(db, "telegram", ["43"]) is True
    assert pairing.revoke(db, "telegram", "42") is False


def test_a_revoked_person_can_ask_and_be_approved_again(db: Db) -> None:
    for _ in range(2):
        assert asks(db) is True
        assert pairing.approve(db, CODE, NOON) == KIM
        assert pairing.revoke(db, "telegram", "42") is True


# --- codes -------------------------------------------------------------------------------------------


def test_a_code_has_eight_characters_that_are_not_confused() -> None:
    assert len(set(ALPHABET)) == 32
    assert set(ALPHABET).isdisjoint("0O1Il")
    codes = {new_code() for _ in range(2000)}
    assert len(codes) == 2000
    assert {len(code) for code in codes} == {8}
    assert set("".join(codes)) == set(ALPHABET), "exactly the characters of the alphabet occur"


@given(right=CODES, other=CODES)
def test_only_the_code_that_was_shown_is_approved(shared_db: Db, right: str, other: str) -> None:
    with undone(shared_db) as db:
        asks(db, right)
        assert isinstance(pairing.approve(db, other, NOON), Person) is (other == right)


@given(text=st.text(st.characters(exclude_categories=[]), max_size=20))
def test_any_typed_text_is_at_most_a_wrong_code(shared_db: Db, text: str) -> None:
    with undone(shared_db) as db:
        asks(db)
        if text != CODE:
            assert tries(db, text) == [4]


@given(code=CODES)
def test_the_same_code_is_stored_with_different_salts(code: str) -> None:
    first, second = sealed(code), sealed(code)
    assert first != second
    assert code.encode() not in first
    assert len(first) == 16 + 32


# --- the owner's transaction -------------------------------------------------------------------------


@contextmanager
def left_open(path: Path) -> Iterator[Connections]:
    """Open a database like a running gateway."""
    connections = open_connections(path, World(), shipped_steps())
    with closing(connections.reading), closing(connections.writing):
        yield connections


def test_the_owner_can_decide_while_no_gateway_runs(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    with left_open(path) as gateway:
        asks(gateway.writing)
    with deciding(path) as db:
        assert pairing.approve(db, CODE, NOON) == KIM
    assert [file.name for file in tmp_path.iterdir()] == ["gateway.db"], "no log is left behind"
    with closing(connect_reading(path)) as db:
        assert pairing.all_paired(db) == [KIM]


def test_a_decision_is_visible_at_once_to_a_running_gateway(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    with left_open(path) as gateway:
        asks(gateway.writing)
        with deciding(path) as db:
            pairing.approve(db, CODE, NOON)
            assert not pairing.is_paired(gateway.reading, "telegram", ["42"]), "not before it is committed"
        assert pairing.is_paired(gateway.reading, "telegram", ["42"])
        asks(gateway.writing, user="43")


def _approve_and_break(db: Db) -> None:
    assert pairing.approve(db, CODE, NOON) == KIM
    db.execute("INSERT INTO pairing_mistakes VALUES (NULL)")


def test_a_failed_decision_is_rolled_back(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    with left_open(path) as gateway:
        asks(gateway.writing)
        with pytest.raises(sqlite3.IntegrityError, match="NOT NULL"), deciding(path) as db:
            _approve_and_break(db)
        assert not pairing.is_paired(gateway.reading, "telegram", ["42"])
        asks(gateway.writing, user="43")


def test_a_decision_locks_out_other_writers_from_its_first_read(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    with left_open(path) as gateway:
        asks(gateway.writing)
        gateway.writing.execute("PRAGMA busy_timeout = 0")
        with deciding(path) as db:
            assert len(pairing.waiting(db, NOON)) == 1
            with pytest.raises(sqlite3.OperationalError, match="locked"):
                gateway.writing.execute("BEGIN IMMEDIATE")


def test_a_decision_waits_for_a_gateway_that_writes(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    decided = threading.Event()

    def decide() -> None:
        with deciding(path) as db:
            pairing.revoke(db, "telegram", "42")
        decided.set()

    with left_open(path) as gateway:
        gateway.writing.execute("BEGIN IMMEDIATE")
        owner = threading.Thread(target=decide)
        owner.start()
        asks(gateway.writing)
        assert not decided.wait(0.2)
        gateway.writing.execute("COMMIT")
        assert decided.wait(30)
        owner.join()
        assert pairing.waiting(gateway.reading, NOON) == []


def test_a_killed_decision_is_rolled_back_and_the_gateway_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    with left_open(path) as gateway:
        asks(gateway.writing)
        died = (
            "import os, pathlib, sys; from hermes_trio.state.tables import pairing\n"
            "with pairing.deciding(pathlib.Path(sys.argv[1])) as db:\n"
            "    assert isinstance(pairing.approve(db, sys.argv[2], float(sys.argv[3])), pairing.Person)\n"
            "    os.kill(os.getpid(), 9)\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", died, path, CODE, str(NOON)],
            check=False,
            cwd=Path(__file__).parents[3],
            timeout=50,
        )
        assert ran.returncode == -9
        assert not pairing.is_paired(gateway.reading, "telegram", ["42"])
        assert pairing.approve(gateway.writing, CODE, NOON) == KIM


async def test_gateway_writes_during_decisions_are_complete(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    async with open_database(path, World()) as database:
        for number in range(50):
            user = str(number)
            await database.write(asks, user=user, code=CODE)
            with deciding(path) as db:
                assert isinstance(pairing.approve(db, CODE, NOON), Person)
            assert await database.read(pairing.is_paired, "telegram", [user])
        assert len(await database.read(pairing.all_paired)) == 50


def test_a_decision_does_not_create_a_missing_database(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable), deciding(tmp_path / "gateway.db"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_decision_in_a_foreign_database_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(StoreUnusable, match="Start the gateway once"), deciding(tmp_path / "empty") as db:
        pairing.approve(db, CODE, NOON)
    (tmp_path / "text").write_text("no database at all, " * 100)
    with pytest.raises(StoreDamaged), deciding(tmp_path / "text"):
        pass
