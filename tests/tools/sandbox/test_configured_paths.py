"""The paths of `terminal.writable` and `terminal.readable`, in each sandbox that this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hermes_trio.config.schema import TerminalConfig
from hermes_trio.tools.sandbox.available import reason_against
from hermes_trio.tools.sandbox.session_sandbox import SandboxKind, SessionSandbox
from hermes_trio.tools.sandbox.views import NOTHING, Grants, Room
from tests.stage import Stage, everyone
from tests.tools.bench import Bench

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes are Linux's")


@pytest.fixture(params=["bubblewrap", "landlock"])
def bench(real_stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """A gateway with a directory that may be written, one that may not, and one that is gone."""
    for name in ("work", "notes", "other"):
        (tmp_path / name).mkdir()
    terminal = TerminalConfig(
        cwd=str(tmp_path / "work"),
        sandbox=request.param,
        writable=(str(tmp_path / "notes"), str(tmp_path / "gone")),
        readable=(str(tmp_path / "gone too"),),
    )
    real_stage.config = msgspec.structs.replace(everyone(), terminal=terminal)
    return Bench(real_stage)


@pytest.mark.parametrize("kind", [SandboxKind.BUBBLEWRAP, SandboxKind.LANDLOCK])
def test_a_home_and_a_work_directory_behind_links_work(kind: SandboxKind, tmp_path: Path) -> None:
    if reason := reason_against(kind):
        pytest.skip(reason)
    (tmp_path / "real" / "home").mkdir(parents=True)
    (tmp_path / "real" / "work").mkdir()
    (top := tmp_path / "link").symlink_to("real")
    room = Room(top / "home", top / "work", top / "home" / "scratch" / "own", top / "files")
    confined = SessionSandbox(kind, room).confine("echo a > $TMPDIR/a; cat /tmp/a > a", room.work.resolve())
    subprocess.run(confined.command, cwd=confined.cwd, env={**os.environ, **confined.variables}, check=True)
    assert (room.work / "a").read_text() == (room.temporary / "a").read_text() == "a\n"


@pytest.mark.parametrize("kind", [SandboxKind.BUBBLEWRAP, SandboxKind.LANDLOCK])
@pytest.mark.skipif(shutil.which("git") is None, reason="it needs git")
def test_a_yes_to_write_git_lets_git_change_the_settings_of_a_repository(
    kind: SandboxKind, tmp_path: Path
) -> None:
    if reason := reason_against(kind):
        pytest.skip(reason)
    top = tmp_path.resolve()
    (top / "home").mkdir()
    subprocess.run(["git", "init", "-q", str(top / "work")], check=True)
    (top / "work" / ".env").write_text("KEY=7d5f0c1b\n")
    room = Room(top / "home", top / "work", top / "home" / "scratch" / "own", top / "files")
    sandbox = SessionSandbox(kind, room)

    def code(grants: Grants) -> int:
        confined = sandbox.confine("cat .env; git config user.name Person", room.work, grants)
        environment = {**os.environ, **confined.variables}
        done = subprocess.run(confined.command, cwd=confined.cwd, env=environment, stdout=subprocess.PIPE)
        assert done.stdout == b""
        return done.returncode

    assert code(NOTHING) != 0
    assert code(Grants(writable=(room.work / ".git",))) == 0
    assert code(NOTHING) != 0


async def test_a_configured_path_is_written_and_one_that_is_gone_disturbs_no_command(
    bench: Bench, tmp_path: Path
) -> None:
    async with bench.life():
        for name in ("work", "notes", "other"):
            await bench.run(f"echo a > {tmp_path}/{name}/a")
        assert (tmp_path / "work/a").read_text() == "a\n"
        assert (tmp_path / "notes/a").read_text() == "a\n"
        assert not (tmp_path / "other/a").exists()


@pytest.mark.parametrize("kind", [SandboxKind.BUBBLEWRAP, SandboxKind.LANDLOCK, SandboxKind.LANDLOCK_ALONE])
def test_a_backup_and_the_home_of_another_gateway_are_hidden(
    kind: SandboxKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := reason_against(kind):
        pytest.skip(reason)
    top = tmp_path.resolve()
    monkeypatch.setenv("HOME", str(top / "login"))
    backup = "hermes-trio-20261120T101500Z.tar.gz"
    lock = "login/.local/state/hermes-trio/locks/irc-0"  # whoever holds it keeps the gateway out
    secrets = ["login/.hermes-trio/web.key", lock, f"backups/{backup}", f"login/{backup}"]
    if kind is not SandboxKind.LANDLOCK_ALONE:  # there it is asked about
        secrets.append(f"work/{backup}")
    for name in (*secrets, "work/open"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(f"{name}\n")
    (top / "home").mkdir()
    room = Room(top / "home", top / "work", top / "home" / "s", top / "files", hidden=(top / "backups", top))
    names = " ".join(str(top / name) for name in (*secrets, "work/open"))
    confined = SessionSandbox(kind, room).confine(f"cat {names}", room.work)
    environment = {**os.environ, **confined.variables}
    done = subprocess.run(confined.command, cwd=confined.cwd, env=environment, capture_output=True, text=True)
    assert done.stdout == "work/open\n", done.stderr


@pytest.mark.parametrize("kind", [SandboxKind.BUBBLEWRAP, SandboxKind.LANDLOCK])
def test_the_file_that_leads_to_a_repository_cannot_be_changed(kind: SandboxKind, tmp_path: Path) -> None:
    if reason := reason_against(kind):
        pytest.skip(reason)
    top = tmp_path.resolve()
    for name in ("home", "work/sub"):
        (top / name).mkdir(parents=True)
    for name in ("work/.git", "work/sub/.git"):
        (top / name).write_text("gitdir: ../main/.git/worktrees/work\n")
    room = Room(top / "home", top / "work", top / "home" / "scratch" / "own", top / "files")
    attack = (
        "for f in .git sub/.git; do echo gitdir: evil > $f; mv $f old; echo gitdir: evil > $f; done; mv sub x"
    )
    confined = SessionSandbox(kind, room).confine(attack, room.work)
    subprocess.run(
        confined.command,
        cwd=confined.cwd,
        env={**os.environ, **confined.variables},
        stderr=subprocess.DEVNULL,
    )
    for name in ("work/.git", "work/sub/.git"):
        assert (top / name).read_text() == "gitdir: ../main/.git/worktrees/work\n"


FAILS_ONCE = """#!/bin/sh
if rm {again} 2> /dev/null; then
    echo "bwrap: Can't find source path /run/socket: No such file or directory" >&2
    exit 1
fi
exec {bubblewrap} "$@"
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="it needs bubblewrap")
async def test_a_command_whose_sandbox_lost_a_socket_while_it_was_set_up_runs_after_all(
    real_stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("work", "bin"):
        (tmp_path / name).mkdir()
    program, again = tmp_path / "bin" / "bwrap", tmp_path / "again"
    program.write_text(FAILS_ONCE.format(again=again, bubblewrap=shutil.which("bwrap")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    terminal = TerminalConfig(cwd=str(tmp_path / "work"), sandbox="bubblewrap")
    real_stage.config = msgspec.structs.replace(everyone(), terminal=terminal)
    bench = Bench(real_stage)
    async with bench.life():
        again.touch()
        result = await bench.run("echo ran >> count; cat count")
        assert result.content == "ran\n\n[exit code 0]"
        assert not again.exists()
