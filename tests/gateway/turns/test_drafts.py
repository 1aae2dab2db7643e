"""Drafts: in a direct chat the answer grows in a draft that a person can stop, and then is a message."""

from __future__ import annotations

import itertools

import pytest
import trio

from hermes_trio.gateway.outbound.lane import DRAFT_AGAIN_AFTER
from hermes_trio.platform.contract import STOPPED_DRAFT, FloodWait, LinkLost, Refused, Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage

GROWS = Script().takes(5).says("It").takes(60).says(" grows.")


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.platform = MemoryPlatform(traits=Traits(edits=True, drafts=True, placeholder="…"))
    stage.agent.on("grow", GROWS)
    return stage


def drafts(stage: Stage) -> list[str | None]:
    return [one.text for one in stage.platform.history if one.what == "draft"]


async def test_a_draft_is_shown_before_the_first_words_and_the_answer_is_a_message(stage: Stage) -> None:
    chat = stage.platform.chat("42")
    async with stage.life():
        await stage.says("grow")
        assert drafts(stage) == [""]
        await trio.sleep(6)
        assert (drafts(stage), chat.texts) == (["", "It"], [])
        await trio.sleep(70)
        assert (chat.texts, chat.draft) == (["It grows."], None)


async def test_a_draft_that_does_not_change_is_shown_again_before_it_disappears(stage: Stage) -> None:
    async with stage.life():
        await stage.says("grow")
        await trio.sleep(60)
        at = [one.at for one in stage.platform.history if one.what == "draft"] + [trio.current_time()]
        assert max(after - before for before, after in itertools.pairwise(at)) <= DRAFT_AGAIN_AFTER


async def test_a_person_stops_the_turn_of_a_draft_and_keeps_its_text(stage: Stage) -> None:
    chat = stage.platform.chat("42")
    async with stage.life():
        await stage.says("grow")
        await trio.sleep(10)
        await stage.delivers(stage.platform.stop_draft())
        assert [how for _, how, _ in stage.agent.left] == ["cancelled"]
        await trio.sleep(5)
        assert any(text.startswith("It") for text in chat.texts)
        assert chat.draft is None
        shown = len(drafts(stage))
        await trio.sleep(60)
        assert len(drafts(stage)) == shown


async def test_a_late_stop_of_a_draft_does_not_stop_the_next_turn(stage: Stage) -> None:
    async with stage.life():
        await stage.says("grow")
        await trio.sleep(10)
        late = stage.platform.stop_draft()
        await trio.sleep(70)
        await stage.says("grow")
        await stage.delivers(late)
        await trio.sleep(70)
        assert [how for _, how, _ in stage.agent.left] == ["answered", "answered"]
        assert stage.platform.chat("42").texts == ["It grows.", "It grows."]


@pytest.mark.parametrize("number", ["", "1", "x", "9" * 50])
async def test_a_stop_of_no_draft_is_taken_in_and_has_no_effect(stage: Stage, number: str) -> None:
    async with stage.life():
        await stage.says("grow")
        event = stage.platform.event(f"{STOPPED_DRAFT}{number}")
        await stage.delivers(type(event)(event.source, event.text, event.message_id, kind="callback"))
        await trio.sleep(70)
        assert stage.platform.chat("42").texts == ["It grows."]


@pytest.mark.parametrize("where", ["refused", "group"])
async def test_where_a_draft_cannot_be_shown_a_message_is_edited(stage: Stage, where: str) -> None:
    stage.platform.fails("draft", Refused("no drafts here"), times=100)
    how = {"chat": "-1", "chat_type": "group", "user": "42"} if where == "group" else {}
    async with stage.life():
        await stage.says("grow", **how)
        await trio.sleep(10)
        [shown] = stage.platform.chat(how.get("chat", "42")).texts
        assert shown.startswith("It")
        assert len(drafts(stage)) == (where == "refused")


@pytest.mark.parametrize("error", [FloodWait(12), LinkLost("gone")])
async def test_a_draft_that_fails_costs_no_part_of_the_answer(stage: Stage, error: Exception) -> None:
    stage.platform.fails("draft", error, times=3)
    async with stage.life():
        await stage.says("grow")
        await trio.sleep(120)
        assert stage.platform.chat("42").texts == ["It grows."]


@pytest.mark.parametrize("reacts", [False, True])
async def test_a_message_is_marked_once_it_is_stored_where_the_platform_shows_that(
    stage: Stage, reacts: bool
) -> None:
    platform = stage.platform = MemoryPlatform(traits=Traits(reacts=reacts))
    platform.fails("react", Refused("no reactions here"), chat="43")
    async with stage.life():
        await stage.says("hello", message_id="900")
        await stage.says("hello", chat="43", message_id="901")
        await trio.sleep(5)
        assert platform.chat("42").taken_in == ["900"] * reacts
        assert platform.chat("43").texts == ["You said: hello"]
