"""A chat that is gone gets nothing more, also after a restart, until a message comes from it."""

from __future__ import annotations

import pytest
import trio

from hermes_trio.base.messages import HomeChannel
from hermes_trio.platform.contract import ChatGone, Refused
from hermes_trio.testing import Script
from tests.stage import Stage


def sent(stage: Stage, chat: str = "42") -> list[str]:
    """Return all calls to the platform for a chat since the last call of this function."""
    tried: list[str] = [
        op.what for op in stage.platform.history if op.chat_id == chat and op.what != "accept"
    ]
    stage.platform.history.clear()
    return tried


def outbox(stage: Stage) -> list[tuple[str, str]]:
    """Return the state and the error of each delivery."""
    with stage.looking() as db:
        return list(db.execute("SELECT state, error FROM outbox WHERE NOT streamed ORDER BY outbox_id"))


GONE = ChatGone("The person has blocked us.")


async def test_deliveries_to_a_gone_chat_are_given_up_and_nothing_more_is_sent(stage: Stage) -> None:
    stage.agent.on("long", Script().returns("word " * 4000))
    stage.allow(home_channel=HomeChannel(platform="memory", chat_id="42", name="home"))
    async with stage.life():
        stage.platform.fails("send", GONE)
        await stage.says("long")
        await trio.sleep(60)
        assert sent(stage).count("send") == 1, "the other chunks were not tried"
    assert len(outbox(stage)) > 3
    assert set(outbox(stage)) == {("given_up", "the chat is gone: The person has blocked us.")}
    async with stage.life() as gateway:
        await trio.sleep(10)
        gateway.stop(restart=True)
        await trio.sleep(10)
        assert sent(stage) == [], "no notice of the restart goes to a home channel that is gone"


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_message_from_a_gone_chat_is_answered(stage: Stage, restarts: bool) -> None:
    async with stage.life():
        stage.platform.fails("send", GONE)
        await stage.says("hello")
        await trio.sleep(10)
        if not restarts:
            await stage.says("me again")
            await trio.sleep(10)
    if restarts:
        async with stage.life():
            await stage.says("me again")
            await trio.sleep(10)
    assert stage.platform.chat("42").texts == ["You said: me again"]
    async with stage.life() as gateway:
        assert not gateway.chats.gone.reasons, "the recovery is remembered too"


async def test_a_turn_cut_in_a_gone_chat_waits_for_a_message_from_there(stage: Stage) -> None:
    stage.agent.on("hang", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("hang")
        await trio.sleep(1)
        stage.platform.fails("send", GONE)
        gateway.chats.notice(stage.platform.event("x").source, "Are you there?")
        await trio.sleep(1)
    stage.agent.on("hang", Script().says("All done."))
    async with stage.life():
        await trio.sleep(60)
        assert len(stage.turns()) == 1, "the answer could not be delivered"
        assert stage.entry().resume_pending
        await stage.says("what happened?")
        await trio.sleep(10)
        assert stage.platform.chat("42").texts == ["You said: what happened?"]
        assert "[System note:" in stage.agent.prompts[-1]


async def test_a_refused_text_does_not_make_the_chat_gone(stage: Stage) -> None:
    async with stage.life() as gateway:
        stage.platform.fails("send", Refused("There is no such thread."), times=2)
        await stage.says("hello")
        await trio.sleep(10)
        assert not gateway.chats.gone.reasons
        assert outbox(stage) == [("given_up", "the platform refuses it: There is no such thread.")]


async def test_a_streamed_message_to_a_gone_chat_is_given_up_too(stage: Stage) -> None:
    stage.agent.on("tell", Script().says("One two three four.", pieces=4, seconds=8))
    async with stage.life():
        await stage.says("tell")
        await trio.sleep(3)
        stage.platform.fails("edit", GONE)
        await trio.sleep(60)
        assert [turn.outcome for turn in stage.turns()] == ["answered"], "the turn itself is not affected"
    assert outbox(stage) == [("given_up", "the chat is gone: The person has blocked us.")]
