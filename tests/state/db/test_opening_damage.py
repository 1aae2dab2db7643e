"""A damaged database is set aside with its log, which is logged, and a new one is created. A readable
database is not set aside because of a few unreadable values."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.base.errors import StoreError
from hermes_trio.base.world import World
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.state.db.database import open_database
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import open_connections
from hermes_trio.state.tables import sessions, transcript, turns
from hermes_trio.state.tables.session_entry import SessionEntry
from hermes_trio.state.tables.transcript import TranscriptRow
from tests.conftest import Calendar
from tests.logs import capture_logs
from tests.state.seams import GUESTS, enter, guests, killed_after

PAGE = 4096
NOT_SQLITE = {
    "text": b"Dear diary,\n",
    "zeros": bytes(10_000),
    "a short name": b"SQL",
    "the name and nothing else": b"SQLite format 3\0",
    "the name and then anything": b"SQLite format 3\0" + random.Random(1).randbytes(20_000),  # noqa: S311
    "another format": b"PK\x03\x04" + bytes(100),
}


def fill(path: Path, world: World, many: int = 2000) -> None:
    """Create a database of many pages, and close it."""
    connections = open_connections(path, world, [GUESTS])
    connections.writing.execute("BEGIN")
    for number in range(many):
        enter(connections.writing, f"guest {number} " + "x" * 100)
    connections.writing.execute("COMMIT")
    connections.reading.close()
    connections.writing.close()


def put_aside(path: Path, world: World) -> Path:
    """Open a damaged database, check that the new one works, and return the path of the damaged copy."""
    with capture_logs() as logs:
        connections = open_connections(path, world, [GUESTS])
    try:
        assert guests(connections.reading) == []
        enter(connections.writing, "somebody new")
        assert guests(connections.reading) == ["somebody new"]
        assert connections.damaged_copy is not None
        [told] = logs
        assert (told["log_level"], told["damaged"]) == ("error", connections.damaged_copy.name)
        return connections.damaged_copy
    finally:
        connections.reading.close()
        connections.writing.close()


@pytest.mark.parametrize("content", NOT_SQLITE.values(), ids=NOT_SQLITE)
def test_a_file_that_is_no_database_is_set_aside_unchanged(
    tmp_path: Path, world: World, content: bytes
) -> None:
    path = tmp_path / "gateway.db"
    path.write_bytes(content)
    copy = put_aside(path, world)
    assert copy == tmp_path / "gateway.db.damaged-20260520T120000"
    assert copy.read_bytes() == content


def test_a_page_of_zeros_is_detected_as_damage(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    fill(path, world)
    with path.open("r+b") as file:
        file.seek(20 * PAGE)
        file.write(bytes(PAGE))
    damaged = path.read_bytes()
    assert put_aside(path, world).read_bytes() == damaged


@pytest.mark.parametrize(
    ("place", "rubbish"),
    [(b"\0\0\0\x04", b"\0\0\0\xff"), (b"TABLE guests", b"TABLE\xa4guests")],
    ids=["a form unknown to SQLite", "a word that is no text"],
)
def test_an_unreadable_schema_is_detected_as_damage(
    tmp_path: Path, world: World, place: bytes, rubbish: bytes
) -> None:
    path = tmp_path / "gateway.db"
    fill(path, world, 10)
    content = path.read_bytes()
    start = content.index(place, 44)
    damaged = content[:start] + rubbish + content[start + len(place) :]
    path.write_bytes(damaged)
    assert put_aside(path, world).read_bytes() == damaged


def test_a_truncated_file_is_detected_as_damage(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    fill(path, world)
    os.truncate(path, 20 * PAGE)
    damaged = path.read_bytes()
    assert put_aside(path, world).read_bytes() == damaged


def test_the_log_of_a_damaged_file_is_set_aside_with_it(tmp_path: Path, world: World) -> None:
    """Acknowledged writes of a killed process are only in the log, which is needed to repair the file."""
    path = tmp_path / "gateway.db"
    fill(path, world)
    killed_after(path, "acknowledged")
    log = path.with_name("gateway.db-wal").read_bytes()
    with path.open("r+b") as file:
        file.seek(20 * PAGE)
        file.write(bytes(PAGE))
    damaged = path.read_bytes()

    copy = put_aside(path, world)
    assert copy.read_bytes() == damaged
    assert copy.with_name(copy.name + "-wal").read_bytes() == log
    with closing(sqlite3.connect(copy)) as by_hand:
        assert by_hand.execute("SELECT max(place), name FROM guests").fetchone() == (2001, "acknowledged")


@pytest.mark.parametrize("suffix", ["-wal", "-journal"])
def test_every_kind_of_log_is_set_aside_with_the_file(tmp_path: Path, world: World, suffix: str) -> None:
    path = tmp_path / "gateway.db"
    path.write_bytes(NOT_SQLITE["text"])
    path.with_name(path.name + suffix).write_bytes(b"whatever it was")
    copy = put_aside(path, world)
    assert copy.with_name(copy.name + suffix).read_bytes() == b"whatever it was"


def test_an_interrupted_transaction_before_wal_mode_is_rolled_back(tmp_path: Path, world: World) -> None:
    """By the rollback log, which a connection that cannot write refuses to play back."""
    path = tmp_path / "gateway.db"
    fill(path, world)
    cut = (
        "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('PRAGMA journal_mode = DELETE'); db.execute('PRAGMA cache_size = 5');"
        "db.execute('BEGIN'); db.execute('DELETE FROM guests'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", cut, path], check=False)
    assert path.with_name("gateway.db-journal").stat().st_size > 0
    connections = open_connections(path, world, [GUESTS])
    assert connections.damaged_copy is None
    assert len(guests(connections.reading)) == 2000
    assert connections.writing.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connections.reading.close()
    connections.writing.close()


@pytest.mark.parametrize("lost", ["missing", "empty"])
def test_a_log_without_its_file_is_set_aside(tmp_path: Path, world: World, lost: str) -> None:
    """SQLite would delete it, and with it acknowledged writes."""
    path = tmp_path / "gateway.db"
    killed_after(path, "acknowledged")
    log = path.with_name("gateway.db-wal").read_bytes()
    path.unlink()
    if lost == "empty":
        path.touch()
    copy = put_aside(path, world)
    assert copy.with_name(copy.name + "-wal").read_bytes() == log


def test_damaged_files_of_the_same_second_get_different_names(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    copies = []
    for content in (b"first", b"second", b"third"):
        path.write_bytes(content)
        for log in ("-wal", "-shm"):
            path.with_name(path.name + log).unlink(missing_ok=True)
        copies.append(put_aside(path, world))
    assert len(set(copies)) == 3
    assert [copy.read_bytes() for copy in copies] == [b"first", b"second", b"third"]


async def test_an_open_database_names_the_damaged_copy_once(
    tmp_path: Path, world: World, calendar: Calendar
) -> None:
    path = tmp_path / "gateway.db"
    path.write_text("Dear diary,")
    calendar.sleep(hours=1)
    async with open_database(path, world, worker=inline_worker) as database:
        assert database.damaged_copy == tmp_path / "gateway.db.damaged-20260520T130000"
    async with open_database(path, world, worker=inline_worker) as database:
        assert database.damaged_copy is None, "it is reported once"


def conversation(path: Path, world: World) -> None:
    """Create a database with the shipped schema and some sessions."""
    connections = open_connections(path, world, shipped_steps())
    db = connections.writing
    db.execute("BEGIN")
    for number in range(20):
        name = f"session-{number}"
        sessions.add(db, SessionEntry(f"agent:main:telegram:dm:{number}", name, 1.0, 1.0, display_name="Kim"))
        turn_id = turns.begin(db, run_id=f"run-{number}", session_id=name, life="life", at=1.0)
        for place in range(5):
            transcript.append(
                db, name, TranscriptRow("user", f"said {place} " * 20, 1.0, turn_id, place=place)
            )
    db.execute("COMMIT")
    connections.reading.close()
    db.close()


def test_an_invalid_byte_in_a_text_costs_one_character(tmp_path: Path, world: World) -> None:
    """A flipped bit in a name must not make the list of all sessions unreadable."""
    path = tmp_path / "gateway.db"
    conversation(path, world)
    path.write_bytes(path.read_bytes().replace(b"Kim", b"K\xffm"))
    connections = open_connections(path, world, shipped_steps())
    for db in (connections.writing, connections.reading):
        assert {entry.display_name for entry in sessions.newest(db, limit=100)} == {"K�m"}
    connections.reading.close()
    connections.writing.close()


@settings(max_examples=60)
@given(
    places=st.lists(
        st.tuples(st.floats(0, 0.9999), st.binary(min_size=1, max_size=200)), min_size=1, max_size=5
    ),
    in_header=st.booleans(),
)
def test_a_database_with_any_bad_bytes_opens_or_raises_a_store_error(
    tmp_path_factory: pytest.TempPathFactory,
    places: list[tuple[float, bytes]],
    in_header: bool,
) -> None:
    path = tmp_path_factory.mktemp("home") / "gateway.db"
    path.write_bytes(sound(tmp_path_factory))
    length = 2 * PAGE if in_header else path.stat().st_size
    with path.open("r+b") as file:
        for place, rubbish in places:
            file.seek(int(place * length))
            file.write(rubbish)
    damaged = path.read_bytes()
    with capture_logs():
        try:
            connections = open_connections(path, World(), shipped_steps())
        except StoreError:
            assert path.read_bytes() == damaged, "a refused file stays untouched"
            return
    if connections.damaged_copy is not None:
        assert connections.damaged_copy.read_bytes() == damaged
        assert sessions.newest(connections.reading, limit=100) == []
    connections.reading.close()
    connections.writing.close()


def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of a sound database, which is created once."""
    path = tmp_path_factory.getbasetemp() / "sound" / "gateway.db"
    if not path.exists():
        conversation(path, World())
    return path.read_bytes()
