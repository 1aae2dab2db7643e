"""A streamed message whose id was lost because the gateway ended between the send and the receipt.

It is found again if the platform can do so; otherwise it shows no cursor, and the answer says that it may be
a repeat.
"""

from __future__ import annotations

import pytest
import trio

from hermes_trio.platform.contract import FOR_EVER, NotSent, Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage

HANG = Script().says("I begin.").hangs()


def on(stage: Stage, trait: str = "") -> MemoryPlatform:
    """Use a platform that supports edits and this trait."""
    stage.platform = MemoryPlatform(
        traits=Traits(
            edits=True, takes_keys_for=FOR_EVER if trait == "takes_keys" else 0, finds=trait == "finds"
        )
    )
    return stage.platform


@pytest.mark.parametrize("trait", ["takes_keys", "finds"])
async def test_an_interrupted_streamed_message_is_closed_if_the_platform_can_find_it(
    stage: Stage, trait: str
) -> None:
    platform = on(stage, trait)
    stage.agent.on("hang", HANG)
    platform.hangs("send", arrives=True)
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
    stage.agent.on("hang", Script().says("All done."))
    async with stage.life():
        await trio.sleep(5)
        assert platform.chat("42").texts == ["I begin.\n\n(interrupted)", "All done."]


async def test_an_interrupted_streamed_message_elsewhere_shows_no_cursor_and_its_closing_says_repeat(
    stage: Stage,
) -> None:
    platform = on(stage)
    stage.agent.on("hang", HANG)
    platform.hangs("send", arrives=True)
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
    stage.agent.on("hang", Script().says("All done."))
    async with stage.life():
        await trio.sleep(5)
        first, closed, answer = platform.chat("42").texts
        assert first == "I begin."
        assert closed == "♻ Possibly a repeat:\nI begin.\n\n(interrupted)"
        assert answer == "All done."


@pytest.mark.parametrize("trait", ["takes_keys", "finds"])
async def test_an_answer_replaces_its_streamed_message_if_the_platform_can_find_it(
    stage: Stage, trait: str
) -> None:
    platform = on(stage, trait)
    platform.loses_answer()
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(60)
        assert platform.chat("42").texts == ["You said: hello"]


async def test_an_answer_elsewhere_says_that_it_may_be_a_repeat(stage: Stage) -> None:
    platform = on(stage)
    stage.agent.on("work", Script().says("It is").takes(10).says(" done."))
    platform.loses_answer()
    async with stage.life():
        await stage.says("work")
        await trio.sleep(60)
        assert platform.chat("42").texts == ["It is", "♻ Possibly a repeat:\nIt is done."]


async def test_a_full_answer_with_the_repeat_note_may_need_two_messages(stage: Stage) -> None:
    platform = stage.platform = MemoryPlatform(traits=Traits(limit=100))
    words = "word " * 20
    stage.agent.on("work", Script().says(words))
    platform.loses_answer()
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        assert platform.chat("42").texts == [words.strip()]
    async with stage.life():
        await trio.sleep(60)
        _, *again = platform.chat("42").texts
        assert again[0].startswith("♻ Possibly a repeat:\nword ")
        assert " ".join(again).count("word") == 20


async def test_a_streamed_message_is_not_sent_while_it_is_blank(stage: Stage) -> None:
    platform = on(stage)
    stage.agent.on("work", Script().says("\n\n").takes(5).says("One,").takes(5).says(" two."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(8)
        assert [text.strip() for text in platform.chat("42").texts] == ["One, ▉"]
        await trio.sleep(8)
        assert platform.chat("42").last == "One, two."


async def test_a_streamed_message_that_certainly_failed_is_not_called_a_repeat(stage: Stage) -> None:
    platform = on(stage)
    stage.agent.on("work", Script().says("It is").takes(10).says(" done."))
    platform.fails("send", NotSent("connection refused"))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(60)
        assert platform.chat("42").texts == ["It is done."]


async def test_a_streamed_message_shows_the_cursor_after_its_id_is_stored(stage: Stage) -> None:
    platform = on(stage)
    stage.agent.on("work", Script().says("One,").takes(5).says(" two,").takes(5).says(" three."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(0.5)
        assert platform.chat("42").texts == ["One,"]
        await trio.sleep(3)
        assert platform.chat("42").texts == ["One, ▉"]
        await trio.sleep(5)
        assert platform.chat("42").texts == ["One, two, ▉"]
        await trio.sleep(5)
        assert platform.chat("42").texts == ["One, two, three."]
