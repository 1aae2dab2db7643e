"""The paths of `terminal.writable` and `terminal.readable`, in each sandbox that this machine has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hermes_trio.config.schema import TerminalConfig
from hermes_trio.tools.sandbox.available import reason_against
from hermes_trio.tools.sandbox.session_sandbox import SandboxKind, SessionSandbox
from hermes_trio.tools.sandbox.views import Room
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


async def test_a_configured_path_is_written_and_one_that_is_gone_disturbs_no_command(
    bench: Bench, tmp_path: Path
) -> None:
    async with bench.life():
        for name in ("work", "notes", "other"):
            await bench.run(f"echo a > {tmp_path}/{name}/a")
        assert (tmp_path / "work/a").read_text() == "a\n"
        assert (tmp_path / "notes/a").read_text() == "a\n"
        assert not (tmp_path / "other/a").exists()
