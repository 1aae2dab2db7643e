"""A turn that waits for a person: no inactivity is counted meanwhile, and the end of the turn closes its
questions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
import trio

from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.outbound import texts
from hermes_trio.gateway.turn.context import TurnContext
from tests.disk import Disk
from tests.gateway.turns.asking import ask_approval, ask_twice, ask_which, let_agent_ask, requests
from tests.stage import Stage, everyone

# --- the inactivity clock --------------------------------------------------------------------------------


async def test_inactivity_is_counted_only_after_the_answer(
    stage: Stage,
) -> None:
    stage.config = everyone(
        AgentConfig(
            gateway_timeout=100, gateway_timeout_warning=60, gateway_notify_interval=0, clarify_timeout=3600
        )
    )
    got = let_agent_ask(stage, ask_which, then_takes=1000)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(500)
        assert stage.platform.chat("42").texts == ["Which one?"]
        await stage.says("blue")
        assert got == [("blue", 500.0)]
        await trio.sleep(59)
        assert stage.platform.chat("42").texts == ["Which one?"]
        await trio.sleep(2)
        assert stage.platform.chat("42").last == texts.inactive(60, 100)
        await trio.sleep(38)
        assert stage.outcomes() == [None]
        await trio.sleep(2)
        assert stage.outcomes() == ["timed_out"]


async def test_typing_and_progress_notices_pause_until_the_answer(stage: Stage) -> None:
    let_agent_ask(stage, ask_which, then_takes=100)
    stage.config = everyone(AgentConfig(gateway_notify_interval=50))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(130)
        chat = stage.platform.chat("42")
        assert chat.texts == ["Which one?"]
        assert max(chat.typing_at) == 0
        await stage.says("blue")
        await trio.sleep(21)
        assert max(chat.typing_at) == 150
        assert chat.texts == ["Which one?", texts.still_working(150)]


async def test_inactivity_is_not_counted_while_another_answer_is_open(stage: Stage) -> None:
    limits = AgentConfig(gateway_timeout=30, gateway_timeout_warning=0, gateway_notify_interval=0)
    stage.config = everyone(limits)
    got = let_agent_ask(stage, ask_twice)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(10)
        await stage.says("yes")
        await trio.sleep(45)
        await stage.says("yes")
        assert got == [(["once", "once"], 55.0)]


# --- the end of the turn -----------------------------------------------------------------------------------


@pytest.mark.parametrize("question", [ask_which, ask_approval])
async def test_stop_closes_open_questions(
    stage: Stage, question: Callable[[TurnContext], Awaitable[str | None]]
) -> None:
    got = let_agent_ask(stage, question)
    async with stage.life():
        await stage.says("work")
        await stage.says("/stop")
        assert [(answer, closed) for _, answer, _, closed in requests(stage)] == [(None, True)]
        assert stage.outcomes() == ["stopped"]
        await stage.says("/approve")
        assert stage.platform.chat("42").last == texts.no_approval_open()
        await stage.says("yes")
        assert stage.platform.chat("42").last == "You said: yes"
        assert got == []


@pytest.mark.parametrize("question", [ask_which, ask_approval])
async def test_an_answer_counts_while_the_gateway_goes_down(
    stage: Stage, question: Callable[[TurnContext], Awaitable[str | None]]
) -> None:
    got = let_agent_ask(stage, question)
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=30)
        await trio.sleep(5)
        await stage.says("yes")
        await trio.sleep(60)
        assert [at for _, at in got] == [5.0]
        assert stage.ended_at == 5
    assert stage.outcomes() == ["answered"]
    assert stage.pending() == []


@pytest.mark.parametrize("question", [ask_which, ask_approval])
async def test_a_resumed_turn_asks_again(
    stage: Stage, question: Callable[[TurnContext], Awaitable[str | None]]
) -> None:
    got = let_agent_ask(stage, question)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
    assert [closed for *_, closed in requests(stage)] == [True]
    shown = stage.platform.chat("42").texts[0]
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").texts.count(shown) == 2
        assert [closed for *_, closed in requests(stage)] == [True, False]
        await stage.says("yes")
        assert len(got) == 1
        assert stage.outcomes() == ["cut", "answered"]
        assert [text for role, text in stage.transcript() if role == "user"] == ["work"]


@pytest.mark.parametrize("eighths", range(-6, 14))
async def test_an_answer_around_the_end_of_the_patience_counts_or_is_a_message(
    stage: Stage, eighths: int
) -> None:
    """Each commit takes half a second; the answer comes before, at and after the end of the patience."""
    stage.config = everyone(AgentConfig(clarify_timeout=20), busy="queue")
    got = let_agent_ask(stage, ask_which)
    async with trio.open_nursery() as nursery:
        disk = Disk(nursery, only=("store-writer",), reports_late=True)
        stage.worker = disk.worker
        async with stage.life():
            disk.seconds = 0.5
            await stage.platform.says("work")
            await stage.platform.until(lambda: stage.platform.chat("42").texts == ["Which one?"])
            await trio.sleep_until(20 + eighths / 8)
            await stage.platform.says("blue")
            await trio.sleep(30)
            disk.seconds = 0
            await trio.sleep(5)
            texts = stage.platform.chat("42").texts
            [(_, answer, _, closed)] = requests(stage)
            assert closed
            assert [said for said, _ in got] == [answer], "the agent gets the stored answer"
            assert ("You said: blue" in texts) is (answer is None), (
                "the text is either the answer or a message"
            )
            assert stage.pending() == []
