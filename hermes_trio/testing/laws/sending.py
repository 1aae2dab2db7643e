"""What is said to people: exactly, once, and as precisely as it is known what has become of it."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from ...base.messages import Attachment
from ...platform.contract import (
    ChatGone,
    FloodWait,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
)
from ..checkpoints import cancelled_at
from .subject import MOST_HALTS, PLAIN, Platform, message


async def test_what_is_sent_is_shown_as_it_is(platform: Platform) -> None:
    async with platform.adapter.connect() as link:
        await link.send(message())
        assert platform.stage.chat("42").texts == [PLAIN]


async def test_what_was_sent_can_be_changed(platform: Platform) -> None:
    platform.needs("edits")
    async with platform.adapter.connect() as link:
        message_id = await link.send(message())
        assert message_id is not None
        for _ in range(2):  # saying the same twice is once
            await link.edit("42", message_id, "Other words")
        assert platform.stage.chat("42").texts == ["Other words"]
        with pytest.raises(Refused):
            await link.edit("42", "999999", "Other words")


async def test_what_was_sent_can_be_taken_back(platform: Platform) -> None:
    platform.needs("deletes")
    async with platform.adapter.connect() as link:
        message_id = await link.send(message())
        assert message_id is not None
        await link.delete("42", message_id)
        assert platform.stage.chat("42").texts == []


async def test_what_is_said_in_a_topic_stands_there(platform: Platform) -> None:
    platform.needs("threads")
    chat = platform.stage.chat("-100")
    async with platform.adapter.connect() as link:
        for thread_id in ("5", "6", None):
            await link.send(Outgoing(chat_id="-100", text=PLAIN, key=f"to {thread_id}", thread_id=thread_id))
        assert [one.thread_id for one in chat.messages] == ["5", "6", None]
        if platform.has("typing"):
            await link.typing("-100", "5")
            typing = [one.thread_id for one in platform.stage.history if one.what == "typing"]
            assert typing == ["5"]


async def test_files_go_along_and_their_text_stands_there_once(platform: Platform, tmp_path: Path) -> None:
    platform.needs("sends_files")
    place = tmp_path / "report.txt"
    place.write_bytes(b"All is well.")
    files = (Attachment("document", name="report.txt", path=str(place)),)
    async with platform.adapter.connect() as link:
        await link.send(Outgoing(chat_id="42", text=PLAIN, key="key-1", attachments=files))
        shown = platform.stage.chat("42").messages
        assert [one.text for one in shown if one.text] == [PLAIN]
        assert [(file.kind, file.name) for one in shown for file in one.attachments] == [
            ("document", "report.txt")
        ]


async def test_a_key_that_was_sent_before_shows_nothing_again(platform: Platform) -> None:
    platform.needs("takes_keys")
    platform.stage.loses_answer()
    async with platform.adapter.connect() as link:
        with pytest.raises(OutcomeUnknown):
            await link.send(message())
        message_id = await link.send(message())
        assert message_id == await link.send(message()) == platform.stage.chat("42").messages[0].message_id
        await link.send(message("Other words", key="key-2"))
        assert platform.stage.chat("42").texts == [PLAIN, "Other words"]


async def test_what_has_arrived_is_found_by_its_key_and_nothing_else_is(platform: Platform) -> None:
    platform.needs("finds")
    platform.stage.loses_answer()
    async with platform.adapter.connect() as link:
        assert await link.find("42", "key-1") is None
        with pytest.raises(OutcomeUnknown):
            await link.send(message())
        assert await link.find("42", "key-1") == platform.stage.chat("42").messages[0].message_id
        assert await link.find("42", "key-2") is None


async def test_a_text_of_the_full_length_fits(platform: Platform) -> None:
    traits = platform.adapter.traits
    wide, width = {"characters": ("ä", 1), "bytes": ("ä", 2), "utf-16": ("\N{GRINNING FACE}", 2)}[
        traits.counting
    ]
    text = wide * (traits.limit // width)
    async with platform.adapter.connect() as link:
        await link.send(message(text))
        assert platform.stage.chat("42").texts == [text]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FloodWait(7), FloodWait),
        (NotSent("busy"), NotSent),
        (Refused("no rights to send"), Refused),
        (ChatGone("kicked"), ChatGone),
    ],
)
async def test_a_send_that_is_refused_is_told_by_its_kind_and_not_tried_again(
    platform: Platform, error: PlatformError, told: type[PlatformError]
) -> None:
    platform.stage.fails("send", error)
    async with platform.adapter.connect() as link:
        with pytest.raises(told) as caught:
            await link.send(message())
        assert isinstance(caught.value, ChatGone) == isinstance(error, ChatGone)
        if isinstance(caught.value, FloodWait) and isinstance(error, FloodWait):
            assert caught.value.seconds == error.seconds
        assert (platform.sends, platform.stage.chat("42").texts) == (1, [])
        await link.send(message())
        assert platform.stage.chat("42").texts == [PLAIN]


async def test_a_send_whose_answer_is_lost_is_not_repeated(platform: Platform) -> None:
    platform.stage.loses_answer()
    async with platform.adapter.connect() as link:
        with pytest.raises(OutcomeUnknown):
            await link.send(message())
        assert (platform.sends, platform.stage.chat("42").texts) == (1, [PLAIN])


async def test_an_edit_that_floods_says_for_how_long(platform: Platform) -> None:
    platform.needs("edits")
    async with platform.adapter.connect() as link:
        message_id = await link.send(message())
        assert message_id is not None
        platform.stage.fails("edit", FloodWait(9))
        with pytest.raises(FloodWait) as flood:
            await link.edit("42", message_id, "Other words")
        assert flood.value.seconds == 9
        assert platform.stage.chat("42").texts == [PLAIN]


async def test_what_grows_in_bad_weather_says_in_the_end_exactly_what_it_should(platform: Platform) -> None:
    platform.needs("edits")
    words = [f"word {n}" for n in range(40)]
    async with platform.adapter.connect() as link:
        message_id = await link.send(message("word"))
        assert message_id is not None
        for n in range(1, 41):
            match n % 4:
                case 1:
                    platform.stage.fails("edit", FloodWait(3))
                case 2:
                    platform.stage.fails("edit", Refused("not now"))
                case 3:
                    platform.stage.hangs("edit", arrives=True)
            with trio.move_on_after(0.05), suppress(PlatformError):
                await link.edit("42", message_id, " ".join(words[:n]))
        for _ in range(2):
            await link.edit("42", message_id, " ".join(words))
        assert platform.stage.chat("42").texts == [" ".join(words)]


async def test_a_send_that_is_cancelled_at_any_checkpoint_has_arrived_once_or_not_at_all(
    platform: Platform,
) -> None:
    async with platform.adapter.connect() as link:
        for halt in range(1, MOST_HALTS):
            chat = platform.stage.chat(str(1000 + halt))
            cancelled = await cancelled_at(halt, partial(link.send, message(chat=chat.chat_id)))
            await link.send(message(chat="42"))  # and it disturbs nothing else
            assert chat.texts in ([], [PLAIN])
            if not cancelled:
                assert chat.texts == [PLAIN]
                return
    raise AssertionError("It never gets through.")


async def test_a_call_that_is_cancelled_disturbs_no_other(platform: Platform) -> None:
    platform.stage.hangs("send", chat="1")
    async with platform.adapter.connect() as link:
        with trio.move_on_after(0.5) as patience:
            await link.send(message(chat="1"))
        assert patience.cancelled_caught
        await link.send(message(chat="2"))
        assert platform.stage.chat("2").texts == [PLAIN]
        assert (platform.stage.chat("1").texts, platform.sends) == ([], 2), "and it was not sent again"


async def test_calls_of_many_chats_do_not_wait_for_each_other(platform: Platform) -> None:
    platform.stage.hangs("send", chat="1")
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(link.send, message(chat="1"))
        async with trio.open_nursery() as others:
            for n in range(2, 42):
                others.start_soon(link.send, message(chat=str(n)))
        assert all(platform.stage.chat(str(n)).texts == [PLAIN] for n in range(2, 42))
        nursery.cancel_scope.cancel()
