"""A database that is full, read-only or locked by another program, and steps that break the rules."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_trio.base.errors import StoreBusy, StoreError, StoreFull, StoreReadOnly
from hermes_trio.base.world import World
from hermes_trio.state.db.database import Database, OpenEngine, open_database
from hermes_trio.state.db.engine import Db
from tests.state.seams import GUESTS, enter, guests, seen_from_outside


@pytest.fixture
async def database(tmp_path: Path, world: World, open_engine: OpenEngine) -> AsyncIterator[Database]:
    path = tmp_path / "gateway.db"
    async with open_database(path, world, steps=[GUESTS], open_engine=open_engine) as opened:
        yield opened


Step = Callable[[Db], object]


async def together(database: Database, *steps: Step) -> list[Exception | None]:
    """Write these steps in one batch, in this order; return the error of each caller."""
    got: list[Exception | None] = [None] * len(steps)
    go_on = threading.Event()

    async def write(number: int) -> None:
        try:
            await database.write(steps[number])
        except (sqlite3.Error, psycopg.Error, StoreError) as error:
            got[number] = error

    async def keep_busy() -> None:
        with suppress(StoreError):
            await database.write(lambda _: go_on.wait(timeout=30))

    try:
        async with trio.open_nursery() as writers:
            writers.start_soon(keep_busy)
            for number in range(len(steps)):
                await wait_all_tasks_blocked()
                writers.start_soon(write, number)
            await wait_all_tasks_blocked()
            go_on.set()
    finally:
        go_on.set()
    return got


def almost_full(db: Db) -> None:
    """Let SQLite add a few more pages and then report a full disk."""
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages + 8}")


def enter_nobody(db: Db) -> None:
    """Add a guest without a name. Such guests are no duplicates, so a step applied twice is visible."""
    db.execute("INSERT INTO guests (name) VALUES (NULL)")


def enter_a_novel(db: Db) -> None:
    enter(db, "x" * 1_000_000)


def enter_several_novels(db: Db) -> None:
    names = [(f"{number}" * 500_000,) for number in range(3)]
    db.execute("INSERT INTO guests (name) VALUES (?), (?), (?)", [name for (name,) in names])


@pytest.mark.parametrize("too_much", [enter_a_novel, enter_several_novels])
@pytest.mark.sqlite
async def test_a_full_disk_refuses_only_the_step_that_does_not_fit(
    database: Database, too_much: Step
) -> None:
    await database.write(enter, "acknowledged")
    await database.write(almost_full)
    runs: Counter[str] = Counter()

    def small(name: str) -> Step:
        def step(db: Db) -> None:
            runs[name] += 1
            enter(db, name)

        return step

    got = await together(database, *map(small, "abc"), too_much, *map(small, "def"))
    assert [type(error) for error in got] == [type(None)] * 3 + [StoreFull] + [type(None)] * 3
    assert "Free some space" in str(got[3])
    assert isinstance(got[3], StoreFull)
    assert isinstance(got[3].__cause__, sqlite3.OperationalError)
    assert seen_from_outside(database.path) == ["acknowledged", *"abcdef"]
    assert all(1 < runs[name] <= 4 for name in "abc"), "rolled back together, and repeated in halves"


@pytest.mark.sqlite
async def test_writes_work_again_after_a_full_disk_has_space(database: Database) -> None:
    await database.write(almost_full)
    with pytest.raises(StoreFull):
        await database.write(enter_a_novel)
    await database.write(lambda db: db.execute("PRAGMA max_page_count = 1000000"))
    await database.write(enter_a_novel)
    assert seen_from_outside(database.path) == ["x" * 1_000_000]


@pytest.mark.sqlite
async def test_a_step_that_suppresses_a_disk_error_fails_alone(database: Database) -> None:
    """The step caught SQLite's error, but SQLite has rolled back the transaction, so that later steps of the
    batch would write outside of any transaction."""
    await database.write(almost_full)

    def careless(db: Db) -> None:
        enter(db, "half of it")
        with suppress(sqlite3.Error):
            enter_a_novel(db)

    got = await together(database, enter_nobody, careless, enter_nobody)
    assert [type(error) for error in got[::2]] == [type(None)] * 2
    assert isinstance(got[1], sqlite3.Error)
    assert await database.read(guests) == [None, None], "one row of each neighbour"
    await database.write(enter, "Kim")
    assert seen_from_outside(database.path) == [None, None, "Kim"]


@pytest.mark.sqlite
async def test_a_disk_that_became_read_only_refuses_writes_and_can_be_read_and_closed(
    tmp_path: Path, world: World
) -> None:
    path = tmp_path / "gateway.db"
    async with open_database(path, world, steps=[GUESTS]) as database:
        await database.write(enter, "acknowledged")
        await database.write(lambda db: db.execute("PRAGMA query_only = ON"))
        got = await together(database, lambda db: enter(db, "Kim"), lambda db: enter(db, "Robin"))
        assert [type(error) for error in got] == [StoreReadOnly, StoreReadOnly]
        assert "mounted read-only" in str(got[0])
        assert await database.read(guests) == ["acknowledged"]
    async with open_database(path, world, steps=[GUESTS]) as database:
        assert await database.read(guests) == ["acknowledged"]


@pytest.mark.sqlite
async def test_a_batch_waits_once_for_the_lock_of_another_program(database: Database) -> None:
    await database.write(enter, "acknowledged")
    await database.write(lambda db: db.execute("PRAGMA busy_timeout = 200"))
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        got = await together(database, *[lambda db, name=name: enter(db, name) for name in "abcdefghij"])
        waited = time.monotonic() - began
        other.execute("ROLLBACK")
    assert [type(error) for error in got] == [StoreBusy] * 10
    assert "one gateway serves one home" in str(got[0])
    assert waited < 1.5, "ten timeouts would be 2 s, and those of a full batch minutes"
    await database.write(enter, "Kim")
    assert seen_from_outside(database.path) == ["acknowledged", "Kim"]


def commit(db: Db) -> None:
    db.execute("COMMIT")


def commit_by_method(db: Db) -> None:
    assert isinstance(db, sqlite3.Connection)
    db.commit()


def commit_by_block(db: Db) -> None:
    assert isinstance(db, sqlite3.Connection)
    with db:
        enter(db, "inside")


def commit_by_script(db: Db) -> None:
    assert isinstance(db, sqlite3.Connection)
    db.executescript("INSERT INTO guests (name) VALUES ('inside');")


def roll_back(db: Db) -> None:
    db.execute("ROLLBACK")


def begin(db: Db) -> None:
    db.execute("BEGIN")


def commit_and_begin(db: Db) -> None:
    db.execute("COMMIT")
    db.execute("BEGIN")


@pytest.mark.parametrize(
    "misuse",
    [
        commit,
        roll_back,
        begin,
        commit_and_begin,
        *(pytest.param(step, marks=pytest.mark.sqlite) for step in (commit_by_method, commit_by_block)),
        pytest.param(commit_by_script, marks=pytest.mark.sqlite),
    ],
)
async def test_a_step_that_ends_the_transaction_is_refused_and_its_neighbours_are_applied_once(
    database: Database, misuse: Step
) -> None:
    def step(db: Db) -> None:
        enter(db, "of the one who misuses")
        misuse(db)

    got = await together(database, enter_nobody, step, enter_nobody)
    assert [type(error) for error in got[::2]] == [type(None)] * 2
    assert isinstance(got[1], (sqlite3.Error, psycopg.Error)), "only its caller gets the error"
    assert await database.read(guests) == [None, None], "one row of each neighbour, and none of the bad step"
    await database.write(enter, "Kim")
    assert await database.read(guests) == [None, None, "Kim"]


async def test_a_step_that_suppresses_a_constraint_spoils_no_neighbour(database: Database) -> None:
    """SQLite undoes the one statement, and the step goes on. PostgreSQL fails the transaction, and so the
    step; a neighbour that was in it is repeated."""
    await database.write(enter, "Kim")

    def careless(db: Db) -> None:
        with suppress(sqlite3.IntegrityError, psycopg.IntegrityError):
            enter(db, "Kim")

    got = await together(database, enter_nobody, careless, enter_nobody)
    assert [type(error) for error in got[::2]] == [type(None)] * 2
    assert got[1] is None or isinstance(got[1], psycopg.errors.UniqueViolation)
    assert await database.read(guests) == ["Kim", None, None]


async def test_a_step_may_use_savepoints(database: Database) -> None:
    def step(db: Db) -> None:
        enter(db, "Kim")
        db.execute("SAVEPOINT attempt")
        enter(db, "Robin")
        db.execute("ROLLBACK TO attempt")
        enter(db, "Sam")

    await database.write(step)
    assert await database.read(guests) == ["Kim", "Sam"]


WRITE_UNTIL_IT_FAILS = """
import pathlib, resource, signal, sys
import trio
from hermes_trio.base.errors import StoreError
from hermes_trio.state.db.database import open_database
from hermes_trio.base.world import World
from tests.state.seams import GUESTS, enter

async def main():
    async with open_database(pathlib.Path(sys.argv[1]), World(), steps=[GUESTS]) as database:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        for number in range(1000):
            name = f"{number} " + "x" * 3000
            try:
                await database.write(enter, name)
            except StoreError as error:
                print(f"refused {error}", flush=True)
                return
            print(f"acknowledged {number}", flush=True)

trio.run(main)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no limit on the size of a file")
def test_a_full_disk_loses_no_acknowledged_write(tmp_path: Path) -> None:
    """The operating system refuses to let the files of this process grow."""
    path = tmp_path / "gateway.db"
    process = subprocess.run(
        [sys.executable, "-c", WRITE_UNTIL_IT_FAILS, path],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    *acknowledged, refused = process.stdout.splitlines()
    assert refused.startswith("refused gateway.db: ")
    assert 10 < len(acknowledged) < 1000
    kept = [name.split()[0] for name in seen_from_outside(path)]
    assert kept == [line.split()[1] for line in acknowledged]
