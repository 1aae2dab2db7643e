"""No process that a model has started in a container or on another host survives, no matter how its turn, its
gateway or its connection ends: with the real loop and tools, a real sshd, real engines and processes that are
hard to kill. The gateway cannot find them there: their marker has another name than the local one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from hermes_trio.config.schema import TerminalConfig
from hermes_trio.testing.model_replies import Reply
from tests.agent.agent_scene import Scene, open_scene
from tests.host.children.kinds import alive, soon, token, until
from tests.tools.sandbox.remote.places import Place
from tests.tools.test_no_orphans import HARD, PATIENCE, both_run, ends, kill_a_gateway, tools, works

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the supervisor needs /proc"),
    pytest.mark.timeout(180),
]

ENDS_WITHIN = 15.0
"""Seconds after the end of a turn in which a process there has to be gone, on a slow machine. It is less than
the time of silence after which the supervisor ends a command in any case."""
SILENT_WITHIN = 40.0
"""Seconds after the end of a connection whose closing was not passed on: podman passes none on while a
command floods it, so the supervisor ends the command after its time of silence."""
HARDEST = "(env -i setsid sleep {t} &); sleep {t}"
"""Command of which a process leaves its session, loses its parent and empties its environment."""


WAYS = ("stopped", "superseded", "a new session", "drained", "cancelled around")
FIRST = next(iter(HARD))
CASES = [
    pytest.param(kind, way, marks=[] if kind == FIRST or way == "stopped" else pytest.mark.soak)
    for kind in HARD
    for way in WAYS
]
KILLED = [pytest.param(kind, marks=[] if kind == FIRST else pytest.mark.soak) for kind in HARD]
"""All commands with one way, and one command with all ways; the rest is for the long lane."""


@pytest.fixture
def mine() -> Iterator[str]:
    """A number that all processes of the test carry; none of them may be left after it."""
    yield (number := token())
    soon(lambda: not alive(number), within=SILENT_WITHIN)


@pytest.mark.parametrize(("kind", "way"), CASES)
async def test_no_process_elsewhere_survives_any_end_of_its_turn(
    tmp_path: Path, mine: str, kind: str, way: str, place: Place
) -> None:
    with trio.CancelScope() as around:
        async with open_scene(
            tmp_path,
            mode="interrupt",
            tools=tools(),  # type: ignore[arg-type]
            terminal=place.terminal,
        ) as told:
            works(told.server, kind, mine)
            told.server.otherwise = Reply().says("Nothing more.")
            await told.platform.says("work")
            await both_run(tmp_path, mine)
            if way == "cancelled around":
                around.cancel()
            await ends(told, tmp_path, mine, way)
            if way in ("stopped", "superseded"):
                await until(lambda: not told.gateway.work.running, within=PATIENCE)
                assert alive(mine), "a background process belongs to the session"
    await until(lambda: alive(mine) == [], within=SILENT_WITHIN if kind == "floods" else ENDS_WITHIN)


def config_of(terminal: TerminalConfig) -> str:
    """Return the lines of config.yaml that lead to a place."""
    container, host = terminal.docker.container, terminal.ssh.host
    if host is not None:
        return f"terminal: {{sandbox: ssh, ssh: {{host: {host}}}}}\n"
    program = terminal.docker.program
    return f"terminal: {{sandbox: docker, docker: {{container: {container}, program: {program}}}}}\n"


@pytest.mark.parametrize("kind", KILLED)
async def test_no_process_elsewhere_survives_a_killed_gateway(
    tmp_path: Path, mine: str, kind: str, place: Place
) -> None:
    await kill_a_gateway(tmp_path / "home", config_of(place.terminal), kind, mine)
    await until(lambda: not alive(mine), within=SILENT_WITHIN)


async def hardest_runs(told: Scene, home: Path, mine: str) -> None:
    """Let the model start the hardest command, in the turn, and wait until it runs."""
    command = f"echo begun; {HARDEST.format(t=mine)}"
    told.server.answers(Reply().calls("terminal", {"command": command}).finishes("tool_calls"))
    told.server.otherwise = Reply().says("I see.")
    await told.platform.says("work")
    await until(lambda: len(sleepers(mine)) == 2, within=PATIENCE)


def sleepers(mine: str) -> list[int]:
    """Return the processes of the hardest command over there that are no shell and no connector."""
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in alive(mine)}
    return [pid for pid, line in lines.items() if line.startswith(b"sleep\0")]


async def test_the_hardest_process_ends_with_its_turn_where_there_is_a_reaper(
    tmp_path: Path, mine: str, place: Place
) -> None:
    if not place.has_reaper:
        pytest.skip("there is no python3: such a process is not found, as the documentation says")
    async with open_scene(tmp_path, tools=tools(), terminal=place.terminal) as told:  # type: ignore[arg-type]
        await hardest_runs(told, tmp_path, mine)
        await told.platform.says("/stop")
        await until(lambda: not told.gateway.work.running, within=PATIENCE)
        assert alive(mine) == [], "the turn ended after the proof, not before"


def _kill_client(host: Place) -> None:
    for stat in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = stat.read_bytes()
        except OSError:
            continue
        if line.startswith(b"ssh\0") or b"/ssh\0-F\0" + os.fsencode(host.programs.parent) in line:
            os.kill(int(stat.parent.name), signal.SIGKILL)


def _kill_server(host: Place) -> None:
    for pid in host.sessions():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("cut", [_kill_client, _kill_server], ids=["the client", "the server"])
async def test_a_killed_connection_ends_everything_there_and_the_model_is_told(
    tmp_path: Path, mine: str, host: Place, cut: object
) -> None:
    assert callable(cut)
    async with open_scene(tmp_path, tools=tools(), terminal=host.terminal) as told:  # type: ignore[arg-type]
        await hardest_runs(told, tmp_path, mine)
        cut(host)
        await told.shows("I see.")
        await until(lambda: not alive(mine), within=ENDS_WITHIN)
        result = (await told.rows())[-2].content
        assert "begun\n" in result
        assert "The connection to the host box was lost" in result
        assert "[exit code 255]" in result


async def test_a_silent_network_ends_everything_there_and_the_model_is_told(
    tmp_path: Path, mine: str, host: Place
) -> None:
    async with open_scene(tmp_path, tools=tools(), terminal=host.terminal) as told:  # type: ignore[arg-type]
        await hardest_runs(told, tmp_path, mine)
        stopped = host.sessions()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)  # nothing is closed, and nothing comes through
        try:
            await until(lambda: not alive(mine), within=2 * PATIENCE)
            await told.shows("I see.")
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGKILL)
        assert "The connection to the host box was lost" in (await told.rows())[-2].content
