"""Run journals as rows on a real PostgreSQL server: what one gateway writes every gateway reads, and a life
that is over writes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from hermes_trio.base.errors import JournalBusy, JournalUnwritable
from hermes_trio.base.events import MessageDelta, RunCompleted
from hermes_trio.base.world import World
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.journal.row_shelf import RowShelf
from hermes_trio.journal.writer import open_journals
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.postgres.connection import Server
from hermes_trio.state.postgres.engine import open_postgres
from hermes_trio.state.tables import lives
from tests.postgres import PATIENCE, PostgresServer, at_once, postgres_server

MakeShelf = Callable[[str], RowShelf]
NUMBERS = itertools.count(1)
NOWHERE = Path("/nowhere")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def schema() -> str:
    return f"journals_{next(NUMBERS)}"


@pytest.fixture
def shelf_of_life(server: PostgresServer, schema: str, world: World) -> MakeShelf:
    """A function that returns the shelf of a life, `one` or `two`; both go on."""
    place = Server(server.conninfo, schema, PATIENCE)
    engine = open_postgres(place, world, shipped_steps())
    with closing(engine.writing):
        engine.begin()
        for life in ("one", "two"):
            lives.begin(at_once(engine.writing), life, life, 0.0)
        engine.commit()
    return lambda life: RowShelf(place, world, life)


async def test_another_gateway_reads_what_was_written(shelf_of_life: MakeShelf, world: World) -> None:
    theirs = shelf_of_life("two")
    async with open_journals(NOWHERE, world, worker=inline_worker, shelf=shelf_of_life("one")) as journals:
        with await journals.open_run("s1", "run-1") as run:
            await run.append(MessageDelta("Hel"), MessageDelta("lo"))
            [first, second] = theirs.read("s1", "run-1").records
            assert (first.seq, second.payload["delta"]) == (1, "lo")
            await run.append(RunCompleted("Hello"))
        assert await journals.session_ids() == ["s1"]
        assert list(await journals.written("s1")) == ["run-1"]
    reading = theirs.read("s1", "run-1")
    assert (len(reading.records), reading.complete, reading.terminal is not None) == (3, True, True)
    assert theirs.size("s1", "run-1") == reading.size
    assert theirs.session_of("run-1") == "s1"
    theirs.delete_runs("s1", ["run-1"])
    assert (theirs.session_ids(), theirs.size("s1", "run-1")) == ([], 0)
    theirs.close()


async def test_a_life_that_is_over_writes_nothing(
    shelf_of_life: MakeShelf, world: World, server: PostgresServer, schema: str
) -> None:
    async with open_journals(NOWHERE, world, worker=inline_worker, shelf=shelf_of_life("one")) as journals:
        with await journals.open_run("s1", "run-1") as run:
            await run.append(MessageDelta("in time"))
            ends = f"UPDATE {schema}.lives SET over_at = 1, ended_by = 'two' WHERE life = 'one'"  # noqa: S608
            server.execute(ends)
            with pytest.raises(JournalUnwritable, match="another gateway has taken over"):
                await run.append(MessageDelta("too late"))
        assert [one.payload["delta"] for one in (await journals.read("s1", "run-1")).records] == ["in time"]


async def test_a_second_writer_of_a_run_is_refused_when_it_writes(
    shelf_of_life: MakeShelf, world: World
) -> None:
    async with (
        open_journals(NOWHERE, world, worker=inline_worker, shelf=shelf_of_life("one")) as journals,
        open_journals(NOWHERE, world, worker=inline_worker, shelf=shelf_of_life("two")) as others,
    ):
        with await journals.open_run("s1", "run-1") as run, await others.open_run("s1", "run-1") as second:
            await run.append(MessageDelta("first"))
            with pytest.raises(JournalBusy):
                await second.append(MessageDelta("second"))
        assert (await others.read("s1", "run-1")).last_seq == 1


async def test_a_lost_connection_loses_and_doubles_no_event(
    shelf_of_life: MakeShelf, world: World, server: PostgresServer
) -> None:
    async with open_journals(NOWHERE, world, worker=inline_worker, shelf=shelf_of_life("one")) as journals:
        with await journals.open_run("s1", "run-1") as run:
            for number in range(4):
                await run.append(MessageDelta(str(number)))
                server.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                    "WHERE application_name = 'hermes-trio'"
                )
        reading = await journals.read("s1", "run-1")
        assert [one.payload["delta"] for one in reading.records] == ["0", "1", "2", "3"]
        assert reading.complete


def test_a_run_is_opened_while_others_are_read(shelf_of_life: MakeShelf) -> None:
    """The thread that writes the journals and the one that reads them share a connection."""
    shelf = shelf_of_life("one")

    def opened(number: int) -> int:
        return shelf.open_run("s1", f"run-{number}", is_new=False).last_seq

    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(opened, range(400), timeout=30)) == {0}


async def test_a_run_that_outlives_a_crash_of_the_server_has_no_hole(
    shelf_of_life: MakeShelf, world: World, server: PostgresServer, schema: str
) -> None:
    """A commit that is not flushed may be lost. The row is deleted here, as such a crash leaves it."""
    shelf = shelf_of_life("one")
    async with open_journals(NOWHERE, world, worker=inline_worker, shelf=shelf) as journals:
        with await journals.open_run("s1", "run-1") as run:
            await run.append(MessageDelta("Hel"))
            server.stop("immediate")
            server.start()
            server.execute(f"DELETE FROM {schema}.journal")  # noqa: S608
            await run.append(MessageDelta("lo"))
            await run.append(RunCompleted("Hello"))
    reading = shelf_of_life("two").read("s1", "run-1")
    assert ([one.seq for one in reading.records], reading.complete) == ([1, 2, 3], True)
