"""The placeholder: on a platform that can neither find nor deduplicate a send, an answer is sent as a message
without content, and its text comes by edits. In no case does a person read an answer twice."""

from __future__ import annotations

import pytest
import trio

from hermes_trio.gateway.outbound.delivery import MOST_PLACEHOLDERS, POSSIBLY_REPEATED
from hermes_trio.platform.contract import FloodWait, OutcomeUnknown, Refused, Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage

ANSWER = "You said: hello"


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.platform = MemoryPlatform(traits=Traits(edits=True, typing=True, placeholder="…"))
    return stage


def operations(stage: Stage) -> list[tuple[str, str | None]]:
    return [(one.what, one.text) for one in stage.platform.history if one.what in ("send", "edit")]


async def test_an_answer_is_edited_into_its_placeholder(stage: Stage) -> None:
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(5)
    assert operations(stage) == [("send", "…"), ("edit", ANSWER)]
    assert stage.platform.chat("42").texts == [ANSWER]


async def test_a_streamed_answer_is_shown_from_its_first_word_on(stage: Stage) -> None:
    stage.agent.on("grow", Script().says("It").takes(2).says(" grows."))
    async with stage.life():
        await stage.says("grow")
        await trio.sleep(0.5)
        assert operations(stage) == [("send", "…"), ("edit", "It ▉")]
        await trio.sleep(5)
    assert stage.platform.chat("42").texts == ["It grows."]


async def test_a_placeholder_replies_to_the_message(stage: Stage) -> None:
    async with stage.life():
        await stage.says("hello", message_id="900")
        await trio.sleep(5)
    assert [one.reply_to for one in stage.platform.chat("42").messages] == ["900"]


async def test_a_lost_placeholder_stays_empty_and_the_answer_has_no_repeat_note(
    stage: Stage,
) -> None:
    stage.platform.loses_answer("send")
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(10)
    assert stage.platform.chat("42").texts == ["…", ANSWER]


async def test_an_earlier_owed_answer_comes_before_a_later_one(stage: Stage) -> None:
    stage.platform.loses_answer("send")
    async with stage.life():
        await stage.says("hello")
        await stage.says("again")
        await trio.sleep(60)
    assert [text for text in stage.platform.chat("42").texts if text != "…"] == [ANSWER, "You said: again"]


async def test_placeholders_are_limited_if_every_send_has_an_unknown_outcome(stage: Stage) -> None:
    stage.platform.loses_answer("send", times=100)
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(3600)
    texts = stage.platform.chat("42").texts
    assert texts == ["…"] * MOST_PLACEHOLDERS + [ANSWER, f"{POSSIBLY_REPEATED}{ANSWER}"]


async def test_the_edit_of_a_placeholder_is_repeated_until_it_arrives(stage: Stage) -> None:
    stage.platform.fails("edit", OutcomeUnknown("lost"), times=1)
    stage.platform.fails("edit", FloodWait(5))
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(200)
    assert stage.platform.chat("42").texts == [ANSWER]


async def test_the_answer_is_sent_although_the_placeholder_was_deleted(stage: Stage) -> None:
    stage.platform.fails("edit", Refused("message to edit not found"))
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(5)
    assert stage.platform.chat("42").texts[-1] == ANSWER


async def test_a_long_answer_continues_after_its_placeholder(stage: Stage) -> None:
    stage.platform.traits = Traits(edits=True, placeholder="…", limit=100)
    stage.agent.on("long", Script().says("word " * 40))
    async with stage.life():
        await stage.says("long")
        await trio.sleep(5)
    texts = stage.platform.chat("42").texts
    assert [text[-5:] for text in texts] == ["(1/3)", "(2/3)", "(3/3)"]
