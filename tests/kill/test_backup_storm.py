"""Backups and restores of a home under load, killed at random moments: a file with the name of a backup is
whole and holds everything that was acknowledged before it was begun; a home is restored whole or not at all.

BACKUP_ROUNDS is the number of rounds of the soak test, STORM_SEED repeats the random numbers of an earlier
one.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hermes_trio.base.world import World
from hermes_trio.journal.reader import read_run
from hermes_trio.state.backup.backup_file import backups_in, read_backup
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import open_connections
from hermes_trio.state.tables import turns
from tests.kill.test_kill import LIFE, Reported
from tests.machine import HERMES, PATIENCE, environment

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")


@contextmanager
def working(home: Path, life: str) -> Iterator[Path]:
    """Work in the home during the block, and be killed at its end. Yield the file with the reports."""
    log = home.parent / f"{life}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, str(LIFE), str(home), life], stdout=output)
        try:
            until = time.monotonic() + PATIENCE
            while log.stat().st_size < 2000:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.005)
            yield log
            assert process.poll() is None, "it works until it is killed"
        finally:
            process.kill()
            process.wait()


def run(home: Path, *arguments: object, kill_after: float | None = None) -> int:
    """Run a command, perhaps kill it after these seconds, and return its exit code."""
    command = [*HERMES, *map(str, arguments)]
    process = subprocess.Popen(command, env=environment(home), stdout=subprocess.DEVNULL)
    try:
        return process.wait(PATIENCE if kill_after is None else kill_after)
    except subprocess.TimeoutExpired:
        return -9
    finally:
        process.kill()
        process.wait()


def check(home: Path, said: Reported) -> None:
    """Check that a restored home has everything that was acknowledged before its backup."""
    opened = open_connections(home / "gateway.db", World(), shipped_steps())
    with closing(opened.reading), closing(opened.writing) as db:
        assert opened.damaged_copy is None
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert set(said.stored) <= {row[0] for row in db.execute("SELECT inbox_id FROM inbox")}
        for turn_id in said.answered:
            turn = turns.get(db, turn_id)
            assert turn is not None
            assert turn.outcome == "answered"
        for session_id, run_id in db.execute("SELECT session_id, run_id FROM turns").fetchall():
            reading = read_run(home / "journal", session_id, run_id)
            assert reading.complete
            assert reading.last_seq >= said.shown.get((session_id, run_id), 0)


def storm(tmp_path: Path, rounds: int, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - moments, not secrets
    home, folder = tmp_path / "home", tmp_path / "backups"
    home.mkdir()
    killed = {"backup": 0, "restore": 0}
    for number in range(rounds):
        with working(home, f"life{number}") as log:
            killed["backup"] += run(home, "backup", "--to", folder, kill_after=dice.uniform(0.1, 1.2)) == -9
            for _, file in backups_in(folder):
                read_backup(file)
                file.unlink()
            said = Reported.read(log.read_text().rpartition("\n")[0])
            assert run(home, "backup", "--to", folder) == 0
        assert not list(folder.glob("*.partial"))
        [(_, file)] = backups_in(folder)
        new = tmp_path / f"new{number}"
        restore = ("restore", file, "--to", new)
        killed["restore"] += run(home, *restore, kill_after=dice.uniform(0.1, 1.2)) == -9
        if not new.exists():
            assert run(home, *restore) == 0
        check(new, said)
        assert not (tmp_path / f".new{number}.restoring").exists()
        file.unlink()
    print(f"{rounds} rounds, killed in the middle: {killed}, seed {seed}")


@pytest.mark.timeout(120)
def test_three_rounds_of_backups_under_kills_restore_to_good_homes(tmp_path: Path) -> None:
    storm(tmp_path, 3, seed=20261120)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_hundred_rounds_of_backups_under_kills_restore_to_good_homes(tmp_path: Path) -> None:
    seed = int(os.environ.get("STORM_SEED", random.SystemRandom().randrange(10**9)))
    storm(tmp_path, int(os.environ.get("BACKUP_ROUNDS", "100")), seed)
