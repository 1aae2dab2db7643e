"""Agents and tools of asyncio in a program on Trio, in a process of their own: trio-asyncio changes asyncio
for a whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .test_foreign_agents import NEEDS_TRIO_ASYNCIO


def test_agents_and_tools_of_asyncio_on_trio(tmp_path: Path) -> None:
    if find_spec("trio_asyncio") is None:  # not imported here
        pytest.skip("trio-asyncio is not installed")
    stories = [str(Path(__file__).with_name(f"test_{name}.py")) for name in ("foreign_agents", "host_tools")]
    at_temp = ["--basetemp", str(tmp_path / "inner")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *at_temp, *stories],
        cwd=Path(__file__).parents[2],
        env={**os.environ, NEEDS_TRIO_ASYNCIO: "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout
    assert "9 passed" in done.stdout.splitlines()[-1]


PROGRAM = """
import asyncio, signal, sys, trio
import hermes_trio

@hermes_trio.asyncio_agent
async def answer(turn):
    {does}
    await asyncio.sleep(60)

async def main():
    async with hermes_trio.open_gateway(sys.argv[1], agent=answer) as gateway:
        await gateway.say("first", "hello")

trio.run(main)
"""


@pytest.mark.skipif(find_spec("trio_asyncio") is None, reason="trio-asyncio is not installed")
@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(
    ("does", "error"),
    [("signal.raise_signal(signal.SIGINT)", "KeyboardInterrupt"), ("sys.exit(3)", "RunUnanswered")],
    ids=["Ctrl-C", "an exit"],
)
def test_ctrl_c_or_an_exit_inside_an_agent_of_asyncio_ends_its_turn(
    tmp_path: Path, does: str, error: str
) -> None:
    program = [sys.executable, "-c", PROGRAM.format(does=does), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert error in done.stderr.splitlines()[-1], done.stderr
