"""MCP servers: their tools are used like any other; a broken server is reported and costs only its own tools;
no process, file or task of a server is left."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import trio

from hermes_trio.base.world import World
from hermes_trio.config.schema import GatewayConfig, McpServerConfig, McpToolsConfig
from hermes_trio.host.loop.task_tree import task_tree
from hermes_trio.tools.mcp.mcp_servers import CONNECTS_WITHIN, ToolServers, open_servers
from hermes_trio.tools.mcp.offered_tools import name_of
from hermes_trio.tools.tool import LONGEST_RESULT, Tool, ToolFailed
from tests.host.children.kinds import alive, soon, token, until
from tests.tools.desk import Desk, desk_in
from tests.tools.mcp.address import Address, address

pytestmark = pytest.mark.timeout(120)

PROGRAM = str(Path(__file__).with_name("program.py"))
PATIENCE = 40.0


@dataclass
class Shop:
    """Servers of tools, and the reports about them."""

    servers: ToolServers
    desk: Desk
    told: list[str] = field(default_factory=list)

    async def tool(self, name: str) -> Tool:
        with trio.fail_after(PATIENCE):
            while name not in (tools := await self.servers.tools()):  # noqa: ASYNC110 - the tool may appear later
                await trio.sleep(0.02)
        return tools[name]

    async def use(self, name: str, word: str = "cat") -> str:
        with trio.fail_after(PATIENCE):
            return (await self.desk.use(await self.tool(name), word=word)).content

    async def works_again(self, name: str) -> None:
        """Wait until the tool works; it may take a moment."""
        refused = None
        with trio.fail_after(PATIENCE):
            while True:
                try:
                    assert await self.use(name) == "c-a-t"
                    break
                except ToolFailed as error:
                    refused = error
                await trio.sleep(0.05)
        assert (
            refused is None or "It is tried again automatically" in str(refused) or "failed" in str(refused)
        )

    async def refused(self, name: str, word: str = "cat") -> str:
        with pytest.raises(ToolFailed) as refused:
            await self.use(name, word)
        return str(refused.value)


def program(how: str = "well", mark: str = "0", **more: object) -> McpServerConfig:
    return McpServerConfig(command=sys.executable, args=("-S", PROGRAM, how, mark), **more)  # type: ignore[arg-type]


@asynccontextmanager
async def shop(
    tmp_path: Path, *, connects_within: float = CONNECTS_WITHIN, **configured: McpServerConfig
) -> AsyncIterator[Shop]:
    config = GatewayConfig(mcp_servers=configured)
    desk, told = desk_in(tmp_path), list[str]()
    desk.config = config
    redact = lambda text: text.replace("secret", "***")  # noqa: E731
    async with open_servers(
        config, desk.home, World(), redact=redact, tell=told.append, connects_within=connects_within
    ) as servers:
        assert servers is not None
        yield Shop(servers, desk, told)


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[str]:
    """A number that all processes of the test carry; none of them may be left after it."""
    yield (number := token())
    soon(lambda: not alive(number), within=20)


@pytest.fixture
def far() -> Iterator[Address]:
    with address() as server:
        yield server


def at(server: Address, **more: object) -> McpServerConfig:
    headers = {"Authorization": server.key}
    return McpServerConfig(url=server.url, headers=headers, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tools", "spells"),
    [
        (McpToolsConfig(exclude=("spell",)), False),
        (McpToolsConfig(include=("fail",)), False),
        (McpToolsConfig(include=("fail", "spell"), exclude=("spell",)), True),
        (McpToolsConfig(exclude=("another",)), True),
    ],
)
async def test_only_the_configured_tools_of_a_server_are_offered(
    tmp_path: Path, mine: str, tools: McpToolsConfig, spells: bool
) -> None:
    async with shop(tmp_path, small=program("well", mine, tools=tools)) as here:
        await here.tool("mcp__small__fail")  # the server is connected
        assert ("mcp__small__spell" in await here.servers.tools()) is spells


async def test_a_tool_of_a_server_program_is_used_like_any_tool(tmp_path: Path, mine: str) -> None:
    async with shop(tmp_path, small=program("chatty", mine)) as here:
        spell = await here.tool("mcp__small__spell")
        assert spell.parameters["properties"] == {"word": {"type": "string"}}
        assert spell.reads_only
        assert spell.untrusted
        assert not (await here.tool("mcp__small__fail")).reads_only
        assert await here.use("mcp__small__spell") == "c-a-t"
        assert (await here.desk.use(await here.tool("mcp__small__fail"), word="no")).is_error
        assert await here.use("mcp__small__picture") == (
            "[image, image/png, 3 bytes: it cannot be shown here]"
        )
        assert here.told == []
        assert await here.servers.tools() is await here.servers.tools(), (
            "the same object, so that requests to the model begin with the same text"
        )


async def test_a_tool_of_a_server_address_is_used_like_any_tool(tmp_path: Path, far: Address) -> None:
    async with shop(tmp_path, far=at(far)) as here:
        assert await here.use("mcp__far__spell") == "c-a-t"
    assert far.ended == ["session-1"], "the session was closed"


def test_no_two_server_tools_have_the_same_name() -> None:
    pairs = [("a", "b"), ("a", "b_c"), ("a_b", "c"), ("a", "_b__c"), ("a__b", "c"), ("a_", "b"), ("a", "_b")]
    pairs += [("a b", "c"), ("a.b", "c"), ("a", "b c"), ("a", "b.c"), ("a", "x" * 80), ("a", "x" * 81)]
    pairs += [("", "b"), ("ä", "b"), ("ö", "b")]
    names = [name_of(*pair) for pair in pairs]
    assert len(set(names)) == len(names)
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isascii() for name in names)


async def test_a_broken_server_is_reported_and_costs_only_its_own_tools(
    tmp_path: Path, mine: str, far: Address
) -> None:
    async with shop(
        tmp_path,
        connects_within=2.0,
        good=program("well", mine),
        dead=program("dies", mine),
        mute=program("mute", mine),
        none=McpServerConfig(command="no-such-program-secret"),
        nothing=McpServerConfig(),
        stranger=McpServerConfig(url=far.url),
        nobody=McpServerConfig(url="http://127.0.0.1:9/mcp"),
        off=program("dies", mine, enabled=False),
    ) as here:
        assert await here.use("mcp__good__spell") == "c-a-t"
        with trio.fail_after(PATIENCE):
            while len(here.told) < 6:  # noqa: ASYNC110
                await trio.sleep(0.02)
        assert {name for name in await here.servers.tools() if not name.startswith("mcp__good__")} == set()
    said = {text.split("'")[1]: text for text in here.told}
    assert "either a command or a url" in said["nothing"]
    assert "no-such-program-***: there is no such command. Install it" in said["none"]
    assert "it was not ready in 2 s" in said["mute"]
    assert "mcp-dead.log" in said["dead"]
    assert "status 401; check its url and headers" in said["stranger"]
    assert set(said) == {"dead", "mute", "none", "nothing", "stranger", "nobody"}
    assert "I cannot find my library." in (here.desk.home / "logs/mcp-dead.log").read_text()


async def test_a_server_that_exits_is_started_again(tmp_path: Path, mine: str) -> None:
    async with shop(tmp_path, small=program("well", mine)) as here:
        assert "is not known" in await here.refused("mcp__small__die")
        await here.works_again("mcp__small__spell")


@pytest.mark.skipif(os.name != "posix", reason="the test kills by a signal")
async def test_a_killed_server_is_started_again_before_the_next_call(tmp_path: Path, mine: str) -> None:
    async with shop(tmp_path, small=program("well", mine)) as here:
        await here.tool("mcp__small__spell")
        (first,) = alive(mine)
        os.kill(first, signal.SIGKILL)
        await until(lambda: alive(mine) not in ([], [first]), within=PATIENCE)
        await here.works_again("mcp__small__spell")


async def test_a_server_address_that_lost_our_session_gets_a_new_one(tmp_path: Path, far: Address) -> None:
    async with shop(tmp_path, far=at(far)) as here:
        assert await here.use("mcp__far__spell") == "c-a-t"
        far.sessions.clear()
        await here.refused("mcp__far__spell")
        await until(lambda: far.began == 2, within=PATIENCE)
        await here.works_again("mcp__far__spell")


async def test_new_tools_of_a_running_server_are_offered(tmp_path: Path, mine: str) -> None:
    mark = str(tmp_path / mine)
    async with shop(tmp_path, small=program("well", mark)) as here:
        before = await here.servers.tools()
        await here.use("mcp__small__grow")
        assert await here.use("mcp__small__grown") == "c-a-t"
        assert await here.servers.tools() is not before


async def test_a_tool_change_of_a_server_with_the_2026_protocol_is_noticed(tmp_path: Path, mine: str) -> None:
    mark = str(tmp_path / mine)
    async with shop(tmp_path, small=program("modern", mark)) as here:
        assert await here.use("mcp__small__spell") == "c-a-t"
        await here.use("mcp__small__grow")
        assert await here.use("mcp__small__grown") == "c-a-t"


async def test_a_server_that_writes_without_end_slows_nobody_down(tmp_path: Path, mine: str) -> None:
    """Its lines are read so slowly that its pipe is full and it has to wait."""
    async with shop(
        tmp_path, good=program("well", mine), endless=program("yes", mine), late=program("well", mine)
    ) as here:
        for _ in range(50):
            assert await here.use("mcp__good__spell") == "c-a-t"
        await here.use("mcp__late__flood")
        await trio.sleep(1.0)  # until the flood has started
        for _ in range(50):
            assert await here.use("mcp__good__spell") == "c-a-t"
        if not hasattr(psutil.Process, "io_counters"):
            return
        writers = [psutil.Process(pid) for pid in alive(mine)]
        endless = next(one for one in writers if "yes" in one.cmdline())
        before = endless.io_counters().write_count
        await trio.sleep(1.0)
        assert endless.io_counters().write_count - before < 20, "each write holds a thousand lines"


async def test_a_server_result_of_megabytes_is_cut_before_it_is_masked(tmp_path: Path, mine: str) -> None:
    secret = "sk-" + "0123456789abcdef" * 4
    async with shop(tmp_path, small=program("well", mine)) as here:
        for padding in range(0, 60, 7):
            said = await here.use("mcp__small__big", "-" * padding + f" {secret} ")
            assert len(said) < LONGEST_RESULT
            assert said.startswith("BEGINNING ")
            assert said.endswith("END")
            assert "something is left out here" in said
            for at in range(0, len(secret) - 12, 4):
                assert secret[at : at + 12] not in said, "no part of it, on either side of the cut"


async def test_the_first_turn_does_not_wait_for_a_server_without_an_answer(tmp_path: Path, mine: str) -> None:
    mute = program("mute", str(tmp_path / mine))
    async with shop(tmp_path, good=program("well", mine), mute=mute) as here:
        await here.tool("mcp__good__spell")
        with trio.fail_after(15):  # much less than `CONNECTS_WITHIN`
            assert "mcp__good__spell" in await here.servers.tools()
        assert here.servers.missing() == ["mute"]
        assert here.servers.missing() == [], "each server is named once"


async def test_a_server_gets_no_environment_of_ours_and_its_secrets_are_masked(
    tmp_path: Path, mine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-ours-0123456789abc")
    monkeypatch.setenv("HARMLESS", "of ours")
    config = program("well", mine, env={"ITS_TOKEN": "its-very-own-0815", "LEVEL": "high"})
    async with shop(tmp_path, small=config) as here:
        seen = json.loads(await here.use("mcp__small__environment"))
    assert seen["LEVEL"] == "high"
    assert "its-very-own" not in json.dumps(seen)
    assert "ITS_TOKEN" in seen
    assert "OPENAI_API_KEY" not in seen
    assert "HARMLESS" not in seen
    assert "PATH" in seen


async def test_a_program_starts_where_no_command_can_put_code(tmp_path: Path, mine: str) -> None:
    """`python -m` and `npx` load what lies in the directory in which they start."""
    (chosen := tmp_path / "chosen").mkdir()
    async with shop(
        tmp_path, small=program("well", mine), own=program("well", mine, cwd=str(chosen))
    ) as here:
        small = json.loads(await here.use("mcp__small__environment"))
        own = json.loads(await here.use("mcp__own__environment"))
        assert small["cwd"] == str(here.desk.home / "mcp")
        assert own["cwd"] == str(chosen)


async def test_a_server_message_over_the_limit_fails_the_call(tmp_path: Path, mine: str) -> None:
    async with shop(tmp_path, small=program("well", mine)) as here:
        await here.refused("mcp__small__long")


async def test_a_cancelled_call_returns_at_once_and_notifies_the_server(tmp_path: Path, mine: str) -> None:
    mark = str(tmp_path / mine)
    async with shop(tmp_path, small=program("well", mark)) as here:
        hang = await here.tool("mcp__small__hang")
        tasks = len(list(task_tree()))
        with trio.move_on_after(0.2) as patience:
            await here.desk.use(hang, word="cat")
        assert patience.cancelled_caught
        await until(Path(mark + ".cancelled").exists, within=PATIENCE)
        await until(lambda: len(list(task_tree())) <= tasks, within=PATIENCE)
        assert await here.use("mcp__small__spell") == "c-a-t"


async def test_a_hanging_server_address_delays_no_cancellation(tmp_path: Path, far: Address) -> None:
    async with shop(tmp_path, far=at(far)) as here:
        hang = await here.tool("mcp__far__hang")
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(lambda: here.desk.use(hang, word="cat"))
            await until(lambda: far.asked.count("tools/call") == 3, within=PATIENCE)
            left_at = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - left_at < 4, "less than the library would take to notify the server"
        await until(lambda: "notifications/cancelled" in far.asked, within=PATIENCE)
        left_at = trio.current_time()
    assert trio.current_time() - left_at < 4


@pytest.mark.skipif(os.name != "posix", reason="the server ignores a signal")
async def test_a_server_that_ignores_its_end_is_killed_with_its_descendants(
    tmp_path: Path, mine: str
) -> None:
    async with shop(tmp_path, small=program("stays", mine)) as here:
        assert await here.use("mcp__small__spell") == "c-a-t"
        await until(lambda: len(alive(mine)) == 2, within=PATIENCE)
    assert alive(mine) == []


@pytest.mark.skipif(not hasattr(psutil.Process, "num_fds"), reason="open files are not counted")
async def test_servers_leave_no_process_file_or_task(tmp_path: Path, mine: str, far: Address) -> None:
    for number, how in enumerate(["left", "left", "cancelled", "raised", "left"]):
        if number == 1:  # objects that are made once exist by now
            before = psutil.Process().num_fds(), len(list(task_tree()))
        (folder := tmp_path / str(number)).mkdir()
        with trio.CancelScope() as around, suppress(ZeroDivisionError):
            async with shop(folder, small=program("stays", mine), far=at(far)) as here:
                assert await here.use("mcp__small__spell") + await here.use("mcp__far__spell") == (
                    "c-a-tc-a-t"
                )
                if how == "cancelled":
                    around.cancel()
                    await trio.lowlevel.checkpoint()
                if how == "raised":
                    raise ZeroDivisionError
        assert alive(mine) == []
    await until(lambda: psutil.Process().num_fds() <= before[0], within=PATIENCE)
    assert len(list(task_tree())) <= before[1]
