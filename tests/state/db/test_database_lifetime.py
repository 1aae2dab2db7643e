"""Cancelled callers, slow and hanging disks, and the closing of the database: nothing is lost, nobody waits
longer than documented, and nothing is left open."""

from __future__ import annotations

import gc
import math
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from hermes_trio.base.errors import StoreClosed, StoreUnusable
from hermes_trio.base.world import World
from hermes_trio.host.loop.worker import Worker, inline_worker, worker_thread
from hermes_trio.state.db.database import CLOSE_WITHIN, Database, OpenEngine, open_database
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import SchemaStep
from tests.disk import Disk
from tests.logs import capture_logs
from tests.state.seams import GUESTS, enter, guests, open_files, seen_from_outside, store_threads


@pytest.fixture
async def disk() -> AsyncIterator[Disk]:
    async with trio.open_nursery() as nursery:
        yield Disk(nursery)
        nursery.cancel_scope.cancel()


@pytest.fixture
async def on_slow_disk(tmp_path: Path, world: World, disk: Disk) -> AsyncIterator[Database]:
    """A database whose every write takes five seconds."""
    async with open_database(tmp_path / "gateway.db", world, worker=disk.worker, steps=[GUESTS]) as opened:
        disk.seconds = 5
        yield opened
        disk.seconds = 0


async def test_a_cancelled_writer_leaves_at_once_and_its_write_is_applied_in_order(
    on_slow_disk: Database,
    autojump_clock: MockClock,
) -> None:
    database = on_slow_disk
    left: list[float] = []

    async def impatient(name: str, patience: float) -> None:
        with trio.move_on_after(patience):
            await database.write(enter, name)
        left.append(trio.current_time())

    began = trio.current_time()
    async with trio.open_nursery() as writers:
        for name, patience in (("first", 100), ("second", 1), ("third", 7), ("fourth", 2), ("fifth", 100)):
            writers.start_soon(impatient, name, patience)
            await wait_all_tasks_blocked()
    # The first write is a batch of its own; the others came while it was applied.
    assert [at - began for at in left] == [1, 2, 5, 7, 10]
    assert seen_from_outside(database.path) == ["first", "second", "third", "fourth", "fifth"]


async def test_a_write_in_a_cancelled_scope_is_applied(
    on_slow_disk: Database, autojump_clock: MockClock
) -> None:
    """For example the end of a turn that was cut."""
    with trio.CancelScope() as cut:
        cut.cancel()
        began = trio.current_time()
        await on_slow_disk.write(enter, "last words")
    assert cut.cancelled_caught
    assert trio.current_time() == began
    assert seen_from_outside(on_slow_disk.path) == []
    await trio.sleep(6)
    assert seen_from_outside(on_slow_disk.path) == ["last words"]


async def test_a_step_is_atomic_if_its_caller_leaves_in_the_middle(tmp_path: Path, world: World) -> None:
    """On a real thread, which cannot be stopped: the caller leaves between the two inserts."""
    half_done, go_on = threading.Event(), threading.Event()

    def two(db: Db) -> None:
        enter(db, "one half")
        half_done.set()
        go_on.wait(timeout=30)
        enter(db, "other half")

    try:
        async with open_database(tmp_path / "gateway.db", world, steps=[GUESTS]) as database:
            with trio.CancelScope() as caller:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(database.write, two)
                    await trio.to_thread.run_sync(half_done.wait, 30)
                    caller.cancel()
            assert seen_from_outside(database.path) == []
            go_on.set()
    finally:
        go_on.set()
    assert seen_from_outside(database.path) == ["one half", "other half"]


async def test_a_write_that_fails_after_its_caller_left_is_logged(
    on_slow_disk: Database, autojump_clock: MockClock
) -> None:
    await on_slow_disk.write(enter, "Kim")
    with capture_logs() as logs:
        with trio.move_on_after(1):
            await on_slow_disk.write(enter, "Kim")
        assert logs == []
        await trio.sleep(10)
    assert [(entry["log_level"], "UNIQUE" in entry["error"]) for entry in logs] == [("error", True)]


async def test_a_cancelled_reader_leaves_at_once(on_slow_disk: Database, autojump_clock: MockClock) -> None:
    began = trio.current_time()
    with trio.move_on_after(1):
        await on_slow_disk.read(guests)
    assert trio.current_time() - began == 1


async def test_closing_waits_for_every_pending_write(
    tmp_path: Path, world: World, disk: Disk, autojump_clock: MockClock
) -> None:
    path = tmp_path / "gateway.db"
    async with open_database(path, world, worker=disk.worker, steps=[GUESTS]) as database:
        disk.seconds = 0.25
        for name in ("first", "second", "third"):
            with trio.move_on_after(0.1):
                await database.write(enter, name)
        began = trio.current_time()
    assert trio.current_time() - began < CLOSE_WITHIN
    assert seen_from_outside(path) == ["first", "second", "third"]
    assert open_files(path) == []


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_hanging_disk_delays_closing_by_the_documented_time(
    tmp_path: Path, world: World, disk: Disk, autojump_clock: MockClock, cancelled: bool
) -> None:
    path = tmp_path / "gateway.db"
    with capture_logs() as logs, trio.CancelScope() as caller:
        async with open_database(path, world, worker=disk.worker, steps=[GUESTS]) as database:
            disk.seconds = math.inf
            async with trio.open_nursery() as users:
                for number in range(5):
                    users.start_soon(database.write, enter, f"guest {number}")
                    users.start_soon(database.read, guests)
                await trio.sleep(1)
                users.cancel_scope.cancel()
            if cancelled:
                caller.cancel()
            began = trio.current_time()
    assert trio.current_time() - began == CLOSE_WITHIN
    assert [entry["event"] for entry in logs] == ["disk hangs; database not closed"]


async def test_pending_writes_are_applied_when_a_hanging_disk_recovers(
    tmp_path: Path, world: World, disk: Disk, autojump_clock: MockClock
) -> None:
    path = tmp_path / "gateway.db"
    with capture_logs():
        async with open_database(path, world, worker=disk.worker, steps=[GUESTS]) as database:
            disk.seconds = 60
            with trio.move_on_after(0):
                await database.write(enter, "last words")
    assert len(open_files(path)) > 0, "the hanging disk still has the connections"
    await trio.sleep(1000)
    assert seen_from_outside(path) == ["last words"]
    assert open_files(path) == [], "closed after the last write"


@pytest.mark.parametrize("worker", [worker_thread, inline_worker])
async def test_closing_leaves_no_file_and_no_thread_open(
    tmp_path: Path, world: World, worker: Worker
) -> None:
    path = tmp_path / "gateway.db"
    for _ in range(3):
        async with open_database(path, world, worker=worker, steps=[GUESTS]) as database:
            await database.write(lambda db: db.execute("DELETE FROM guests"))
            await database.write(enter, "Kim")
            assert await database.read(guests) == ["Kim"]
            assert open_files(path) != []
            threads = store_threads()
        assert open_files(path) == []
        for thread in threads:
            thread.join(timeout=10)
        assert store_threads() == []
    assert os.listdir(tmp_path) == ["gateway.db"], "the log was merged into the file"
    gc.collect()  # an unclosed connection warns when it is collected


async def test_an_error_in_the_block_closes_the_database_and_is_raised(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"

    async def trouble() -> None:
        async with open_database(path, world, steps=[GUESTS]) as database:
            with trio.move_on_after(0):
                await database.write(enter, "Kim")
            raise LookupError("in the middle")

    with pytest.raises(LookupError, match="in the middle"):
        await trouble()
    assert seen_from_outside(path) == ["Kim"]
    assert open_files(path) == []


@pytest.mark.parametrize("worker", [worker_thread, inline_worker])
async def test_using_a_closed_database_raises(tmp_path: Path, world: World, worker: Worker) -> None:
    async with open_database(tmp_path / "gateway.db", world, worker=worker, steps=[GUESTS]) as database:
        pass
    with pytest.raises(StoreClosed, match="report it"):
        await database.write(enter, "Kim")
    with pytest.raises(StoreClosed, match="report it"):
        await database.read(guests)
    assert seen_from_outside(database.path) == []


async def test_a_running_read_does_not_delay_closing(
    tmp_path: Path, world: World, open_engine: OpenEngine
) -> None:
    """The running read and the waiting one raise `StoreClosed`, not the engine's error for an interrupt."""
    looking = threading.Event()
    told: list[str] = []

    def for_ever(db: Db) -> object:
        looking.set()
        return db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
        ).fetchone()

    async def look() -> None:
        with pytest.raises(StoreClosed):
            await database.read(for_ever)
        told.append("closed")

    with trio.fail_after(20):
        async with (
            trio.open_nursery() as readers,
            open_database(tmp_path / "gateway.db", world, open_engine=open_engine) as database,
        ):
            readers.start_soon(look)
            readers.start_soon(look)
            await trio.to_thread.run_sync(looking.wait, 30)
            await wait_all_tasks_blocked()
    assert told == ["closed", "closed"]
    assert open_files(database.path) == []


@pytest.mark.parametrize("there_already", [False, True])
async def test_a_cancelled_opening_leaves_nothing_open(
    tmp_path: Path, world: World, disk: Disk, autojump_clock: MockClock, there_already: bool
) -> None:
    path = tmp_path / "gateway.db"
    if there_already:
        async with open_database(path, world, worker=disk.worker, steps=[GUESTS]) as database:
            await database.write(enter, "Kim")
    disk.seconds, began = 5, trio.current_time()
    with trio.move_on_after(1) as patience:
        async with open_database(path, world, worker=disk.worker, steps=[GUESTS]):
            pytest.fail("the opening was cancelled")
    assert patience.cancelled_caught
    assert trio.current_time() - began == 1
    await trio.sleep(100)
    assert len(disk.jobs) > 0, "the disk keeps the jobs and the connections they refer to"
    assert open_files(path) == []
    disk.seconds = 0
    async with open_database(path, world, worker=disk.worker, steps=[GUESTS]) as database:
        assert await database.read(guests) == (["Kim"] if there_already else [])


async def test_a_failed_opening_leaves_no_file_and_no_thread_open(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    path.mkdir()
    with pytest.raises(StoreUnusable, match="directory"):
        async with open_database(path, world):
            pytest.fail("there is a directory at the path")
    path.rmdir()
    broken = SchemaStep("0002_broken", "ALTER TABLE nowhere ADD COLUMN anything TEXT;")
    with pytest.raises(StoreUnusable, match="0002_broken"):
        async with open_database(path, world, steps=[GUESTS, broken]):
            pytest.fail("a schema step cannot be applied")
    for thread in store_threads():
        thread.join(timeout=10)
    assert store_threads() == []
    assert open_files(path) == []
