"""A gateway in a program on asyncio: the same names and the same ends as on Trio."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from functools import partial
from pathlib import Path

import anyio
import psutil
import pytest
import trio

from hermes_trio.base.errors import AgentInvalid, HomeBusy
from hermes_trio.embed.embedding import open_gateway
from hermes_trio.embed.guest_run import join_guest
from hermes_trio.embed.shielded_tree import LEFT
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.platform.contract import Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Agent, everyone

from .hosts import HOSTS, Host

pytestmark = pytest.mark.parametrize("host", HOSTS)


async def says(platform: MemoryPlatform, text: str, answer: str) -> None:
    """Send a message as a person, and wait for the answer."""
    async with join_guest() as guest:
        await guest.call(partial(platform.says, text))
        with anyio.fail_after(10):
            await guest.call(partial(platform.until, lambda: platform.chat("42").last == answer))


def test_a_gateway_serves_as_long_as_its_block_and_leaves_nothing(host: Host, tmp_path: Path) -> None:
    platform = MemoryPlatform()
    me = psutil.Process()

    async def main() -> None:
        before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        logged, names = logging.getLogger().handlers[:], asyncio.all_tasks()
        async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[platform]):
            assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
            assert logging.getLogger().handlers == logged
            await says(platform, "hello", "You said: hello")
        assert not platform.connected
        assert not trio.lowlevel.in_trio_run()
        assert asyncio.all_tasks() == names

    host(lambda: asyncio.sleep(0))  # the files and threads that a loop keeps are open now
    files, threads = {one.path for one in me.open_files()}, set(threading.enumerate())
    children = me.children(recursive=True)
    host(main)
    assert {one.path for one in me.open_files()} == files
    assert me.children(recursive=True) == children
    kept = [one.name for one in threading.enumerate() if one not in threads]
    assert all(name.startswith("Trio thread") for name in kept), kept


def test_two_gateways_share_the_guest_and_a_home_in_use_is_refused(host: Host, tmp_path: Path) -> None:
    one, two = MemoryPlatform(), MemoryPlatform()

    async def main() -> None:
        async with (
            open_gateway(tmp_path / "one", everyone(), agent=Agent(), adapters=[one]),
            open_gateway(tmp_path / "two", everyone(), agent=Agent(), adapters=[two]),
        ):
            await says(one, "first", "You said: first")
            await says(two, "second", "You said: second")
            with pytest.raises(HomeBusy):
                async with open_gateway(tmp_path / "one", everyone(), agent=Agent(), adapters=[one]):
                    pytest.fail("it is open")
            await says(one, "third", "You said: third")

    host(main)


@pytest.mark.parametrize("native", [False, True])
def test_a_cancelled_block_cuts_its_turns(host: Host, tmp_path: Path, native: bool) -> None:
    platform, agent = MemoryPlatform(traits=Traits(edits=True)), Agent()
    agent.on("hang", Script().says("I begin.").hangs())

    async def hanging(opened: asyncio.Event) -> None:
        async with open_gateway(tmp_path, everyone(), agent=agent, adapters=[platform]):
            async with join_guest() as guest:
                await guest.call(partial(platform.says, "hang"))
                await guest.call(partial(platform.until, lambda: platform.chat("42").last is not None))
            opened.set()
            await asyncio.sleep(3600)

    async def main() -> None:
        opened = asyncio.Event()
        if native:
            task = asyncio.create_task(hanging(opened))
            await opened.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hanging, opened)
                await opened.wait()
                tasks.cancel_scope.cancel()

    host(main)
    assert [how for _, how, _ in agent.left] == ["cancelled"]
    assert platform.chat("42").texts[0] == "I begin.\n\n(interrupted)"


def test_an_exception_of_the_body_is_raised_bare(host: Host, tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(KeyError, match="mine"):
            async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[MemoryPlatform()]):
                raise KeyError("mine")

    host(main)


def test_the_end_of_the_gateway_ends_the_block(host: Host, tmp_path: Path) -> None:
    async def main() -> None:
        platform = MemoryPlatform()
        async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[platform]) as gateway:
            gateway.stop(restart=True, asked_by="the host")
            await asyncio.sleep(3600)
        assert gateway.ending is not None
        assert (gateway.ending.kind, gateway.ending.asked_by) == ("restart", "the host")
        async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[platform]) as gateway:
            await says(platform, "hello", "You said: hello")
        assert gateway.ending is not None
        assert gateway.ending.asked_by == LEFT

    host(main)


def test_an_agent_that_is_refused_is_refused_at_opening(host: Host, tmp_path: Path) -> None:
    def blocking(turn: TurnContext) -> str:
        return "hello"

    async def main() -> None:
        with pytest.raises(AgentInvalid, match="async def"):
            async with open_gateway(
                tmp_path,
                everyone(),
                agent=blocking,  # type: ignore[arg-type]
                adapters=[MemoryPlatform()],
            ):
                pytest.fail("it is open")

    host(main)
