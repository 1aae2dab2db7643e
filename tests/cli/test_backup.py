"""`hermes-trio backup` and `restore` as processes: a full disk, a stop in the middle, a gateway that runs."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio.base.world import World
from hermes_trio.config.retention_section import BackupConfig
from hermes_trio.gateway.home.open_home import Home
from hermes_trio.gateway.home.scheduled_backup import back_up_if_due
from hermes_trio.host.loop.worker import worker_thread
from hermes_trio.state.backup.backup_file import backups_in
from tests.machine import HERMES, PATIENCE, environment
from tests.stage import Stage


def run(home: Path, *arguments: object, most: int | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command, with `most` bytes for each file that it writes."""

    def limited() -> None:
        if most is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    return subprocess.run(
        [*HERMES, *map(str, arguments)],
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limited,
        timeout=PATIENCE,
    )


@pytest.fixture
async def home(stage: Stage) -> Path:
    """A home with a conversation, and a file that cannot be packed any smaller."""
    async with stage.life():
        await stage.says("Hello.")
    (stage.home / "files").mkdir()
    (stage.home / "files" / "photo").write_bytes(os.urandom(2_000_000))
    return stage.home


async def test_a_backup_on_a_full_disk_fails_and_leaves_nothing(home: Path) -> None:
    for most in (100_000, 1_000_000):  # in the copy of the database, and in the archive
        done = run(home, "backup", most=most)
        assert done.returncode != 0
        assert done.stderr.startswith("error: ")
        assert [one.name for one in (home / "backups").iterdir()] == [".lock"]
    assert run(home, "backup").returncode == 0


async def test_a_restore_on_a_full_disk_fails_and_leaves_nothing(home: Path, tmp_path: Path) -> None:
    assert run(home, "backup").returncode == 0
    [(_, file)] = backups_in(home / "backups")
    there = set(tmp_path.iterdir())
    done = run(home, "restore", file, "--to", tmp_path / "new", most=1_000_000)
    assert done.returncode != 0
    assert done.stderr.startswith("error: ")
    assert set(tmp_path.iterdir()) == there


async def test_the_commands_tell_what_was_made_and_what_to_do_next(home: Path, tmp_path: Path) -> None:
    (home / ".env").write_text("OPENAI_API_KEY=sk-0123456789abcdefghij\n")
    (home / "work").mkdir()
    made = run(home, "backup")
    [(_, file)] = backups_in(home / "backups")
    assert made.stdout.startswith(f"{file}: ")
    assert "a restored home needs OPENAI_API_KEY in its .env" in made.stdout
    assert "Not in it: work." in made.stdout
    assert str(file) in run(home, "backup", "list").stdout
    assert run(home, "backup", "check", file).stdout.startswith("ok: ")
    assert run(home, "backup", "check", home / "config.yaml").returncode == 1
    new = tmp_path / "new"
    restored = run(home, "restore", file, "--to", new)
    assert restored.stdout.startswith(f"{new}: 1 session, as of ")
    assert f"Set these variables in {new / '.env'}: OPENAI_API_KEY." in restored.stdout
    assert "42" in run(new, "sessions", "list").stdout


async def test_a_backup_is_made_when_the_newest_is_old_enough_and_a_number_is_kept(
    real_stage: Stage,
) -> None:
    backups = real_stage.home / "backups"
    real_stage.world = World()
    real_stage.config = msgspec.structs.replace(
        real_stage.config, backup=BackupConfig(every_hours=24, keep=2)
    )
    async with real_stage.life() as gateway:
        with worker_thread("upkeep") as runner:
            await back_up_if_due(gateway.home, None, runner)
            [(_, first)] = backups_in(backups)
            await back_up_if_due(gateway.home, None, runner)
            assert backups_in(backups)[0][1] == first
            for day in ("20200101", "20200102"):
                shutil.copy(first, backups / f"hermes-trio-{day}T000000Z.tar.gz")
            first.unlink()
            await back_up_if_due(gateway.home, None, runner)
    newest, older = (path.name for _, path in backups_in(backups))
    assert newest > older == "hermes-trio-20200102T000000Z.tar.gz"


async def test_a_backup_that_runs_delays_no_stop_and_leaves_what_the_next_one_removes(
    real_stage: Stage,
) -> None:
    real_stage.config = msgspec.structs.replace(real_stage.config, backup=BackupConfig(every_hours=1))
    backups = real_stage.home / "backups"
    async with real_stage.life() as gateway:
        (real_stage.home / "files").mkdir()
        with (real_stage.home / "files" / "huge").open("wb") as file:
            file.truncate(20_000_000_000)  # takes no space, and minutes to pack
        await _killed_in_the_middle(gateway.home, backups)
        (real_stage.home / "files" / "huge").unlink()
        assert run(real_stage.home, "backup").returncode == 0
        assert len(list(backups.iterdir())) == 2, "the backup and the lock"


async def _killed_in_the_middle(home: Home, backups: Path) -> None:
    with worker_thread("upkeep") as runner:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(back_up_if_due, home, None, runner)
            with trio.fail_after(PATIENCE):
                while not list(backups.glob("hermes-trio-*.partial")):  # noqa: ASYNC110 - another process
                    await trio.sleep(0.02)
            nursery.cancel_scope.cancel()
    assert backups_in(backups) == []
