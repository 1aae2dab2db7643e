"""Laws of sending: a message is shown exactly and once, and a failed send raises an exact error."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from ...base.messages import Attachment
from ...platform.contract import (
    ChatGone,
    Draft,
    FloodWait,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
)
from ..checkpoints import cancelled_at
from .subject import MOST_HALTS, PLAIN, Platform, message, needs


async def test_a_sent_message_is_shown_with_its_exact_text(platform: Platform) -> None:
    async with platform.adapter.connect() as link:
        await link.send(message())
        assert platform.stage.chat("42").texts == [PLAIN]


@needs("edits")
async def test_a_sent_message_can_be_edited(platform: Platform) -> None:
    async with platform.adapter.connect() as link:
        message_id = await link.send(message())
        assert message_id is not None
        for _ in range(2):  # a repeated edit changes nothing
            await link.edit("42", message_id, "Other words")
        assert platform.stage.chat("42").texts == ["Other words"]
        with pytest.raises(Refused):
            await link.edit("42", "999999", "Other words")


@needs("deletes")
async def test_a_sent_message_can_be_deleted(platform: Platform) -> None:
    async with platform.adapter.connect() as link:
        message_id = await link.send(message())
        assert message_id is not None
        await link.delete("42", message_id)
        assert platform.stage.chat("42").texts == []


@needs("drafts")
async def test_a_draft_is_shown_until_a_message_is_sent(platform: Platform) -> None:
    chat = platform.stage.chat("42")
    async with platform.adapter.connect() as link:
        for text in ("", "Plain", PLAIN):
            await link.draft(Draft(chat_id="42", number=7, text=text))
            assert chat.draft is not None
            assert (chat.draft.number, chat.draft.text) == (7, text)
        await link.send(message())
        assert (chat.texts, chat.draft) == ([PLAIN], None)
        platform.stage.fails("draft", FloodWait(3))
        with pytest.raises(FloodWait) as flood:
            await link.draft(Draft(chat_id="42", number=8, text=PLAIN))
        assert flood.value.seconds == 3


@needs("reacts")
async def test_a_message_of_a_person_is_marked_as_taken_in(platform: Platform) -> None:
    posted = platform.stage.post("hello")
    async with platform.adapter.connect() as link:
        event = await anext(link.receive())
        assert event.message_id is not None
        await link.react("42", event.message_id)
        assert platform.stage.chat("42").taken_in == [posted.message_id]


@needs("threads")
async def test_a_message_to_a_topic_is_shown_in_it(platform: Platform) -> None:
    chat = platform.stage.chat("-100")
    async with platform.adapter.connect() as link:
        for thread_id in ("5", "6", None):
            await link.send(Outgoing(chat_id="-100", text=PLAIN, key=f"to {thread_id}", thread_id=thread_id))
        assert [one.thread_id for one in chat.messages] == ["5", "6", None]
        if platform.has("typing"):
            await link.typing("-100", "5")
            typing = [one.thread_id for one in platform.stage.history if one.what == "typing"]
            assert typing in (["5"], [None]), "in the topic or, where that is not possible, in its chat"


@needs("sends_files")
async def test_files_are_sent_and_their_text_is_shown_once(platform: Platform, tmp_path: Path) -> None:
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


@needs("takes_keys_for")
async def test_a_second_send_with_the_same_key_shows_nothing(platform: Platform) -> None:
    platform.stage.loses_answer()
    async with platform.adapter.connect() as link:
        with pytest.raises(OutcomeUnknown):
            await link.send(message())
        message_id = await link.send(message())
        assert message_id == await link.send(message()) == platform.stage.chat("42").messages[0].message_id
        await link.send(message("Other words", key="key-2"))
        assert platform.stage.chat("42").texts == [PLAIN, "Other words"]


@needs("finds", "threads")
async def test_a_message_in_a_topic_is_found_in_its_topic(platform: Platform) -> None:
    platform.stage.loses_answer()
    async with platform.adapter.connect() as link:
        with pytest.raises(OutcomeUnknown):
            await link.send(Outgoing(chat_id="-100", text=PLAIN, key="key-1", thread_id="5"))
        [shown] = platform.stage.chat("-100").messages
        assert await link.find("-100", "key-1", "5") == shown.message_id
        assert await link.find("-100", "key-2", "5") is None


@needs("finds")
async def test_only_a_message_that_has_arrived_is_found_by_its_key(platform: Platform) -> None:
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
    ("error", "kind"),
    [
        (FloodWait(7), FloodWait),
        (NotSent("busy"), NotSent),
        (Refused("no rights to send"), Refused),
        (ChatGone("kicked"), ChatGone),
    ],
)
async def test_a_refused_send_raises_an_error_of_its_kind_and_is_not_repeated(
    platform: Platform, error: PlatformError, kind: type[PlatformError]
) -> None:
    platform.stage.fails("send", error)
    async with platform.adapter.connect() as link:
        with pytest.raises(kind) as caught:
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


@needs("edits")
async def test_an_edit_above_the_rate_limit_raises_flood_wait_with_its_seconds(platform: Platform) -> None:
    async with platform.adapter.connect() as link:
        message_id = await link.send(message())
        assert message_id is not None
        platform.stage.fails("edit", FloodWait(9))
        with pytest.raises(FloodWait) as flood:
            await link.edit("42", message_id, "Other words")
        assert flood.value.seconds == 9
        assert platform.stage.chat("42").texts == [PLAIN]


@needs("edits")
async def test_a_message_that_grows_by_failing_edits_has_its_exact_text_in_the_end(
    platform: Platform,
) -> None:
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
            await link.send(message(chat="42"))  # the cancellation has no other effect
            assert chat.texts in ([], [PLAIN])
            if not cancelled:
                assert chat.texts == [PLAIN]
                return
    raise AssertionError(f"{MOST_HALTS} checkpoints and no end.")


async def test_a_cancelled_call_disturbs_no_other_call(platform: Platform) -> None:
    platform.stage.hangs("send", chat="1")
    async with platform.adapter.connect() as link:
        with trio.move_on_after(0.5) as timeout:
            await link.send(message(chat="1"))
        assert timeout.cancelled_caught
        await link.send(message(chat="2"))
        assert platform.stage.chat("2").texts == [PLAIN]
        assert (platform.stage.chat("1").texts, platform.sends) == ([], 2), "the send was not repeated"


async def test_calls_of_many_chats_do_not_wait_for_each_other(platform: Platform) -> None:
    platform.stage.hangs("send", chat="1")
    async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(link.send, message(chat="1"))
        async with trio.open_nursery() as others:
            for n in range(200, 240):
                others.start_soon(link.send, message(chat=str(n)))
        assert all(platform.stage.chat(str(n)).texts == [PLAIN] for n in range(200, 240))
        nursery.cancel_scope.cancel()
