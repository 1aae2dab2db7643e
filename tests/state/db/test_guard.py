"""A guarded database: each transaction proves that the life which writes goes on. A life that is over stores
nothing any more, and each of its callers is told so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.base.errors import LifeIsOver
from hermes_trio.base.world import World
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.state.db.database import Database, Guard, OpenEngine, open_database
from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import lives, meta
from hermes_trio.state.tables.lives import LifeRow
from tests.disk import Disk, full_disk
from tests.state.seams import refused


class Proofs:
    """What a guarded database tells: the times of its proofs, and that the life is over."""

    def __init__(self) -> None:
        self.proved_at: list[float] = []
        self.over = trio.Event()


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
async def guarded(
    tmp_path: Path, world: World, open_engine: OpenEngine, disk: Disk
) -> AsyncIterator[tuple[Database, Proofs]]:
    path = tmp_path / "gateway.db"
    async with (
        open_database(path, world, worker=disk.worker, open_engine=open_engine) as database,
        guarding(database, "one") as proofs,
    ):
        yield database, proofs


@asynccontextmanager
async def guarding(database: Database, life: str) -> AsyncIterator[Proofs]:
    proofs = Proofs()
    await database.write(lives.begin, life, "here", 0.0)
    proves, beat = partial(lives.move_beat, life=life), partial(lives.beat_of, life=life)
    database.guard(
        Guard(proves, partial(lives.demand, life=life), beat, proofs.proved_at.append, proofs.over.set)
    )
    yield proofs


def taken_over(db: Db) -> None:
    """Let another gateway take over every life, with the beats that they have now."""
    for seen in lives.living(db):
        assert lives.end(db, seen, "two", 0.0)


def put(db: Db, name: str) -> None:
    meta.put(db, name, "")


async def test_each_commit_moves_the_beat_by_one(guarded: tuple[Database, Proofs]) -> None:
    database, _ = guarded
    for beat in range(1, 4):
        async with trio.open_nursery() as writers:
            for number in range(5):
                writers.start_soon(database.write, put, f"{beat} {number}")
        assert await database.read(lives.living) == [LifeRow("one", "here", beat)]


async def test_a_life_that_is_over_stores_nothing_of_a_whole_batch(guarded: tuple[Database, Proofs]) -> None:
    database, proofs = guarded
    errors: list[LifeIsOver] = []

    async def put_in_vain(name: str) -> None:
        with pytest.raises(LifeIsOver) as told:
            await database.write(put, name)
        errors.append(told.value)

    await database.write(taken_over)
    for round_ in range(2):
        async with trio.open_nursery() as writers:
            for number in range(5):
                writers.start_soon(put_in_vain, f"{round_} {number}")
    assert len(set(map(id, errors))) == 10, "each caller has an error of its own"
    assert proofs.over.is_set()
    assert await database.read(meta.every, "") == []


async def test_a_life_that_ends_between_two_halves_of_a_batch_keeps_what_was_acknowledged(
    guarded: tuple[Database, Proofs],
) -> None:
    """A step that fails splits its batch. What ends the life stands in the first half."""
    database, _ = guarded
    results: dict[str, str] = {}

    async def write(name: str) -> None:
        try:
            await database.write(fails if name == "fails" else ends if name == "ends" else put, name)
            results[name] = "stored"
        except LifeIsOver:
            results[name] = "over"
        except ZeroDivisionError:
            results[name] = "failed"

    def fails(db: Db, name: str) -> None:
        put(db, name)
        raise ZeroDivisionError

    def ends(db: Db, name: str) -> None:
        put(db, name)
        taken_over(db)

    async with trio.open_nursery() as writers:
        for name in ("first", "ends", "fails", "last"):
            writers.start_soon(write, name)
    stored = {name for name, _ in await database.read(meta.every, "")}
    assert {name for name, result in results.items() if result == "stored"} == stored
    assert set(results) == {"first", "ends", "fails", "last"}
    assert "fails" not in stored


async def test_a_failed_step_moves_no_beat_and_proves_nothing(guarded: tuple[Database, Proofs]) -> None:
    database, proofs = guarded

    def fails(db: Db) -> None:
        db.execute("INSERT INTO meta (name, value) VALUES ('x', NULL)")

    with refused():
        await database.write(fails)
    assert await database.read(lives.living) == [LifeRow("one", "here", 0)]
    assert proofs.proved_at == []


async def test_a_proof_counts_from_before_its_transaction(
    guarded: tuple[Database, Proofs], disk: Disk, autojump_clock: MockClock
) -> None:
    database, proofs = guarded
    disk.answers_late = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(database.write, put, "slow")
        await trio.sleep(7)
        disk.recovers()
    [proved_at] = proofs.proved_at
    assert proved_at == trio.current_time() - 7


async def test_a_full_disk_ends_no_life(guarded: tuple[Database, Proofs]) -> None:
    database, proofs = guarded
    async with full_disk(database):
        with pytest.raises(Exception, match=r"read-only|takes no writes|cannot be written"):
            await database.write(put, "too much")
    await database.write(put, "enough")
    assert not proofs.over.is_set()
    assert await database.read(meta.every, "") == [("enough", "")]


async def test_reads_of_a_life_that_is_over_go_on(guarded: tuple[Database, Proofs]) -> None:
    database, _ = guarded
    await database.write(taken_over)
    with pytest.raises(LifeIsOver):
        await database.write(put, "late")
    assert await database.read(lives.living) == []


async def test_an_unguarded_database_asks_for_no_life(
    tmp_path: Path, world: World, open_engine: OpenEngine
) -> None:
    path = tmp_path / "gateway.db"
    async with open_database(path, world, worker=inline_worker, open_engine=open_engine) as database:
        await database.write(put, "by the command line")
