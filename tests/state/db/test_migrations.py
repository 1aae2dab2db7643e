"""Schema steps: an older database is brought up to date, and a newer one is refused."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.base.errors import StoreFull, StoreTooNew, StoreUnusable
from hermes_trio.base.world import World
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import SchemaStep, shipped_steps
from hermes_trio.state.db.opening import Connections, open_connections
from tests.conftest import Calendar
from tests.state.seams import GUESTS, enter, guests, killed_after

SEAT = SchemaStep(
    "0002_seat",
    """
    -- Guests sit; where they sit is a number.
    ALTER TABLE guests ADD COLUMN seat INTEGER;  UPDATE guests SET seat = place * 10;
    CREATE TRIGGER no_seat AFTER INSERT ON guests WHEN new.seat IS NULL BEGIN
        UPDATE guests SET seat = new.place * 10 WHERE place = new.place;
        DELETE FROM guests WHERE name = ';';
    END;
    CREATE TABLE seats_taken (seat INTEGER)
    """,
)
BROKEN = SchemaStep(
    "0003_broken", "UPDATE guests SET seat = NULL; DROP TABLE seats_taken; UPDATE nobody SET seat = 1;"
)
MENDED = SchemaStep("0003_broken", "UPDATE guests SET seat = seat + 1;")


@contextmanager
def opened(path: Path, world: World, *steps: SchemaStep) -> Iterator[Connections]:
    connections = open_connections(path, world, steps)
    try:
        yield connections
    finally:
        connections.reading.close()
        connections.writing.close()


def recorded(db: Db) -> list[tuple[str, float]]:
    return db.execute("SELECT name, applied_at FROM schema_steps ORDER BY rowid").fetchall()


def seats(db: Db) -> list[tuple[str, int]]:
    return db.execute("SELECT name, seat FROM guests ORDER BY place").fetchall()


def test_schema_steps_are_applied_in_order_once_and_recorded(
    tmp_path: Path, world: World, calendar: Calendar
) -> None:
    path = tmp_path / "gateway.db"
    began = calendar.time
    with opened(path, world, GUESTS) as first:
        enter(first.writing, "Kim")
        assert recorded(first.reading) == [("0001_guests", began)]
    calendar.sleep(days=1)
    for _ in range(2):
        with opened(path, world, GUESTS, SEAT, MENDED) as later:
            assert seats(later.reading)[0] == ("Kim", 11)
            assert recorded(later.reading) == [
                ("0001_guests", began),
                ("0002_seat", began + 86400),
                ("0003_broken", began + 86400),
            ]
        calendar.sleep(days=1)
    with opened(path, world, GUESTS, SEAT, MENDED) as later:
        enter(later.writing, "Robin")
        assert seats(later.reading) == [("Kim", 11), ("Robin", 20)], "every statement of a step is applied"
        assert later.reading.execute("SELECT count(*) FROM seats_taken").fetchone() == (0,)


def test_a_new_database_gets_all_schema_steps_and_no_copy(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    with opened(path, world, GUESTS, SEAT):
        pass
    assert os.listdir(tmp_path) == ["gateway.db"]


def test_a_copy_of_the_database_is_kept_before_the_first_schema_step(tmp_path: Path, world: World) -> None:
    path, copy = tmp_path / "gateway.db", tmp_path / "gateway.db.before-0002_seat"
    with opened(path, world, GUESTS) as first:
        enter(first.writing, "Kim")
    killed_after(path, "Robin")
    copy.with_name(copy.name + ".part").write_text("an attempt that was cut")
    with opened(path, world, GUESTS, SEAT):
        assert sorted(os.listdir(tmp_path)) == sorted(
            ["gateway.db", "gateway.db-shm", "gateway.db-wal", copy.name]
        )
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as kept:
        assert guests(kept) == ["Kim", "Robin"], "including rows that were only in the log"
        assert [name for name, _ in recorded(kept)] == ["0001_guests"]
        assert kept.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    taken = copy.stat().st_mtime_ns
    with opened(path, world, GUESTS, SEAT):
        pass
    assert copy.stat().st_mtime_ns == taken, "no step was missing, so no copy was made"


def test_the_copy_before_a_schema_step_opens_in_the_older_version(tmp_path: Path, world: World) -> None:
    """With that copy a person returns to the previous version."""
    path = tmp_path / "gateway.db"
    with opened(path, world, GUESTS) as first:
        enter(first.writing, "Kim")
    with opened(path, world, GUESTS, SEAT) as newer:
        enter(newer.writing, "Robin")
    (tmp_path / "gateway.db.before-0002_seat").replace(path)
    with opened(path, world, GUESTS) as older:
        assert older.damaged_copy is None
        assert guests(older.reading) == ["Kim"]
        enter(older.writing, "Sam")


def test_a_failed_schema_step_leaves_the_schema_before_it(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    with opened(path, world, GUESTS) as first:
        enter(first.writing, "Kim")
    with pytest.raises(StoreUnusable, match=r"0003_broken.*no such table: nobody") as failed:
        open_connections(path, world, [GUESTS, SEAT, BROKEN])
    assert failed.value.exit_code == 78
    assert "install the version before" in failed.value.remedy
    with opened(path, world, GUESTS, SEAT) as before:
        assert seats(before.reading) == [("Kim", 10)], "only the failed step is undone"
        assert before.reading.execute("SELECT count(*) FROM seats_taken").fetchone() == (0,)
        assert [name for name, _ in recorded(before.reading)] == ["0001_guests", "0002_seat"]
    with opened(path, world, GUESTS, SEAT, MENDED) as mended:
        assert seats(mended.reading) == [("Kim", 11)]


def test_a_full_disk_in_a_schema_step_leaves_the_schema_before_it(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    with opened(path, world, GUESTS) as first:
        enter(first.writing, "Kim")
    fill = "; PRAGMA max_page_count = 10; UPDATE guests SET name = hex(zeroblob(1000000));"
    full = SchemaStep(SEAT.name, SEAT.sql + fill)
    with pytest.raises(StoreFull, match="Free some space"):
        open_connections(path, world, [GUESTS, full])
    with opened(path, world, GUESTS, SEAT) as again:
        assert seats(again.reading) == [("Kim", 10)]


def test_a_kill_during_a_schema_step_leaves_the_schema_before_it(tmp_path: Path, world: World) -> None:
    path = tmp_path / "gateway.db"
    with opened(path, world, GUESTS) as first:
        for number in range(100):
            enter(first.writing, f"guest {number}")
    migrate = (
        "import pathlib, sys; from hermes_trio.state.db.opening import open_connections;"
        "from hermes_trio.state.db.migrations import SchemaStep; from hermes_trio.base.world import World;"
        "from tests.state.seams import GUESTS;"
        "endless = SchemaStep('0002_seat', '''CREATE TABLE half (x); INSERT INTO half VALUES (1);"
        "UPDATE guests SET name = name || 'x';"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
        "INSERT INTO half SELECT max(i) FROM n;''');"
        "open_connections(pathlib.Path(sys.argv[1]), World(), [GUESTS, endless])"
    )
    with subprocess.Popen([sys.executable, "-c", migrate, path], cwd=Path(__file__).parents[3]) as process:
        give_up = time.monotonic() + 30
        while not path.with_name("gateway.db.before-0002_seat").exists():
            assert time.monotonic() < give_up
            time.sleep(0.01)
        time.sleep(0.1)
        assert process.poll() is None, "the step is still running"
        process.kill()
    with opened(path, world, GUESTS, SEAT) as again:
        assert again.damaged_copy is None
        assert [name for name, _ in recorded(again.reading)] == ["0001_guests", "0002_seat"]
        assert seats(again.reading) == [(f"guest {n}", 10 * (n + 1)) for n in range(100)]
        assert again.reading.execute("SELECT 1 FROM sqlite_schema WHERE name = 'half'").fetchone() is None


@pytest.mark.parametrize("stopped", ["in order", "by a kill"])
def test_a_database_of_a_newer_version_is_refused_and_left_untouched(
    tmp_path: Path, world: World, stopped: str
) -> None:
    path = tmp_path / "gateway.db"
    newer = SchemaStep("0004_from_the_future", "CREATE TABLE robots (name TEXT);")
    with opened(path, world, GUESTS, newer) as future:
        enter(future.writing, "Kim")
    if stopped == "by a kill":
        write = (
            "import os, sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None);"
            "db.execute('INSERT INTO robots VALUES (1)'); os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", write, path], check=False)

    def content() -> dict[str, bytes]:
        there = [name for name in os.listdir(tmp_path) if not name.endswith("-shm")]
        return {name: data for name in there if (data := (tmp_path / name).read_bytes())}

    before = content()
    assert sorted(before) == ["gateway.db", "gateway.db-wal"][: len(before)]
    assert len(before) == (2 if stopped == "by a kill" else 1)
    for steps in ([GUESTS], [GUESTS, SEAT], [SEAT]):
        with pytest.raises(StoreTooNew, match="0004_from_the_future") as refused:
            open_connections(path, world, steps)
        assert refused.value.exit_code == 78
        assert "Install that version" in refused.value.remedy
        assert content() == before


def test_the_shipped_schema_steps_are_numbered_and_create_a_database(tmp_path: Path, world: World) -> None:
    names = [step.name for step in shipped_steps()]
    assert names == sorted(names)
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    with opened(tmp_path / "gateway.db", world, *shipped_steps()) as made:
        assert [name for name, _ in recorded(made.reading)] == names


def test_each_shipped_step_says_which_versions_it_lives_with() -> None:
    """Or `-- lives-with: none`. The first eight are older than that line."""
    for step in shipped_steps()[8:]:
        assert re.match(r"-- lives-with: (\d{4}|none)\n", step.sql), step.name
        assert (step.lives_with or 0) < step.number
        assert step.lives_with is None or step.lives_with >= 8


def test_prompts_with_a_memory_of_all_people_are_made_anew(tmp_path: Path, world: World) -> None:
    path, (first, logins, *later) = tmp_path / "gateway.db", shipped_steps()
    with opened(path, world, first, logins) as made:
        made.writing.execute(
            "INSERT INTO sessions (session_id, session_key, chat_type, created_at, updated_at, prompt) "
            "VALUES ('s1', 'k', 'dm', 0, 0, 'The owner is ill.')"
        )
        made.writing.commit()
    with opened(path, world, first, logins, *later) as made:
        assert made.reading.execute("SELECT prompt FROM sessions").fetchall() == [(None,)]


def test_every_statement_of_the_shipped_schema_steps_is_applied(tmp_path: Path, world: World) -> None:
    """Steps are split into statements; compare with SQLite's own splitting, which commits."""
    with (
        closing(sqlite3.connect(":memory:")) as whole,
        opened(tmp_path / "g.db", world, *shipped_steps()) as ours,
    ):
        for step in shipped_steps():
            whole.executescript(step.sql)
        assert schema(ours.reading) == schema(whole)


def schema(db: Db) -> set[tuple[str, str]]:
    there = db.execute("SELECT type, name FROM sqlite_schema WHERE name NOT LIKE '%schema_steps%'")
    return set(there.fetchall())


STATEMENTS = (
    "CREATE TABLE {name} (x TEXT);",
    "CREATE TABLE {name} (x TEXT DEFAULT ';');",
    "-- a comment; with a semicolon\nCREATE TABLE {name} (x TEXT);",
    "CREATE /* one; more */ TABLE {name} (x TEXT) ; ",
    'CREATE TABLE {name} (x TEXT CHECK (x <> "it;"));',
    "CREATE TABLE {name} (x TEXT); CREATE TRIGGER t_{name} AFTER INSERT ON {name} BEGIN\n"
    "DELETE FROM {name}; DELETE FROM {name}; END;",
)


@settings(max_examples=50)
@given(
    parts=st.lists(st.tuples(st.sampled_from(STATEMENTS), st.sampled_from(["", " ", "\n", "\n\n-- so;\n"]))),
    last_semicolon=st.booleans(),
)
def test_a_schema_step_may_have_any_formatting(
    tmp_path_factory: pytest.TempPathFactory,
    parts: Sequence[tuple[str, str]],
    last_semicolon: bool,
) -> None:
    sql = "".join(text.format(name=f"t{number}") + space for number, (text, space) in enumerate(parts))
    if not last_semicolon:
        sql = sql.rstrip().removesuffix(";")
    path = tmp_path_factory.mktemp("home") / "gateway.db"
    with opened(path, World(), SchemaStep("0001_many", sql)) as made:
        tables = made.reading.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").fetchone()
    assert tables == (len(parts) + 1,)
