"""`hermes-trio status --tree` with a running gateway."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from hermes_trio.embed.shielded_tree import open_tree
from hermes_trio.gateway.serve import Setup
from hermes_trio.testing import MemoryPlatform
from tests.host.children.kinds import soon
from tests.stage import Agent, everyone

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a process cannot be asked here")


def status(home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "hermes_trio", "status", *options]
    return subprocess.run(
        program, env={**os.environ, "HERMES_HOME": str(home)}, capture_output=True, text=True, timeout=50
    )


def test_the_tree_shows_the_wait_of_a_turn(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "hermes_trio", "chat"]
    environ = {**os.environ, "HERMES_HOME": str(tmp_path)}
    with subprocess.Popen(program, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as chat:
        assert chat.stdin is not None
        chat.stdin.write(b"work\n")
        chat.stdin.close()
        soon(lambda: "1 running turn" in status(tmp_path).stdout, within=30)
        shown = status(tmp_path, "--tree")
        chat.send_signal(signal.SIGINT)
    assert shown.returncode == 0, shown.stderr
    waits = r"\[\d+\.\d s left\]  \d+\.\d s in .*hermes_trio\.agent\.demo_model:\d+"
    pattern = r"^ +session agent:main:api:dm:\S+ " + waits
    assert re.search(pattern, shown.stdout, re.M), shown.stdout
    assert not (tmp_path / "gateway_tree.txt").exists()


async def test_an_embedded_gateway_is_not_asked_for_its_tree(tmp_path: Path) -> None:
    setup = Setup(tmp_path, everyone(), agent=Agent(), adapters=[MemoryPlatform()])
    async with open_tree(setup) as gateway:
        await gateway.home.board.written()
        shown = await trio.to_thread.run_sync(status, tmp_path, "--tree")
    assert shown.returncode == 1
    assert "runs inside another program" in shown.stderr
