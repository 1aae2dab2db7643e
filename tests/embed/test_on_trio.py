"""The gateway inside another program: it runs for the time of a block, and leaves nothing behind."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import trio
import trio.testing

from hermes_trio.base.errors import AgentInvalid, ConfigInvalid, HomeBusy
from hermes_trio.config.schema import GatewayConfig, WebConfig
from hermes_trio.embed.embedding import open_gateway, serve
from hermes_trio.embed.shielded_tree import LEFT
from hermes_trio.gateway.ending.endings_table import MARGIN
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.platform.contract import CredentialsRefused, Traits
from hermes_trio.testing import MemoryPlatform, Script
from hermes_trio.web.app import Web
from tests.stage import Agent, Stage, everyone, no_guard


async def test_a_gateway_serves_as_long_as_its_block(tmp_path: Path) -> None:
    platform = MemoryPlatform()
    before = signal.getsignal(signal.SIGTERM), logging.getLogger().handlers[:]
    async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[platform]):
        assert (signal.getsignal(signal.SIGTERM), logging.getLogger().handlers) == before
        await platform.says("hello")
        with trio.fail_after(10):
            await platform.until(lambda: platform.chat("42").texts == ["You said: hello"])
    assert not platform.connected


async def test_two_gateways_in_one_program_are_independent(tmp_path: Path) -> None:
    one, two = MemoryPlatform(), MemoryPlatform()
    async with (
        open_gateway(tmp_path / "one", everyone(), agent=Agent(), adapters=[one]),
        open_gateway(tmp_path / "two", everyone(), agent=Agent(), adapters=[two]),
    ):
        await one.says("first")
        await two.says("second")
        with trio.fail_after(10):
            await one.until(lambda: one.chat("42").last == "You said: first")
            await two.until(lambda: two.chat("42").last == "You said: second")


async def test_a_gateway_whose_agent_starts_nothing_has_no_process(tmp_path: Path) -> None:
    me = psutil.Process()
    before = me.children(recursive=True)
    async with open_gateway(tmp_path, agent=Agent()) as gateway:
        assert await gateway.say("first", "hello") == "You said: hello"
        assert me.children(recursive=True) == before


async def test_platforms_that_all_refuse_leave_the_program_its_gateway(tmp_path: Path) -> None:
    platform = MemoryPlatform()
    platform.fails("connect", CredentialsRefused("memory"))
    async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[platform]) as gateway:
        with trio.fail_after(10):
            while not any(one.state == "fatal" for one in gateway.status().platforms.values()):  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert await gateway.say("first", "hello") == "You said: hello"
        assert gateway.ending is None


async def test_a_cancelled_block_cuts_turns_and_closes_their_messages(stage: Stage) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    with trio.move_on_after(5):
        async with open_gateway(
            stage.home,
            stage.config,
            agent=stage.agent,
            adapters=[stage.platform],
            world=stage.world,
            worker=inline_worker,
            guarded=no_guard,
        ):
            await stage.says("hang")
            await trio.sleep_forever()
    assert trio.current_time() == 5
    assert stage.entry().resume_reason == "shutdown_timeout"
    assert stage.platform.chat("42").texts[0] == "I begin.\n\n(interrupted)"


async def test_a_cancelled_gateway_with_hanging_parts_ends_within_its_margin(stage: Stage) -> None:
    stage.platform = MemoryPlatform(traits=Traits(edits=True))
    stage.agent.on("hang", Script().says("I begin.").hangs(resists=60))
    async with trio.open_nursery() as nursery:
        await nursery.start(
            lambda task_status: serve(
                stage.home,
                stage.config,
                agent=stage.agent,
                adapters=[stage.platform],
                world=stage.world,
                worker=inline_worker,
                guarded=no_guard,
                task_status=task_status,
            )
        )
        await stage.says("hang")
        stage.platform.hangs("send", times=100)
        stage.platform.hangs("edit", times=100)
        stage.platform.disconnect_takes = 60
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    # The shield of an agent cannot be broken from outside; all tasks of the gateway have ended by then.
    assert trio.current_time() <= 1 + 60 + MARGIN


def test_a_gateway_runs_under_anyio(tmp_path: Path) -> None:
    program = f"""
import anyio, pathlib
from hermes_trio.embed.embedding import open_gateway, serve
from hermes_trio.testing import MemoryPlatform
from hermes_trio.config.schema import GatewayConfig, PlatformConfig

async def agent(turn):
    return "answered under anyio"

async def main():
    platform = MemoryPlatform()
    config = GatewayConfig(platforms={{"memory": PlatformConfig(allow_from="all")}})
    home = pathlib.Path({str(tmp_path / "home")!r})
    async with open_gateway(home, config, agent=agent, adapters=[platform]):
        await platform.says("hello")
        with anyio.fail_after(10):
            await platform.until(lambda: platform.chat("42").last is not None)
        print(platform.chat("42").last)

anyio.run(main, backend="trio")
"""
    pytest.importorskip("anyio")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert done.stdout.splitlines()[-1:] == ["answered under anyio"], done.stderr


async def test_the_end_of_the_gateway_ends_the_block(tmp_path: Path) -> None:
    platform = MemoryPlatform()
    with trio.fail_after(20):
        async with open_gateway(str(tmp_path), everyone(), agent=Agent(), adapters=[platform]) as gateway:
            await platform.says("hello")
            gateway.stop(asked_by="the admin")
            await trio.sleep(3600)
    assert gateway.ending is not None
    assert (gateway.ending.kind, gateway.ending.asked_by) == ("stop", "the admin")
    assert not platform.connected


async def test_a_host_that_asks_for_a_restart_opens_the_next_gateway(tmp_path: Path) -> None:
    platform = MemoryPlatform()
    with trio.fail_after(20):
        async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[platform]) as gateway:
            gateway.stop(restart=True)
            await trio.sleep(3600)
    assert gateway.ending is not None
    assert gateway.ending.kind == "restart"
    async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[platform]) as gateway:
        await platform.says("hello")
        with trio.fail_after(10):
            await platform.until(lambda: platform.chat("42").last == "You said: hello")
    assert gateway.ending is not None
    assert gateway.ending.asked_by == LEFT


async def test_a_restart_requested_in_a_chat_is_refused_with_a_message(tmp_path: Path) -> None:
    platform = MemoryPlatform()
    async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[platform]) as gateway:
        await platform.says("/restart")
        with trio.fail_after(10):
            await platform.until(lambda: "part of another program" in (platform.chat("42").last or ""))
        await platform.says("hello")
        with trio.fail_after(10):
            await platform.until(lambda: platform.chat("42").last == "You said: hello")
        assert gateway.ending is None
    assert not (tmp_path / ".restart_notify.json").exists()


async def test_a_restart_requested_by_http_is_refused(tmp_path: Path) -> None:
    web = Web(GatewayConfig(web=WebConfig(port=0, key="the-key")))
    opened = open_gateway(
        tmp_path, everyone(), agent=Agent(), adapters=[MemoryPlatform(), web.platform], doors=[web.door]
    )
    headers = {"authorization": "Bearer the-key"}
    with trio.fail_after(20):
        async with opened as gateway, httpx.AsyncClient(headers=headers) as client:
            answer = await client.post(f"{web.address}/api/admin/restart")
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "embedded")
            assert gateway.ending is None
            assert (await client.post(f"{web.address}/api/admin/stop")).status_code == 202
            await trio.sleep(3600)


def blocking(turn: object) -> str:
    return "hello"


@asynccontextmanager
async def opened_blocking() -> AsyncIterator[Any]:
    yield blocking


@pytest.mark.parametrize(
    "agent",
    [blocking, partial(blocking), lambda turn: "hello", "hello", Agent, opened_blocking()],
)
async def test_an_agent_that_is_not_async_is_refused_at_opening(tmp_path: Path, agent: Any) -> None:
    with pytest.raises(AgentInvalid, match="async def"):
        async with open_gateway(tmp_path, everyone(), agent=agent, adapters=[MemoryPlatform()]):
            pytest.fail("it is open")


class Methods:
    async def answer(self, turn: TurnContext) -> str:
        return f"You said: {turn.prompt}"


@pytest.mark.parametrize("agent", [Methods().answer, partial(Methods.answer, Methods())])
async def test_any_async_callable_is_an_agent(tmp_path: Path, agent: Any) -> None:
    platform = MemoryPlatform()
    async with open_gateway(tmp_path, everyone(), agent=agent, adapters=[platform]):
        await platform.says("hello")
        with trio.fail_after(10):
            await platform.until(lambda: platform.chat("42").last == "You said: hello")


async def test_an_adapter_that_the_configuration_does_not_name_is_refused_at_opening(tmp_path: Path) -> None:
    platform = MemoryPlatform()
    with pytest.raises(ConfigInvalid, match=r"platforms\.memory: .* allow_from"):
        async with open_gateway(tmp_path, GatewayConfig(), agent=Agent(), adapters=[platform]):
            pytest.fail("it is open")
    assert not platform.connected


async def test_an_exception_of_the_block_is_raised_unchanged(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[MemoryPlatform()]):
            raise KeyError("mine")


async def test_a_home_in_use_raises_home_busy(tmp_path: Path) -> None:
    async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[MemoryPlatform()]):
        with pytest.raises(HomeBusy):
            async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[MemoryPlatform()]):
                pytest.fail("it is open")


async def test_a_gateway_serves_as_a_task_of_a_nursery(tmp_path: Path) -> None:
    async with trio.open_nursery() as nursery:
        gateway = await nursery.start(partial(serve, tmp_path, agent=Agent()))
        assert await gateway.say("one", "hello") == "You said: hello"
        nursery.cancel_scope.cancel()
    assert gateway.ending is not None
    assert gateway.ending.asked_by == LEFT
