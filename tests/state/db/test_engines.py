"""What every engine of the store promises about its schema: the same tables, kept and refused alike."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_trio.base.errors import StoreTooNew, StoreUnusable
from hermes_trio.base.world import World
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.state.db.database import OpenEngine, open_database
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import SchemaStep, applied_steps, shipped_steps
from hermes_trio.state.db.opening import open_connections
from hermes_trio.state.store_copy import TABLES
from hermes_trio.state.tables import transcript
from hermes_trio.state.tables.transcript import TranscriptRow
from tests.state.rows import NOON, session
from tests.state.seams import GUESTS, enter, guests

ROOMS = SchemaStep("0002_rooms", "CREATE TABLE rooms (number INTEGER NOT NULL) STRICT;")
TABLES_OF_GUESTS = SchemaStep(
    "0002_tables", "-- lives-with: 0001\nALTER TABLE guests ADD COLUMN seat INTEGER;"
)
BROKEN = SchemaStep("0003_broken", "CREATE TABLE beds (number INTEGER) STRICT; DROP TABLE nowhere;")


def columns(db: Db) -> set[tuple[str, str, bool]]:
    """Return table, name and whether a value is needed of every column, as the engine itself says."""
    if isinstance(db, sqlite3.Connection):
        query = (
            'SELECT one.name, of.name, of."notnull" OR of.pk FROM sqlite_schema AS one '
            "JOIN pragma_table_info(one.name) AS of WHERE one.type = 'table'"
        )
    else:
        query = (
            "SELECT table_name, column_name, is_nullable = 'NO' FROM information_schema.columns "
            "WHERE table_schema = current_schema()"
        )
    rows = db.execute(query)
    # The search index and the counters of SQLite are its own; `said` is a view.
    return {(table, name, bool(needed)) for table, name, needed in rows
            if not table.startswith(("messages_text", "sqlite_", "said"))}  # fmt: skip


def test_the_steps_make_the_same_tables_on_every_engine(tmp_path: Path, world: World, db: Db) -> None:
    opened = open_connections(tmp_path / "other" / "gateway.db", world, shipped_steps())
    with closing(opened.reading), closing(opened.writing):
        assert columns(db) == columns(opened.writing)
    assert len(columns(db)) > 100


def test_a_copy_of_the_store_has_every_table(db: Db) -> None:
    assert {table for table, _, _ in columns(db)} - {"schema_steps"} == set(TABLES)


async def test_missing_steps_are_applied_once_and_rows_stay(
    tmp_path: Path, world: World, open_engine: OpenEngine
) -> None:
    path = tmp_path / "gateway.db"
    for steps, name in (([GUESTS], "Kim"), ([GUESTS, ROOMS], "Robin"), ([GUESTS, ROOMS], "Sam")):
        async with open_database(
            path, world, worker=inline_worker, steps=steps, open_engine=open_engine
        ) as database:
            await database.write(enter, name)
    async with open_database(
        path, world, worker=inline_worker, steps=[GUESTS, ROOMS], open_engine=open_engine
    ) as database:
        assert await database.read(guests) == ["Kim", "Robin", "Sam"]
        assert await database.read(lambda db: db.execute("SELECT count(*) FROM rooms").fetchone()) == (0,)


def test_a_schema_of_a_newer_version_is_refused(
    tmp_path: Path, world: World, open_engine: OpenEngine
) -> None:
    path = tmp_path / "gateway.db"
    newer = open_engine(path, world, [GUESTS, ROOMS])
    newer.close_reading()
    newer.close_writing()
    with pytest.raises(StoreTooNew, match="0002_rooms"):
        open_engine(path, world, [GUESTS])


async def test_a_version_goes_on_with_a_store_of_the_next_one_that_lives_with_it(
    tmp_path: Path, world: World, open_engine: OpenEngine
) -> None:
    """From N to N + 1, back, and to N + 1 again, with everything that each of them stores."""
    path = tmp_path / "gateway.db"
    for steps, name in (([GUESTS], "Kim"), ([GUESTS, TABLES_OF_GUESTS], "Robin"), ([GUESTS], "Sam")):
        async with open_database(
            path, world, worker=inline_worker, steps=steps, open_engine=open_engine
        ) as database:
            await database.write(enter, name)
    async with open_database(
        path, world, worker=inline_worker, steps=[GUESTS, TABLES_OF_GUESTS], open_engine=open_engine
    ) as database:
        assert await database.read(guests) == ["Kim", "Robin", "Sam"]
        assert dict(await database.read(applied_steps)) == {"0001_guests": None, "0002_tables": 1}


def test_a_step_refuses_the_versions_that_it_does_not_live_with(
    tmp_path: Path, world: World, open_engine: OpenEngine
) -> None:
    path, needs_two = tmp_path / "gateway.db", replace(TABLES_OF_GUESTS, name="0003_more_tables")
    needs_two = replace(needs_two, sql="-- lives-with: 0002\nCREATE TABLE seats (number INTEGER) STRICT;")
    for steps in ([GUESTS, TABLES_OF_GUESTS, needs_two], [GUESTS, TABLES_OF_GUESTS]):
        opened = open_engine(path, world, steps)
        opened.close_reading()
        opened.close_writing()
    with pytest.raises(StoreTooNew, match="0003_more_tables"):
        open_engine(path, world, [GUESTS])


def test_a_version_that_lacks_a_step_of_its_own_does_not_go_on_with_a_later_one(
    tmp_path: Path, world: World, open_engine: OpenEngine
) -> None:
    path, other = tmp_path / "gateway.db", replace(ROOMS, name="0002_other")
    opened = open_engine(path, world, [GUESTS, TABLES_OF_GUESTS])
    opened.close_reading()
    opened.close_writing()
    with pytest.raises(StoreTooNew, match="0002_tables"):
        open_engine(path, world, [GUESTS, other])


async def test_a_step_that_fails_leaves_nothing_of_itself(
    tmp_path: Path, world: World, open_engine: OpenEngine
) -> None:
    path = tmp_path / "gateway.db"
    with pytest.raises(StoreUnusable, match=r"0003_broken.*nowhere"):
        open_engine(path, world, [GUESTS, BROKEN])
    async with open_database(
        path, world, worker=inline_worker, steps=[GUESTS, ROOMS], open_engine=open_engine
    ) as database:
        await database.write(lambda db: db.execute("CREATE TABLE beds (number REAL)"))


@pytest.mark.postgres
async def test_lost_connections_are_opened_again_and_no_caller_notices(
    tmp_path: Path, world: World, open_engine: OpenEngine
) -> None:
    path = tmp_path / "gateway.db"

    def process(db: Db) -> int:
        return int(db.execute("SELECT pg_backend_pid()").fetchone()[0])

    async with open_database(path, world, steps=[GUESTS], open_engine=open_engine) as database:
        await database.write(enter, "Kim")
        theirs = [await database.write(process), await database.read(process)]
        other = open_engine(path, world, [GUESTS])
        for pid in theirs:
            other.writing.execute("SELECT pg_terminate_backend(?, 10000)", (pid,)).fetchone()
        other.close_reading()
        other.close_writing()
        # Without the beat of a life nothing tells what became of a commit, so this is lost before it.
        assert await database.write(process) not in theirs
        assert await database.read(guests) == ["Kim"]


@pytest.mark.parametrize("text", ["\N{CJK UNIFIED IDEOGRAPH-4E00}" * 1_000_000, "w" * 1_000_000])
def test_a_long_text_is_stored_and_found_by_its_first_words(db: Db, text: str) -> None:
    session(db)
    transcript.append(db, "s1", TranscriptRow("user", f"Bicycle {text}", NOON))
    many = " ".join(f"{number:x}" for number in range(200_000))
    transcript.append(db, "s1", TranscriptRow("user", f"Caf\N{LATIN SMALL LETTER E WITH ACUTE} {many}", NOON))
    assert len(transcript.search(db, "bicycle")) == 1
    assert len(transcript.search(db, "CAFE")) == 1
