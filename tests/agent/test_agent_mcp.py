"""MCP servers in a real gateway: the model can use their tools, and they live as long as the gateway."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from hermes_trio.agent.model_agent import Agent
from hermes_trio.config.schema import McpServerConfig
from hermes_trio.platform.contract import FOR_EVER, Traits
from hermes_trio.testing import open_loopback
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import open_model_server
from tests.agent.agent_scene import Provider, Scene, open_scene
from tests.agent.test_toolbox import results
from tests.host.children.kinds import alive, soon, token, until
from tests.tools.mcp.test_mcp_servers import PROGRAM, program
from tests.tools.test_no_orphans import CONFIG

pytestmark = pytest.mark.timeout(120)

PATIENCE = 40.0


@pytest.fixture
def mine() -> Iterator[str]:
    yield (number := token())
    soon(lambda: not alive(number), within=20)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_mcp_tools_serve_the_model_and_its_delegated_tasks(
    tmp_path: Path, mine: str, provider: Provider
) -> None:
    async with open_scene(tmp_path, provider=provider, servers={"small": program("well", mine)}) as scene:
        await connected(scene, "mcp__small__spell")
        scene.server.answers(
            Reply()
            .calls("mcp__small__spell", {"word": "cat"})
            .calls("delegate_task", {"goal": "Spell dog."}),
            Reply().calls("mcp__small__spell", {"word": "dog"}),
            Reply().says("It is d-o-g."),
            Reply().says("Both are spelled."),
        )
        await scene.says("spell cat and dog", until="Both are spelled.")
        scene.check_requests()
        said = [json.dumps(asked.body["messages"]) for asked in scene.server.requests]
        assert "c-a-t" in said[-1]
        assert "d-o-g" in said[2]
        first, *others = [asked.body["tools"] for asked in scene.server.requests]
        assert first == others[-1], "every request of a conversation has the same tools"


async def connected(scene: Scene, tool: str) -> None:
    """Wait until this tool is available; a turn does not wait for it."""
    agent = scene.gateway.work.agent
    assert isinstance(agent, Agent)
    with trio.fail_after(PATIENCE):
        while tool not in (await agent.box.tools()).tools:  # noqa: ASYNC110 - there is no event for it
            await trio.sleep(0.02)


async def test_a_silent_mcp_server_delays_no_answer_and_is_mentioned(tmp_path: Path, mine: str) -> None:
    async with open_scene(tmp_path, servers={"mute": program("mute", str(tmp_path / mine))}) as scene:
        scene.server.answers(Reply().says("Hello."), Reply().says("Here I am."))
        with trio.fail_after(15):  # the connection attempt itself takes a minute
            await scene.says("hello", until="Hello.")
            await scene.says("are you there?", until="Here I am.")
        shown = [text for text in scene.platform.chat("42").texts if "connected" in text]
        assert shown == ["⏳ Still being connected, so without its tools in this turn: mute."]


async def test_a_stop_ends_a_call_and_keeps_the_mcp_server(tmp_path: Path, mine: str) -> None:
    mark = str(tmp_path / mine)
    async with open_scene(tmp_path, servers={"small": program("well", mark)}) as scene:
        await connected(scene, "mcp__small__hang")
        scene.server.answers(Reply().calls("mcp__small__hang", {"word": "x"}))
        await scene.platform.says("hang")
        await until(lambda: any("sleep" in " ".join(_words(pid)) for pid in alive(mine)), within=PATIENCE)
        await scene.platform.says("/stop")
        await until(lambda: not scene.gateway.work.running, within=PATIENCE)
        await until(Path(mark + ".cancelled").exists, within=PATIENCE)
        scene.server.answers(Reply().calls("mcp__small__spell", {"word": "cat"}), Reply().says("Spelled."))
        await scene.says("spell", until="Spelled.")
        assert results(scene)[-1].endswith("c-a-t")
    assert alive(mine) == []


async def test_an_unusable_mcp_server_prevents_no_answer(tmp_path: Path) -> None:
    bad = {"bad": McpServerConfig(command="no-such-program"), "worse": program("dies")}
    async with open_scene(tmp_path, servers=bad) as scene:
        scene.server.answers(Reply().says("Hello."))
        await scene.says("hello", until="Hello.")
        assert "mcp__" not in json.dumps(scene.server.requests[-1].body["tools"])


@pytest.mark.skipif(os.name != "posix", reason="it is killed")
async def test_mcp_servers_end_with_a_killed_gateway(tmp_path: Path, mine: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    server = (
        f"mcp_servers: {{small: {{command: {sys.executable}, args: [-S, {PROGRAM}, stays, '{mine}']}}}}\n"
    )
    async with (
        open_model_server() as model,
        open_loopback(traits=Traits(edits=True, takes_keys_for=FOR_EVER)) as platform,
    ):
        (home / "config.yaml").write_text(CONFIG.format(port=platform.port, model=model.openai_url) + server)
        environ = {name: value for name, value in os.environ.items() if name != "INVOCATION_ID"}
        gateway = await trio.lowlevel.open_process(
            [sys.executable, "-m", "hermes_trio", "run"],
            env={**environ, "HERMES_HOME": str(home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            await until(lambda: len(alive(mine)) == 2, within=PATIENCE)
            gateway.send_signal(signal.SIGKILL)
            await until(lambda: not alive(mine), within=20)
        finally:
            gateway.kill()
            with trio.move_on_after(10, shield=True):
                await gateway.wait()


def _words(pid: int) -> list[str]:
    import psutil

    try:
        return psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return []
