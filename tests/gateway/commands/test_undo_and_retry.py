"""/undo and /retry: the last exchange is forgotten, or its message is answered anew."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import trio

from hermes_trio.base.messages import Attachment
from hermes_trio.gateway.outbound import texts
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script
from tests.stage import PHOTO_NOT_FETCHED, Stage, everyone


async def test_undo_forgets_one_exchange_after_the_other(stage: Stage) -> None:
    async with stage.life():
        for said in ("one", "two"):
            await stage.says(said)
        for left in (["one", "You said: one"], []):
            await stage.says("/undo")
            assert [text for _, text in stage.transcript()] == left
        await stage.says("/undo")
        assert stage.platform.chat("42").texts[2:] == [
            texts.taken_back("two"),
            texts.taken_back("one"),
            texts.nothing_to_take_back(),
        ]


async def test_undo_takes_back_a_waiting_message_before_a_running_turn(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.says("two")
        await stage.says("/undo")
        await trio.sleep(60)
        assert stage.platform.chat("42").texts == [texts.queued(), texts.taken_back("two"), "Done."]
        assert stage.outcomes() == ["answered"]


@pytest.mark.parametrize("again", ["no", "answered", "cut at once", "cut after a word"])
async def test_undo_of_a_cut_turn_forgets_it_and_its_resumed_turns_for_ever(stage: Stage, again: str) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hello")
        await stage.says("work")
        await trio.sleep(5)
    if again == "cut at once":
        stage.agent.on("work", Script().hangs())
    elif again == "answered":
        stage.agent.on("work", Script().says("Done."))
    if again != "no":
        async with stage.life():
            await trio.sleep(5)
            assert len(stage.turns()) == 3
    stage.agent.on("work", Script().says("It came back."))
    async with stage.life() as gateway:
        gateway.control.hold(True)  # so that the turn is not resumed before the command
        await stage.says("/undo")
        assert stage.platform.chat("42").last == texts.taken_back("work")
        assert stage.entry().mark is None
        gateway.control.hold(False)
        await trio.sleep(60)
    for _ in range(2):
        async with stage.life() as gateway:
            await trio.sleep(60)
            session = await gateway.home.reader.get_session(stage.entry().session_id)
            assert session is not None
            assert [row.content for row in session.messages] == ["hello", "You said: hello"]
            assert "It came back." not in stage.platform.chat("42").texts


async def test_retry_repeats_the_message_and_forgets_the_first_answer(stage: Stage) -> None:
    stage.agent.on("work", Script().says("Badly done."))
    async with stage.life():
        await stage.says("work")
        stage.agent.on("work", Script().says("Well done."))
        await stage.says("/retry")
        await stage.says("/retry")
        assert stage.transcript() == [("user", "work"), ("assistant", "Well done.")]
        assert stage.platform.chat("42").texts == ["Badly done.", "Well done.", "Well done."]


async def test_retry_in_the_middle_of_a_turn_ends_that_turn_first(stage: Stage) -> None:
    stage.agent.on("work", Script().says("Badly ").hangs())
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        stage.agent.on("work", Script().says("Well done."))
        await stage.says("/retry")
        assert stage.outcomes() == ["stopped", "answered"]
        assert stage.transcript() == [("user", "work"), ("assistant", "Well done.")]


async def test_retry_repeats_the_photos_of_the_message(stage: Stage) -> None:
    seen: list[list[Attachment]] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        seen.append([file for event in turn.said for file in event.attachments])
        return turn.prompt

    stage.opened_agent = nullcontext(agent)
    async with stage.life():
        for text in ("", "what are these?"):
            await stage.sends_photo(text)
        await trio.sleep(5)
        await stage.says("/retry")
        await trio.sleep(5)
        await stage.says("/retry")
        await trio.sleep(5)
        assert [len(files) for files in seen] == [2, 2, 2]
        assert seen[0] == seen[1] == seen[2]
        assert (
            stage.platform.chat("42").texts
            == [f"{PHOTO_NOT_FETCHED}\n\nwhat are these?\n{PHOTO_NOT_FETCHED}"] * 3
        )


async def test_a_retry_during_the_drain_is_answered_by_the_next_life(stage: Stage) -> None:
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("hello")
        gateway.control.hold(True)
        await stage.says("/retry")
        assert stage.platform.chat("42").last == texts.waits_for_drain()
        assert stage.transcript() == []
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "You said: hello"
