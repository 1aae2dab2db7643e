"""A machine that allows no namespaces, as most containers do: Landlock is alone there."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_trio.tools.sandbox.session_sandbox import SandboxKind, SessionSandbox
from hermes_trio.tools.sandbox.views import NOTHING, Room

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap forbids namespaces here")

FORBIDS = (
    "bwrap",
    "--unshare-user",
    "--uid",
    "1000",
    "--disable-userns",
    "--dev-bind",
    "/",
    "/",
    "--proc",
    "/proc",
)
FINDINGS = """
from pathlib import Path
from hermes_trio.cli.sandbox_check import sandbox_findings
from hermes_trio.config.schema import GatewayConfig, TerminalConfig
config = GatewayConfig(terminal=TerminalConfig(sandbox="landlock"))
print(next(sandbox_findings(Path("home"), config)).text)
"""


def test_doctor_says_what_is_not_protected(tmp_path: Path) -> None:
    line = [sys.executable, "-c", FINDINGS]
    (tmp_path / ".env").touch()
    plain, forbidden = (
        subprocess.run([*before, *line], capture_output=True, text=True, timeout=60, cwd=tmp_path)
        for before in ((), FORBIDS)
    )
    if "commands run under landlock" not in plain.stdout:
        pytest.skip(plain.stdout)
    assert plain.stdout == "commands run under landlock\n"
    assert forbidden.stdout.startswith(
        f"commands run under landlock without namespaces, which cannot protect .env in {tmp_path}"
    )


def test_a_command_with_a_host_does_not_run(tmp_path: Path) -> None:
    room = Room(tmp_path / "home", tmp_path / "work", tmp_path / "scratch", tmp_path / "files")
    for path in (room.home, room.work):
        path.mkdir()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        alone = SessionSandbox(SandboxKind.LANDLOCK_ALONE, room)
        command = alone.confine(["echo", "it runs"], room.work, NOTHING, theirs.fileno()).command
        done = subprocess.run(
            [*FORBIDS, *command], capture_output=True, text=True, pass_fds=[theirs.fileno()], timeout=20
        )
    assert (done.returncode, done.stdout) == (126, "")
    assert "Ask for `network`" in done.stderr
