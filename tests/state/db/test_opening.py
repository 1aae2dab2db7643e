"""Opening a database at any path and over any existing file: created, used, or refused with a remedy."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hermes_trio.base.errors import StoreBusy, StoreUnusable
from hermes_trio.base.world import World
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import Connections, connect_reading, open_connections
from hermes_trio.state.tables import meta, sessions, transcript, turns
from hermes_trio.state.tables.session_entry import SessionEntry
from tests.state.seams import GUESTS, enter, guests, killed_after, seen_from_outside

ODD_NAMES = [
    "with space",
    "what?mode=memory",
    "a#b",
    "100%41",
    "a&b=c",
    "it's",
    "köln 漢字 🙂",
    os.fsdecode(b"\xff\xfe"),
]


@contextmanager
def opened(path: Path, world: World) -> Iterator[Connections]:
    connections = open_connections(path, world, [GUESTS])
    try:
        yield connections
    finally:
        connections.reading.close()
        connections.writing.close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_database_files_are_private_whatever_the_umask(tmp_path: Path, world: World) -> None:
    path = tmp_path / "new" / "home" / "gateway.db"
    with opened(path, world) as connections:
        enter(connections.writing, "Kim")
        assert guests(connections.reading) == ["Kim"]
        names = ["gateway.db", "gateway.db-shm", "gateway.db-wal"]
        assert sorted(os.listdir(path.parent)) == names
        assert [mode(path.parent / name) for name in names] == [0o600] * 3
        assert [mode(path.parent), mode(path.parent.parent)] == [0o700, 0o700]


@pytest.mark.skipif(os.name != "posix", reason="these modes are POSIX")
def test_a_readable_database_is_made_private_and_its_directory_stays_as_it_is(
    tmp_path: Path, world: World
) -> None:
    path = tmp_path / "gateway.db"
    killed_after(path, "Kim")
    for name in os.listdir(tmp_path):
        (tmp_path / name).chmod(0o644)
    tmp_path.chmod(0o755)
    with opened(path, world) as connections:
        assert guests(connections.reading) == ["Kim"]
        assert {name: mode(tmp_path / name) for name in os.listdir(tmp_path)} == {
            "gateway.db": 0o600,
            "gateway.db-shm": 0o600,
            "gateway.db-wal": 0o600,
        }
    assert mode(tmp_path) == 0o755


def test_an_empty_file_becomes_a_new_database(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    path.touch()
    with opened(path, world) as connections:
        assert connections.damaged_copy is None
        enter(connections.writing, "Kim")
    assert seen_from_outside(path) == ["Kim"]


def test_a_reopened_database_contains_what_was_written(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    for name in ("Kim", "Robin"):
        with opened(path, world) as connections:
            enter(connections.writing, name)
            assert connections.damaged_copy is None
    assert os.listdir(tmp_path) == ["gateway.db"], "the log was merged into the file"
    assert seen_from_outside(path) == ["Kim", "Robin"]


def test_a_database_uses_wal_full_sync_and_foreign_keys(tmp_path: Path, world: World) -> None:
    with opened(tmp_path / "gateway.db", world) as connections:
        asked = ("journal_mode", "synchronous", "foreign_keys")
        assert [connections.writing.execute(f"PRAGMA {name}").fetchone()[0] for name in asked] == [
            "wal",
            2,
            1,
        ]


def test_a_directory_at_the_path_is_refused(tmp_path: Path, world: World) -> None:
    (tmp_path / "gateway.db").mkdir()
    with pytest.raises(StoreUnusable, match="Check that the home is a directory") as refused:
        open_connections(tmp_path / "gateway.db", world, [GUESTS])
    assert refused.value.exit_code == 78
    assert os.listdir(tmp_path / "gateway.db") == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_named_pipe_at_the_path_is_refused_without_waiting(tmp_path: Path, world: World) -> None:
    os.mkfifo(tmp_path / "gateway.db")
    with pytest.raises(StoreUnusable):
        open_connections(tmp_path / "gateway.db", world, [GUESTS])


@pytest.mark.parametrize("below", ["gateway.db", "deeper/gateway.db"])
def test_a_home_that_is_a_file_is_refused(tmp_path: Path, world: World, below: str) -> None:
    home = tmp_path / "home"
    home.write_text("my notes")
    with pytest.raises(StoreUnusable, match="this account may write to"):
        open_connections(home / below, world, [GUESTS])
    assert home.read_text() == "my notes"


@contextmanager
def another_account() -> Iterator[None]:
    """Switch to an unprivileged account, because the super-user may write everywhere."""
    if os.name != "posix" or os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(os.name != "posix", reason="these modes are POSIX")
@pytest.mark.parametrize("there_already", [False, True])
def test_a_home_without_write_permission_is_refused(world: World, there_already: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "gateway.db"
        if there_already:
            with opened(path, world) as connections:
                enter(connections.writing, "Kim")
            path.chmod(0o400)
        Path(name).chmod(0o555)
        with another_account(), pytest.raises(StoreUnusable, match="this account may write to"):
            open_connections(path, world, [GUESTS])
        Path(name).chmod(0o755)
        assert os.listdir(name) == (["gateway.db"] if there_already else [])


def test_a_database_locked_by_another_process_is_refused(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    hold = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
        "db.execute('PRAGMA locking_mode = EXCLUSIVE'); db.execute('CREATE TABLE mine (x)');"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(StoreBusy, match="Close the program that has it open") as refused:
            open_connections(path, world, [GUESTS])
        assert refused.value.exit_code == 1
        other.communicate()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]


def test_a_database_of_another_program_is_refused_and_left_untouched(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE sessions (theirs TEXT)")
        connection.execute("INSERT INTO sessions VALUES ('precious')")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(StoreUnusable, match="another program") as refused:
        open_connections(path, world, shipped_steps())
    assert refused.value.exit_code == 78
    assert path.read_bytes() == before
    assert [name for name in os.listdir(tmp_path) if "damaged" in name] == []


@pytest.mark.parametrize("name", ODD_NAMES)
def test_a_database_path_may_have_any_character(tmp_path: Path, world: World, name: str) -> None:
    for path in (tmp_path / name / "gateway.db", tmp_path / "plain" / f"{name}.db"):
        with opened(path, world) as connections:
            enter(connections.writing, "Kim")
            assert guests(connections.reading) == ["Kim"]
        assert os.listdir(path.parent) == [path.name], "no other file is created"
        with closing(connect_reading(path)) as outside:
            assert guests(outside) == ["Kim"]
    assert sorted(os.listdir(tmp_path)) == sorted([name, "plain"])


def test_a_database_path_may_be_relative(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with opened(Path("home/gateway.db"), world) as connections:
        enter(connections.writing, "Kim")
        assert guests(connections.reading) == ["Kim"]


def test_connect_reading_creates_no_database(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable):
        connect_reading(tmp_path / "gateway.db")
    assert os.listdir(tmp_path) == []


def test_another_process_can_read_during_a_write(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    look = (
        "import sys, pathlib; from hermes_trio.state.db.opening import connect_reading;"
        "db = connect_reading(pathlib.Path(sys.argv[1]));\n"
        "for line in sys.stdin: print([n for (n,) in db.execute('SELECT name FROM guests')], flush=True)\n"
        "db.close()"
    )
    with (
        opened(path, world) as connections,
        subprocess.Popen(
            [sys.executable, "-c", look, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other,
    ):
        assert other.stdin is not None
        assert other.stdout is not None

        def seen() -> str:
            print("look", file=other.stdin, flush=True)
            return other.stdout.readline().strip() if other.stdout else ""

        connections.writing.execute("BEGIN IMMEDIATE")
        enter(connections.writing, "Kim")
        assert seen() == "[]"
        connections.writing.execute("COMMIT")
        assert seen() == "['Kim']"
        enter(connections.writing, "Robin")
        assert seen() == "['Kim', 'Robin']"
        other.communicate()
    assert other.returncode == 0


def test_columns_and_tables_added_by_hand_do_no_harm(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    first = open_connections(path, world, shipped_steps())
    for table in ("sessions", "turns", "messages", "inbox", "outbox", "processes", "approvals", "endings"):
        first.writing.execute(f"ALTER TABLE {table} ADD COLUMN colour TEXT NOT NULL DEFAULT 'green'")
    first.writing.executescript("CREATE TABLE notes (x); CREATE INDEX by_colour ON turns (colour);")
    first.reading.close()
    first.writing.close()

    again = open_connections(path, world, shipped_steps())
    db = again.writing
    sessions.add(db, SessionEntry("key", "s1", 1.0, 1.0))
    turn_id = turns.begin(db, run_id="r1", session_id="s1", life="l1", at=1.0)
    transcript.append(db, "s1", transcript.TranscriptRow("user", "Hello.", 1.0, turn_id))
    meta.put(db, "name", "value")
    assert again.damaged_copy is None
    assert sessions.by_id(again.reading, "s1") == SessionEntry("key", "s1", 1.0, 1.0)
    assert [row.content for row in transcript.load(again.reading, "s1")] == ["Hello."]
    assert [turn.run_id for turn in turns.unended(again.reading)] == ["r1"]
    again.reading.close()
    db.close()
