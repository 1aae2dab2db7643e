"""Concurrent writes: applied in order, committed together, failing alone, acknowledged after the commit."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
import trio

from hermes_trio.base.errors import StoreReadOnly
from hermes_trio.base.world import World
from hermes_trio.host.loop.worker import Worker, inline_worker, worker_thread
from hermes_trio.state.db.database import MAX_BATCH, Database, OpenEngine, open_database
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.opening import connect_reading
from tests.state.seams import GUESTS, commits, enter, guests, refused, seen_from_outside, traced


@pytest.fixture(params=[worker_thread, inline_worker])
def worker(request: pytest.FixtureRequest) -> Worker:
    chosen: Worker = request.param
    return chosen


@pytest.fixture
async def database(
    tmp_path: Path, world: World, worker: Worker, open_engine: OpenEngine
) -> AsyncIterator[Database]:
    path = tmp_path / "gateway.db"
    async with open_database(path, world, worker=worker, steps=[GUESTS], open_engine=open_engine) as opened:
        yield opened


@pytest.fixture
async def on_a_thread(tmp_path: Path, world: World, open_engine: OpenEngine) -> AsyncIterator[Database]:
    path = tmp_path / "gateway.db"
    async with open_database(path, world, steps=[GUESTS], open_engine=open_engine) as opened:
        yield opened


@pytest.mark.sqlite
async def test_concurrent_writes_share_a_commit(database: Database) -> None:
    statements: list[str] = []
    await database.write(traced, statements)
    async with trio.open_nursery() as writers:
        for number in range(200):
            writers.start_soon(database.write, enter, f"guest {number}")
    assert commits(statements) <= 3
    assert sorted(await database.read(guests)) == sorted(f"guest {number}" for number in range(200))


@pytest.mark.sqlite
async def test_writers_released_together_share_the_next_commit(database: Database) -> None:
    statements: list[str] = []
    await database.write(traced, statements)

    async def ten_times(name: str) -> None:
        for number in range(10):
            await database.write(enter, f"{name} {number}")

    async with trio.open_nursery() as writers:
        for number in range(32):
            writers.start_soon(ten_times, f"guest {number}")
    assert len(await database.read(guests)) == 320
    assert commits(statements) <= 32, "ten rounds, some of them split at the start and the end, not 320"


@pytest.mark.sqlite
async def test_more_than_a_batch_of_writes_is_several_commits(database: Database) -> None:
    statements: list[str] = []
    await database.write(traced, statements)
    many = 2 * MAX_BATCH + 1
    async with trio.open_nursery() as writers:
        for number in range(many):
            writers.start_soon(database.write, enter, f"guest {number}")
    assert 3 <= commits(statements) <= 6
    assert len(await database.read(guests)) == many


async def test_writes_are_applied_in_the_order_of_the_calls(database: Database) -> None:
    handed_over: list[str] = []

    async def write(name: str) -> None:
        handed_over.append(name)
        await database.write(enter, name)

    async with trio.open_nursery() as writers:
        for wave in range(3):
            for number in range(MAX_BATCH):
                writers.start_soon(write, f"guest {wave}/{number}")
            await trio.lowlevel.checkpoint()
    assert await database.read(guests) == handed_over


@pytest.mark.sqlite
async def test_a_writer_is_released_only_after_its_commit(database: Database) -> None:
    released: list[str] = []
    with closing(connect_reading(database.path)) as outside:

        async def write(name: str) -> None:
            await database.write(enter, name)
            assert name in guests(outside), "released before another program can see the row"
            released.append(name)

        async with trio.open_nursery() as writers:
            for number in range(50):
                writers.start_soon(write, f"guest {number}")
    assert len(released) == 50


async def test_each_writer_gets_the_result_of_its_own_step(database: Database) -> None:
    returned: dict[str, str] = {}

    async def write(name: str) -> None:
        returned[name] = await database.write(enter, name=name)

    async with trio.open_nursery() as writers:
        for number in range(50):
            writers.start_soon(write, f"guest {number}")
    assert returned == {name: name for name in await database.read(guests)}
    assert len(returned) == 50


class Surprise(BaseException):
    """An exception that `except Exception` does not catch."""


@pytest.mark.parametrize("error", [LookupError, Surprise])
async def test_a_failed_step_is_rolled_back_alone(database: Database, error: type[BaseException]) -> None:
    def two_and_then_trouble(db: Db) -> None:
        enter(db, "half")
        enter(db, "of it")
        raise error("the third one is nowhere")

    async def trouble() -> None:
        with pytest.raises(error, match="nowhere"):
            await database.write(two_and_then_trouble)

    async with trio.open_nursery() as writers:
        writers.start_soon(database.write, enter, "before")
        writers.start_soon(trouble)
        writers.start_soon(database.write, enter, "after")
    assert sorted(await database.read(guests)) == ["after", "before"]


@pytest.mark.sqlite
async def test_one_failed_step_among_a_thousand_costs_a_few_commits(database: Database) -> None:
    """A drain writes all its marks in one batch: a bad one must not cause a commit for each of the others."""
    statements: list[str] = []
    await database.write(traced, statements)

    async def trouble() -> None:
        with pytest.raises(ZeroDivisionError):
            await database.write(lambda _: 1 // 0)

    async with trio.open_nursery() as writers:
        writers.start_soon(trouble)
        for number in range(1_000):
            writers.start_soon(database.write, enter, f"guest {number}")
    assert len(await database.read(guests)) == 1_000, "each of the others, once"
    assert commits(statements) <= 12, "the others are committed in halves, not one by one"


async def test_a_constraint_error_is_raised_unchanged(database: Database) -> None:
    await database.write(enter, "Kim")
    with refused("UNIQUE"):
        await database.write(enter, "Kim")
    with pytest.raises((sqlite3.OperationalError, psycopg.ProgrammingError), match="column"):
        await database.write(lambda db: db.execute("UPDATE guests SET nmae = 'Kim'"))
    await database.write(enter, "Robin")
    assert await database.read(guests) == ["Kim", "Robin"]


async def test_a_read_sees_every_acknowledged_write(database: Database) -> None:
    for number in range(20):
        await database.write(enter, f"guest {number}")
        assert (await database.read(guests))[-1] == f"guest {number}"


async def test_a_read_cannot_write(database: Database) -> None:
    with pytest.raises(StoreReadOnly):
        await database.read(enter, "Kim")
    assert await database.read(guests) == []


@pytest.mark.parametrize("error", [LookupError, sqlite3.OperationalError])
async def test_a_failed_read_does_not_affect_later_ones(database: Database, error: type[Exception]) -> None:
    await database.write(enter, "Kim")

    def trouble(db: Db) -> None:
        guests(db)
        raise error("not what I looked for")

    with pytest.raises(error, match="not what I looked for"):
        await database.read(trouble)
    with pytest.raises((sqlite3.OperationalError, psycopg.ProgrammingError), match="nowhere"):
        await database.read(lambda db: db.execute("SELECT 1 FROM nowhere"))
    await database.write(enter, "Robin")
    assert await database.read(guests) == ["Kim", "Robin"], "the next read sees the newer write"


async def test_reads_run_during_a_slow_write(on_a_thread: Database) -> None:
    database, go_on = on_a_thread, threading.Event()
    await database.write(enter, "Kim")

    def slowly(db: Db) -> bool:
        enter(db, "Robin")
        return go_on.wait(timeout=30)

    try:
        async with trio.open_nursery() as writers:
            writers.start_soon(database.write, slowly)
            with trio.fail_after(20):
                for _ in range(10):
                    assert await database.read(guests) == ["Kim"], "uncommitted rows are not visible"
            go_on.set()
    finally:
        go_on.set()
    assert await database.read(guests) == ["Kim", "Robin"]


async def test_a_read_sees_one_snapshot_however_long_it_takes(on_a_thread: Database) -> None:
    database, looked_once, go_on = on_a_thread, threading.Event(), threading.Event()
    await database.write(enter, "Kim")
    seen: list[list[str]] = []

    def twice(db: Db) -> None:
        seen.append(guests(db))
        looked_once.set()
        go_on.wait(timeout=30)
        seen.append(guests(db))

    try:
        async with trio.open_nursery() as readers:
            readers.start_soon(database.read, twice)
            await trio.to_thread.run_sync(partial(looked_once.wait, timeout=30))
            with trio.fail_after(20):
                await database.write(enter, "Robin")
            go_on.set()
    finally:
        go_on.set()
    assert seen == [["Kim"], ["Kim"]], "a commit during the read changes its result"
    assert await database.read(guests) == ["Kim", "Robin"]


async def test_two_databases_in_one_program_are_independent(tmp_path: Path, world: World) -> None:
    here, there = tmp_path / "here" / "gateway.db", tmp_path / "there" / "gateway.db"
    async with open_database(here, world, steps=[GUESTS]) as first:
        async with open_database(there, world, steps=[GUESTS]) as second, trio.open_nursery() as writers:
            for number in range(20):
                writers.start_soon(first.write, enter, f"here {number}")
                writers.start_soon(second.write, enter, f"there {number}")
        await first.write(enter, "still here")
    assert len(seen_from_outside(here)) == 21
    assert sorted(seen_from_outside(there)) == sorted(f"there {number}" for number in range(20))
