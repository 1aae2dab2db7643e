"""No process that a model has started survives, no matter how its turn or its gateway ends: with the real
loop, the real tools, and real processes that are hard to kill."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

import pytest
import trio

from hermes_trio.config.schema import TerminalConfig
from hermes_trio.host.home.home_lock import is_locked
from hermes_trio.platform.contract import FOR_EVER, Traits
from hermes_trio.testing import open_loopback
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import ModelServer, open_model_server
from hermes_trio.tools.builtin.process import Processes
from hermes_trio.tools.builtin.terminal import Terminal
from tests.agent.agent_scene import Scene, open_scene
from tests.host.children.kinds import KINDS, MORE, alive, soon, token, until

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell"),
    pytest.mark.timeout(180),
]

PATIENCE = 40.0
HARD = {
    name: command
    for name, command in (KINDS | MORE).items()
    if "exit" not in command and "-c '" not in command and not command.startswith("setsid")
}
"""Commands that do not end by themselves, need no yes, and are accepted by the terminal."""

CONFIG = """\
model: {{provider: openai, base_url: "{model}", name: test-model, api_key: sk-test-0123456789}}
web: {{port: 0}}
platforms:
  loopback:
    allow_from: all
    port: {port}
    traits: {{edits: true, takes_keys_for: 1000000000}}
"""


@pytest.fixture
def mine() -> Iterator[str]:
    """A number that all processes of the test carry; none of them may be left after it."""
    yield (number := token())
    soon(lambda: not alive(number), within=20)


def works(server: ModelServer, kind: str, mine: str) -> None:
    """Let the model start one process in the background, and one that it waits for."""
    command = HARD[kind].format(t=mine)
    asks = Reply().calls("terminal", {"command": f"echo behind; {command}", "background": True})
    server.answers(asks.calls("terminal", {"command": f"echo before; {command}"}).finishes("tool_calls"))


async def both_run(home: Path, mine: str) -> None:
    """Wait until both processes run and have written something."""

    def begun() -> bool:
        said = b"".join(path.read_bytes()[:20] for path in (home / "spools").glob("*"))
        return b"before" in said and b"behind" in said

    await until(lambda: (home / "spools").exists() and begun(), within=PATIENCE)
    await until(lambda: alive(mine), within=PATIENCE)


def tools() -> dict[str, object]:
    return {tool.name: tool for tool in (*Terminal().tools, Processes().tool)}


async def ends(told: Scene, home: Path, mine: str, way: str) -> None:
    if way == "stopped":
        await told.platform.says("/stop")
    elif way == "superseded":
        told.server.answers(Reply().says("Something else."))
        await told.platform.says("Do something else.")
        await told.shows("Something else.")
    elif way == "a new session":
        await told.platform.says("/new")
        await until(lambda: not alive(mine), within=PATIENCE)
    elif way == "drained":
        told.gateway.stop(grace=0.5)
        await until(lambda: not is_locked(home), within=PATIENCE)


Sandbox = Literal["bubblewrap", "landlock", "off"]
SANDBOXES: tuple[Sandbox, ...] = get_args(Sandbox)


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("kind", HARD)
@pytest.mark.parametrize("way", ["stopped", "superseded", "a new session", "drained", "cancelled around"])
async def test_no_process_of_a_model_survives_any_end_of_its_turn(
    tmp_path: Path, mine: str, kind: str, way: str, sandbox: Sandbox
) -> None:
    terminal = TerminalConfig(sandbox=sandbox)
    with trio.CancelScope() as around:
        async with open_scene(
            tmp_path,
            mode="interrupt",
            tools=tools(),  # type: ignore[arg-type]
            terminal=terminal,
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
                entry = await told.gateway.home.store.get_session_entry("agent:main:memory:dm:42")
                assert entry is not None
                (kept,) = told.gateway.work.background.of_session(entry.session_id)
                assert kept.is_running, "a background process belongs to the session"
    assert alive(mine) == []


@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("kind", HARD)
async def test_no_process_of_a_model_survives_a_killed_gateway(
    tmp_path: Path, mine: str, kind: str, sandbox: str
) -> None:
    await kill_a_gateway(tmp_path / "home", f"terminal: {{sandbox: {sandbox}}}\n", kind, mine)
    await until(lambda: not alive(mine), within=20)


async def kill_a_gateway(home: Path, terminal: str, kind: str, mine: str) -> None:
    """Start a gateway with these lines of configuration, and kill it while its model's processes run."""
    home.mkdir()
    async with (
        open_model_server() as server,
        open_loopback(traits=Traits(edits=True, takes_keys_for=FOR_EVER)) as platform,
    ):
        config = CONFIG.format(port=platform.port, model=server.openai_url)
        (home / "config.yaml").write_text(config + terminal)
        environ = {name: value for name, value in os.environ.items() if name != "INVOCATION_ID"}
        works(server, kind, mine)
        gateway = await trio.lowlevel.open_process(
            [sys.executable, "-m", "hermes_trio", "run"],
            env={**environ, "HERMES_HOME": str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            with trio.fail_after(PATIENCE):
                await platform.says("work", chat="42")
            await both_run(home, mine)
        finally:
            gateway.kill()
            with trio.move_on_after(10, shield=True):
                await gateway.wait()
