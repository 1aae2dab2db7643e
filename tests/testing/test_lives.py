"""A gateway in memory, for tests of programs that embed one: what its clock waits for, and what it leaves."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import psutil
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

from hermes_trio import (
    AsyncioTurn,
    BlockingTurn,
    GatewayConfig,
    PlatformConfig,
    RunUnanswered,
    Turn,
    asyncio_agent,
    blocking_agent,
)
from hermes_trio.testing import ClockNotVirtual, Lives, MemoryPlatform, Script, life, perform
from tests.embed.hosts import HOSTS as ALL_HOSTS
from tests.embed.hosts import Host
from tests.stage import Agent


def on_trio(main: Callable[[], Awaitable[object]]) -> None:
    trio.run(main, clock=MockClock(autojump_threshold=0))


HOSTS = [host for host in ALL_HOSTS if host.id in ("asyncio", "uvloop")]
EVERY_HOST = [pytest.param(on_trio, id="trio"), *HOSTS]


@pytest.mark.parametrize("host", EVERY_HOST)
def test_an_hour_of_the_gateway_takes_no_time(host: Host) -> None:
    async def work_for_long(turn: Turn) -> str:
        return await perform(Script().says("I work. ", seconds=600).says("Done.", seconds=600), turn)

    async def main() -> None:
        async with life(work_for_long) as tried:
            await tried.says("hello")
            await tried.until(lambda: "I work. Done." in tried.chat().texts)
            begin, end = tried.platform.history[0].at, tried.platform.history[-1].at
            assert 1200 <= end - begin < 1300
            assert await tried.gateway.say("first", "hello") == "I work. Done."

    began = time.monotonic()
    host(main)
    assert time.monotonic() - began < 600


@pytest.mark.parametrize("host", HOSTS)
def test_the_clock_stands_still_while_the_program_works(host: Host) -> None:
    async def main() -> None:
        async with life(Agent()) as tried:
            before = trio.current_time()
            for _ in range(3):
                await asyncio.sleep(0.01)
                assert trio.current_time() == before
            await tried.passes(hours=2)
            assert trio.current_time() == before + 7200

    host(main)


@asyncio_agent
async def asyncio_answer(turn: AsyncioTurn) -> str:
    await asyncio.sleep(0.02)
    await turn.say("Wait. ")
    await asyncio.sleep(0.02)
    return f"You said: {turn.prompt}"


@blocking_agent
def blocking_answer(turn: BlockingTurn) -> str:
    time.sleep(0.02)  # noqa: ASYNC251 - it runs in a thread
    turn.say("Wait. ")
    time.sleep(0.02)  # noqa: ASYNC251
    return f"You said: {turn.prompt}"


@pytest.mark.parametrize(
    ("host", "agent"),
    # On Trio the waits of an agent on asyncio are Trio's own: tests/embed/test_asyncio_on_trio.py
    [pytest.param(on_trio, blocking_answer, id="trio-blocking")]
    + [
        pytest.param(*host.values, agent, id=f"{host.id}-{name}")
        for host in HOSTS
        for name, agent in (("asyncio", asyncio_answer), ("blocking", blocking_answer))
    ],
)
def test_the_clock_waits_for_agents_outside_of_trio(host: Host, agent: object) -> None:
    async def main() -> None:
        async with life(agent) as tried:  # type: ignore[arg-type]
            answers = [await tried.gateway.say(one, one) for one in ("first", "second")]
            assert answers == ["You said: first", "You said: second"]  # else the turn is too long
            assert trio.current_time() < 60

    host(main)


@pytest.mark.parametrize("host", HOSTS)
def test_the_clock_runs_while_an_agent_outside_of_trio_waits_for_a_person(host: Host) -> None:
    @asyncio_agent
    async def ask(turn: AsyncioTurn) -> str:
        return str(await turn.ask("Which one?", within=600))

    async def main() -> None:
        async with life(ask) as tried:
            assert await tried.gateway.say("first", "hello") == "None"
            assert 600 <= trio.current_time() < 700

    host(main)


@pytest.mark.parametrize("host", EVERY_HOST)
def test_a_cut_turn_is_resumed_in_the_next_life(host: Host, tmp_path: Path) -> None:
    agent = Agent()
    agent.on("hang", Script().says("I begin.").hangs())

    async def main() -> None:
        lives = Lives(tmp_path / "home")
        async with lives(agent) as tried:
            await tried.says("hang")
            await tried.passes(minutes=1)
        async with lives(agent) as tried:
            await tried.passes(minutes=1)

    host(main)
    assert [said for said, _ in agent.began] == ["hang", "hang"]
    assert agent.began[0][1] + 60 <= agent.began[1][1]  # the second life goes on with the time of the first


@pytest.mark.parametrize("host", EVERY_HOST)
def test_the_end_of_a_gateway_takes_no_time_although_a_turn_resists(host: Host) -> None:
    agent = Agent()
    agent.on("hang", Script().says("I begin.").hangs(resists=3))

    async def main() -> None:
        async with life(agent) as tried:
            await tried.says("hang")
            await tried.passes(minutes=1)
            tried.gateway.stop(grace=1000)
            await tried.passes(days=1)
            pytest.fail("the block goes on")

    host(main)
    assert [how for _, how, _ in agent.left] == ["cancelled"]


@pytest.mark.parametrize("host", EVERY_HOST)
def test_nothing_is_left_of_a_life(host: Host) -> None:
    homes: list[Path] = []
    me = psutil.Process()

    async def main() -> None:
        async with life(Agent()) as tried:
            homes.append(tried.gateway.home)
            assert await tried.gateway.say("first", "hello") == "You said: hello"
            assert me.children(recursive=True) == children
            names = {one.name for one in threading.enumerate() if one not in threads}
            assert {name for name in names if not name.startswith("Trio thread")} == set()

    host(partial(anyio.sleep, 0))
    children, threads = me.children(recursive=True), set(threading.enumerate())
    host(main)
    assert not homes[0].exists()


@pytest.mark.parametrize("host", EVERY_HOST)
def test_a_configuration_is_obeyed(host: Host) -> None:
    platform = MemoryPlatform()
    config = GatewayConfig(platforms={"memory": PlatformConfig(allow_from=("1",))})

    async def main() -> None:
        async with life(Agent(), config, platform=platform) as tried:
            await tried.says("hello", chat="1")
            await tried.until(lambda: tried.chat("1").last == "You said: hello")
            await tried.says("hello", chat="2")
            await tried.passes(minutes=10)
            assert "You said: hello" not in tried.chat("2").texts
            with pytest.raises(trio.TooSlowError):
                await tried.until(lambda: "You said: hello" in tried.chat("2").texts)

    host(main)


def test_a_run_of_trio_with_a_real_clock_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(ClockNotVirtual, match="autojump_threshold=0"):
            async with life(Agent()):
                pytest.fail("it is open")

    trio.run(main)


@pytest.mark.parametrize("host", EVERY_HOST)
def test_a_turn_that_does_nothing_is_ended_after_half_an_hour(host: Host) -> None:
    agent = Agent()
    agent.on("hang", Script().says("I begin.").hangs())

    async def main() -> None:
        async with life(agent) as tried:
            with pytest.raises(RunUnanswered, match="30 min"):
                await tried.gateway.say("first", "hang")

    host(main)


@pytest.mark.parametrize("host", HOSTS)
def test_lives_side_by_side_share_a_clock(host: Host, tmp_path: Path) -> None:
    async def main() -> None:
        one, two = Lives(tmp_path / "one"), Lives(tmp_path / "two")
        async with one(Agent()) as first, two(Agent()) as second:
            answers = await asyncio.gather(first.gateway.say("a", "one"), second.gateway.say("a", "two"))
            assert list(answers) == ["You said: one", "You said: two"]
            before = trio.current_time()
            await asyncio.sleep(0.01)
            assert trio.current_time() == before

    host(partial(main))
