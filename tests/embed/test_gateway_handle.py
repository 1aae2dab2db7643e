"""The handle of a gateway: a program says, follows, stops and reads, on every loop in the same way."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
import trio

from hermes_trio import (
    ApprovalRequest,
    Gateway,
    GatewayError,
    MessageDelta,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunUnanswered,
    SessionSource,
    Turn,
    open_gateway,
)
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Agent, everyone

from .hosts import EVERY_HOST, Host

pytestmark = pytest.mark.parametrize("host", EVERY_HOST)


async def left(agent: Agent, times: int = 1) -> list[str]:
    """Wait until the agent has left this number of turns; return how it left them."""
    with anyio.fail_after(10):
        while len(agent.left) < times:  # noqa: ASYNC110 - the agent is on another loop
            await anyio.sleep(0.005)
    return [how for _, how, _ in agent.left]


async def begun(agent: Agent) -> None:
    """Wait until the agent has begun a turn."""
    with anyio.fail_after(10):
        while not agent.began:  # noqa: ASYNC110 - the agent is on another loop
            await anyio.sleep(0.005)


def test_a_message_is_answered_and_the_session_is_kept(host: Host, tmp_path: Path) -> None:
    async def main() -> None:
        async with open_gateway(tmp_path, agent=Agent()) as gateway:
            assert await gateway.say("first", "hello") == "You said: hello"
            assert await gateway.say("first", "again") == "You said: again"
            assert await gateway.say("second", "hello") == "You said: hello"
            rows = [(row.role, row.content) for row in await gateway.history("first")]
            assert rows == [
                ("user", "hello"),
                ("assistant", "You said: hello"),
                ("user", "again"),
                ("assistant", "You said: again"),
            ]
            assert await gateway.history("unknown") == ()
            assert [entry.session_id for entry in await gateway.sessions()] == ["second", "first"]
            assert 'hermes_turns_total{outcome="answered"} 3.0' in await gateway.metrics()
            assert gateway.status().gateway_state == "running"

    host(main)


def test_the_chat_of_a_platform_gets_the_answer_too(host: Host, tmp_path: Path) -> None:
    platform = MemoryPlatform()
    chat = SessionSource(platform="memory", chat_id="42", user_id="42")

    async def main() -> None:
        async with open_gateway(tmp_path, everyone(), agent=Agent(), adapters=[platform]) as gateway:
            assert await gateway.say(chat, "hello") == "You said: hello"
            assert [row.content for row in await gateway.history(chat)] == ["hello", "You said: hello"]
            with pytest.raises(GatewayError, match="not connected"):
                await gateway.say(SessionSource(platform="elsewhere", chat_id="1"), "hello")
            with pytest.raises(GatewayError, match="session id"):
                await gateway.say("../elsewhere", "hello")
        assert platform.chat("42").texts == ["You said: hello"]

    host(main)


def test_the_events_of_a_run_come_in_order_and_end(host: Host, tmp_path: Path) -> None:
    agent = Agent()
    agent.on("count", Script().says("1 ").says("2 ").says("3"))

    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway:
            async with gateway.run("count") as run:
                events = [event async for event in run]
                assert [event.delta for event in events if isinstance(event, MessageDelta)] == [
                    "1 ",
                    "2 ",
                    "3",
                ]
                assert events[-1] == RunCompleted("1 2 3")
                assert [event async for event in run] == []
            async with gateway.run("hello", session=run.session) as other:
                assert await other.result() == "You said: hello"
            assert len(await gateway.history(run.session)) == 4

    host(main)


async def fail_in_block(gateway: Gateway) -> None:
    """Raise an error in the block of a run that goes on."""
    async with gateway.run("hang", session="one") as run:
        await anext(run)
        raise KeyError("mine")


def test_leaving_the_block_ends_the_run(host: Host, tmp_path: Path) -> None:
    agent = Agent()
    agent.on("hang", Script().says("I begin.").hangs())

    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway:
            async with gateway.run("hang", session="one") as run:
                async for event in run:
                    assert event == MessageDelta("I begin.")
                    break
            assert await left(agent) == ["cancelled"]
            assert gateway.status().active_turns == 0
            with pytest.raises(KeyError, match="mine"):
                await fail_in_block(gateway)
            assert await left(agent, 2) == ["cancelled"] * 2
            with anyio.move_on_after(0.2):
                async with gateway.run("hang", session="one") as run:
                    await run.result()
            assert await left(agent, 3) == ["cancelled"] * 3
            assert await gateway.say("one", "hello") == "You said: hello"

    host(main)


def test_a_run_that_waits_is_dropped_when_its_block_is_left(host: Host, tmp_path: Path) -> None:
    agent = Agent()
    agent.on("hang", Script().hangs())

    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway:
            async with gateway.run("hang", session="one"):
                await begun(agent)
                async with gateway.run("second", session="one"):
                    pass
            assert await gateway.say("one", "hello") == "You said: hello"
            assert [text for text, _ in agent.began] == ["hang", "hello"]

    host(main)


def test_a_message_is_answered_after_its_caller_is_gone(host: Host, tmp_path: Path) -> None:
    agent, caller_is_gone = Agent(), trio.Event()

    async def answer_late(turn: Turn) -> str:
        await caller_is_gone.wait()
        return "Done."

    agent.does("slow", answer_late)

    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(gateway.say, "one", "slow")
                await begun(agent)
                tasks.cancel_scope.cancel()
            caller_is_gone.set()
            assert await left(agent) == ["answered"]
            assert await gateway.say("one", "hello") == "You said: hello"
            assert [row.content for row in await gateway.history("one")][:2] == ["slow", "Done."]

    host(main)


def test_a_run_without_an_answer_raises_an_error_with_its_code(host: Host, tmp_path: Path) -> None:
    agent = Agent()
    agent.on("fail", Script().raises(OSError("the disk is gone")))
    agent.on("hang", Script().says("I begin.").hangs())
    ends: list[object] = []

    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway:
            with pytest.raises(RunUnanswered, match="the disk is gone") as failed:
                await gateway.say("one", "fail")
            assert failed.value.code == "failed"
            async with gateway.run("hang") as run:
                async for event in run:
                    ends.append(event)
                    if isinstance(event, MessageDelta):
                        gateway.stop()
            await anyio.sleep(3600)

    host(main)
    assert isinstance(ends[-1], RunFailed)
    assert ends[-1].code == "interrupted"


def test_the_program_answers_the_questions_of_a_run(host: Host, tmp_path: Path) -> None:
    async def agent(turn: Turn) -> str:
        return str(await turn.may("rm -r build"))

    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway, gateway.run("clean") as run:
            async for event in run:
                if isinstance(event, ApprovalRequest):
                    assert event.command == "rm -r build"
                    assert not await run.answer("unknown", "once")
                    assert not await run.answer(event.approval_id, "perhaps")
                    assert await run.answer(event.approval_id, "once")
                elif isinstance(event, RunCompleted):
                    assert event.output == "once"
            assert not await run.answer("unknown", "once")

    host(main)


def test_a_follower_that_is_slower_than_the_run_gets_every_event(host: Host, tmp_path: Path) -> None:
    async def agent(turn: Turn) -> None:
        for number in range(5000):  # more than the list of a subscriber holds
            await turn.say(f"{number} ")

    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway:
            async with gateway.run("count", session="one") as run:
                with anyio.fail_after(50):
                    while len(await gateway.history("one")) < 2:  # noqa: ASYNC110 - until it has ended
                        await anyio.sleep(0.05)
                text = "".join([event.delta async for event in run if isinstance(event, MessageDelta)])
            assert text == "".join(f"{number} " for number in range(5000))

    host(main)


def test_a_run_that_another_one_stops_is_cancelled(host: Host, tmp_path: Path) -> None:
    agent = Agent()
    agent.on("hang", Script().hangs())
    platform = MemoryPlatform()
    chat = SessionSource(platform="memory", chat_id="42", user_id="42")

    async def main() -> None:
        opened = open_gateway(tmp_path, everyone(), agent=agent, adapters=[platform])
        async with opened as gateway, gateway.run("hang", session=chat) as run:
            await begun(agent)
            platform.deliver(platform.event("/stop"))
            with anyio.fail_after(10):
                assert [event async for event in run] == [RunCancelled()]

    host(main)
