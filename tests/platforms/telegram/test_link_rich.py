"""Rich messages, drafts and reactions over the link, and the way back where a server refuses them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hermes_platforms.telegram import from_config
from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.telegram_link import CLASSIC
from hermes_platforms.telegram.testing import ApiError, BotApi
from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.platform import Draft, FloodWait, OutcomeUnknown, Refused
from tests.platforms.telegram.link_calls import asked, bad, message

TABLE = "|Item|Price|\n|-|-|\n|Tea|4|"
SHOWN = "Item\tPrice\nTea\t4"
LONG = "word " * 4000
NO_METHOD = ApiError(404, "Not Found: method not found")


async def test_a_table_is_sent_and_edited_as_a_rich_message(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link:
        message_id = await link.send(message("…"))
        assert message_id is not None
        for _ in range(2):  # a repeated edit changes nothing
            await link.edit("42", message_id, TABLE)
        await link.send(message(TABLE))
        assert telegram.chat("42").texts == [SHOWN, SHOWN]
        assert len(asked(telegram, "sendMessage")) == 1, "a text without a table is a message as before"


@pytest.mark.parametrize("error", [NO_METHOD, bad("RICH_MESSAGE_EMAIL_INVALID"), bad("can't parse")])
async def test_a_refused_rich_message_is_sent_as_markdown(
    telegram: BotApi, bot: TelegramAdapter, error: ApiError
) -> None:
    async with bot.connect() as link:
        telegram.answers("sendRichMessage", error)
        message_id = await link.send(message(TABLE))
        assert message_id is not None
        telegram.answers("editMessageText", error)
        await link.edit("42", message_id, TABLE + "\n|Cake|5|")
        [text] = telegram.chat("42").texts
        assert "Cake | 5" in text


async def test_a_long_text_is_one_rich_message_or_several_of_the_classic_form(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        await link.send(message(LONG))
        assert telegram.chat("42").texts == [LONG.strip()]
        telegram.answers("sendRichMessage", NO_METHOD)
        await link.send(message(LONG, chat="43"))
        texts = telegram.chat("43").texts
        assert len(texts) == 5
        assert sum(text.count("word") for text in texts) == 4000
        telegram.answers("editMessageText", NO_METHOD)
        with pytest.raises(Refused):  # the gateway then sends it as a message of its own
            await link.edit("43", telegram.chat("43").messages[0].message_id, LONG)


async def test_a_rich_message_of_unknown_outcome_is_not_sent_again(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        telegram.loses_answer()
        with pytest.raises(OutcomeUnknown):
            await link.send(message(TABLE))
        telegram.fails("send", FloodWait(7))
        with pytest.raises(FloodWait):
            await link.send(message(TABLE))
        assert telegram.chat("42").texts == [SHOWN]
        assert asked(telegram, "sendMessage") == []


async def test_a_part_that_fails_makes_the_outcome_of_the_whole_text_unknown(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        telegram.answers("sendRichMessage", NO_METHOD)
        sent: list[str] = []
        telegram.at_request(3, lambda: sent.append("second part"), done=False)
        with pytest.raises(OutcomeUnknown):
            await link.send(message(LONG))
        assert len(telegram.chat("42").texts) == len(sent) == 1


async def test_without_rich_messages_no_text_is_one(telegram: BotApi) -> None:
    bot = TelegramAdapter(telegram.token, base_url=telegram.base_url, traits=CLASSIC)
    async with bot.connect() as link:
        await link.send(message(TABLE))
        assert asked(telegram, "sendRichMessage") == []


async def test_a_draft_has_the_stop_button_and_its_form_follows_its_text(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        for text in ("", "**Bold**", TABLE):
            await link.draft(Draft(chat_id="42", number=5, text=text, thread_id="9"))
        shown = telegram.chat("42").draft
        assert shown == Draft(chat_id="42", number=5, text=SHOWN, thread_id="9")
        assert telegram.stoppable
        assert [len(asked(telegram, name)) for name in ("sendMessageDraft", "sendRichMessageDraft")] == [2, 1]


async def test_a_draft_is_refused_outside_of_private_chats_and_by_an_old_server(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        with pytest.raises(Refused):
            await link.draft(Draft(chat_id="-100", number=5))
        telegram.answers("sendMessageDraft", NO_METHOD)
        with pytest.raises(Refused):
            await link.draft(Draft(chat_id="42", number=5))


async def test_the_stop_of_a_draft_is_not_acknowledged_as_a_press(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    stopped = {"chat": {"id": 42, "type": "private"}, "draft_id": 5, "message_thread_id": 9}
    telegram.sends({"stopped_message_generation": stopped})
    telegram.post("hello")
    async with bot.connect() as link:
        events = link.receive()
        event = await anext(events)
        assert (event.text, event.source.chat_id, event.source.user_id) == ("stopped-draft:5", "42", "42")
        assert event.source.thread_id == "9"
        assert (await anext(events)).text == "hello"
        assert telegram.pressed == []


def test_the_configuration_switches_rich_messages_drafts_and_reactions() -> None:
    def traits(**options: object) -> tuple[int, bool, bool]:
        token = "123456789:AAsimulated-token-of-nobody-000000000"
        it = from_config(PlatformConfig(token=token, options=dict(options))).traits
        return it.limit, it.drafts, it.reacts

    assert traits() == (32_768, True, False)
    assert traits(rich_messages=False, drafts=False, reactions=True) == (4096, False, True)
    with pytest.raises(ConfigInvalid, match="rich_messages"):
        traits(rich_messages="no")
    assert replace(CLASSIC, drafts=False).counting == "utf-16"
