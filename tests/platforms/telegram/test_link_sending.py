"""The link to Telegram: sent messages, edits and files, and the error of each failure."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.telegram_link import CLASSIC
from hermes_platforms.telegram.testing import ApiError, BotApi
from hermes_trio.base.messages import Attachment
from hermes_trio.platform.contract import (
    ChatGone,
    FloodWait,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    PlatformError,
    Refused,
)
from tests.platforms.telegram.link_calls import asked, bad, message, receive


async def test_markdown_is_sent_as_formatted_text(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link:
        message_id = await link.send(message("**Done.** See `a_b.py`"))
        assert message_id is not None
        assert telegram.chat("42").texts == ["Done. See a_b.py"]
        assert [one.kind for one in telegram.entities[message_id]] == ["bold", "code"]
        await link.edit("42", message_id, "*Really* done.")
        assert [one.kind for one in telegram.entities[message_id]] == ["italic"]


async def test_a_text_whose_markup_is_refused_is_sent_plain(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link:
        telegram.answers("sendMessage", bad("can't parse entities: Can't find end of Bold entity"))
        message_id = await link.send(message("**Done.**"))
        assert telegram.chat("42").texts == ["**Done.**"]
        assert message_id is not None
        telegram.answers("editMessageText", bad("can't parse entities: Character '.' is reserved"))
        await link.edit("42", message_id, "**Really.**")
        assert telegram.chat("42").texts == ["**Really.**"]


async def test_a_table_that_markup_makes_too_long_is_sent_plain(telegram: BotApi) -> None:
    bot = TelegramAdapter(telegram.token, base_url=telegram.base_url, traits=CLASSIC)
    table = "\n".join(["|a|b|", "|-|-|", *(["|1|2|"] * 400), f"|{'x' * 400}|2|"])
    assert len(table) < 4096
    async with bot.connect() as link:
        await link.send(message(table))
    assert telegram.chat("42").texts == [table]


@pytest.mark.parametrize(
    ("chat", "thread_id", "reply_to"),
    [("42", None, "7"), ("42", "5", "7"), ("-100", None, "7"), ("-100", "5", None)],
)
async def test_an_answer_is_a_reply_except_in_a_topic_of_a_group(
    telegram: BotApi, bot: TelegramAdapter, chat: str, thread_id: str | None, reply_to: str | None
) -> None:
    async with bot.connect() as link:
        await link.send(message(chat=chat, thread_id=thread_id, reply_to="7", silent=True))
    [shown] = telegram.chat(chat).messages
    assert (shown.thread_id, shown.reply_to, shown.silent) == (thread_id, reply_to, True)


async def test_an_answer_in_the_direct_messages_of_a_channel_goes_to_its_topic(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        await link.typing("-100", "direct-8")
        await link.send(message(chat="-100", thread_id="direct-8", reply_to="7"))
    [sent] = asked(telegram, "sendMessage")
    assert (sent["direct_messages_topic_id"], "message_thread_id" in sent) == (8, False)
    assert [shown.reply_to for shown in telegram.chat("-100").messages] == ["7"]


async def test_typing_names_the_general_topic_and_sending_does_not(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        await link.typing("-100", "1")
        await link.send(message(chat="-100", thread_id="1"))
    [typing] = asked(telegram, "sendChatAction")
    [sent] = asked(telegram, "sendMessage")
    assert (typing["message_thread_id"], "message_thread_id" in sent) == (1, False)
    assert [shown.thread_id for shown in telegram.chat("-100").messages] == [None]


async def test_a_message_arrives_without_its_deleted_topic_and_its_deleted_reply(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    telegram.lost_threads.add(("42", "5"))
    telegram.lost_messages.add("7")
    async with bot.connect() as link:
        await link.send(message(thread_id="5", reply_to="7"))
    [shown] = telegram.chat("42").messages
    assert (shown.text, shown.thread_id, shown.reply_to) == ("Hi.", None, None)


async def test_a_send_follows_a_group_to_its_new_chat_id(telegram: BotApi, bot: TelegramAdapter) -> None:
    moved = "group chat was upgraded to a supergroup chat"
    telegram.answers("sendMessage", ApiError(400, f"Bad Request: {moved}", migrate_to_chat_id=-1005))
    async with bot.connect() as link:
        await link.send(message(chat="-5"))
    assert telegram.chat("-1005").texts == ["Hi."]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (ApiError(403, "Forbidden: bot was blocked by the user"), ChatGone),
        (ApiError(403, "Forbidden: bot was kicked from the supergroup chat"), ChatGone),
        (bad("chat not found"), ChatGone),
        (bad("TOPIC_CLOSED"), Refused),
        (bad("not enough rights to send text messages to the chat"), Refused),
        (ApiError(429, "Too Many Requests: retry after 31", retry_after=31), FloodWait),
        (ApiError(401, "Unauthorized"), NotSent),
        (ApiError(500, "Internal Server Error"), OutcomeUnknown),
        (b"<html>Bad Gateway</html>", OutcomeUnknown),
    ],
)
async def test_each_error_answer_raises_an_error_of_its_kind(
    telegram: BotApi, bot: TelegramAdapter, answer: ApiError | bytes, kind: type[PlatformError]
) -> None:
    async with bot.connect() as link:
        telegram.answers("sendMessage", answer)
        with pytest.raises(PlatformError) as caught:
            await link.send(message())
        assert type(caught.value) is kind
        assert len(asked(telegram, "sendMessage")) == 1
        await link.send(message())


async def test_an_edit_whose_answer_is_lost_is_a_lost_link_and_can_be_repeated(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        message_id = await link.send(message())
        assert message_id is not None
        telegram.loses_answer("edit")
        with pytest.raises(LinkLost):
            await link.edit("42", message_id, "Other words")
        await link.edit("42", message_id, "Other words")  # the answer "not modified" counts as success
        with pytest.raises(Refused, match="message to edit not found"):
            await link.edit("42", "999", "Other words")
        with pytest.raises(Refused, match="no id"):
            await link.send(message(thread_id="the second one"))


async def test_a_send_that_is_cut_at_any_byte_has_arrived_or_raises_outcome_unknown(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    outcomes = set()
    async with bot.connect() as link:
        for number in range(0, 400, 9):
            chat = str(1000 + number)
            telegram.cuts_after(**{"sent" if number % 2 else "received": number})
            try:
                assert await link.send(message(chat=chat)) is not None
                outcomes.add("arrived")
                assert telegram.chat(chat).texts == ["Hi."]
            except OutcomeUnknown:
                outcomes.add("unknown")
                assert telegram.chat(chat).texts in ([], ["Hi."])
            telegram.cuts_after()
    assert outcomes == {"arrived", "unknown"}


async def test_files_are_sent_with_the_text_as_their_caption(
    telegram: BotApi, bot: TelegramAdapter, tmp_path: Path
) -> None:
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"\x89PNG\r\n--boundary")
    files = (Attachment("photo", path=str(picture)), Attachment("document", file_id="file-7"))
    async with bot.connect() as link:
        await link.send(message("**A cat.**", attachments=files))
        shown = telegram.chat("42").messages
        assert [(one.text, one.attachments[0].kind) for one in shown] == [
            ("A cat.", "photo"),
            ("", "document"),
        ]
        assert telegram.files[shown[0].attachments[0].file_id or ""] == picture.read_bytes()
        await link.send(message("word " * 400, attachments=files[:1]))
        assert [len(one.attachments) for one in telegram.chat("42").messages[2:]] == [0, 1]
        telegram.answers("sendDocument", bad("wrong file identifier"))
        with pytest.raises(OutcomeUnknown, match="A part of the message arrived"):
            await link.send(message("Both.", attachments=files))
        with pytest.raises(Refused, match="cannot be read"):
            await link.send(message("x", attachments=(Attachment("photo", path=str(tmp_path / "none")),)))


async def test_an_attachment_is_fetched_within_a_limit(telegram: BotApi, bot: TelegramAdapter) -> None:
    telegram.files["voice 1"] = data = bytes(range(256)) * 400
    async with bot.connect() as link:
        assert await link.fetch("voice 1", 200_000) == data
        with pytest.raises(Refused, match="The file has 102400 bytes"):
            await link.fetch("voice 1", 100_000)
        telegram.hides_sizes = True  # the real server sometimes leaves the size out
        with pytest.raises(Refused, match="more than 100000 bytes"):
            await link.fetch("voice 1", 100_000)
        with pytest.raises(Refused, match="wrong file_id"):
            await link.fetch("another", 100_000)
        telegram.cuts_after(sent=1000)
        with pytest.raises(LinkLost):
            await link.fetch("voice 1", 200_000)
        assert await link.fetch("voice 1", 200_000) == data, "the link still works"
    with pytest.raises(LinkLost):
        await link.fetch("voice 1", 200_000)


async def test_a_missing_file_and_an_unknown_method_are_no_invalid_token(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    telegram.files["voice 1"] = b"hello"
    async with bot.connect() as link, trio.open_nursery() as nursery:
        heard: list[str] = []
        nursery.start_soon(receive, link, heard)
        telegram.lost_files.add("voice 1")
        with pytest.raises(Refused, match="not there"):
            await link.fetch("voice 1", 100)
        telegram.answers("sendChatAction", ApiError(404, "Not Found: method not found"))
        with pytest.raises(Refused, match="method not found"):
            await link.typing("42", None)
        await telegram.says("still there?")
        nursery.cancel_scope.cancel()
    assert heard == ["still there?"]


async def test_texts_have_no_link_preview(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link:
        message_id = await link.send(message("See https://example.org/?secret=1"))
        assert message_id is not None
        await link.edit("42", message_id, "See https://example.org/?secret=2")
    for method in ("sendMessage", "editMessageText"):
        assert [one["link_preview_options"] for one in asked(telegram, method)] == [{"is_disabled": True}]


async def test_typing_is_not_requested_in_the_direct_messages_of_a_channel(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        await link.typing("-100", "direct-8")
        await link.typing("-100", "1")
    assert [one.get("message_thread_id") for one in asked(telegram, "sendChatAction")] == [1]


async def test_a_picture_that_telegram_refuses_is_sent_as_a_document(
    telegram: BotApi, bot: TelegramAdapter, tmp_path: Path
) -> None:
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"no picture at all")
    telegram.answers("sendPhoto", bad("IMAGE_PROCESS_FAILED"))
    async with bot.connect() as link:
        await link.send(message("A cat.", attachments=(Attachment("photo", path=str(picture)),)))
    [shown] = telegram.chat("42").messages
    assert [(one.kind, one.name) for one in shown.attachments] == [("document", "cat.png")]
