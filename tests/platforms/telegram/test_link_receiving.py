"""The link to Telegram: events of people, and updates that are refused or ignored."""

from __future__ import annotations

import json

import pytest
import trio

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.testing import ApiError, BotApi
from hermes_trio.platform.contract import (
    Button,
    LinkLost,
)
from tests.platforms.telegram.link_calls import bad, message, receive


async def test_an_unreadable_update_is_delivered_as_it_came_and_does_not_come_again(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    confirmed = telegram.sends({"message": {"message_id": "no number", "text": "Ünlesbar"}})
    async with bot.connect() as link, trio.open_nursery() as nursery:
        events = link.receive()
        unreadable = await anext(events)
        assert (unreadable.kind, unreadable.message_id) == ("unreadable", "update:1")
        why, _, payload = unreadable.text.partition("\n")
        assert "message_id" in why
        assert json.loads(payload)["message"]["text"] == "Ünlesbar"
        telegram.post("hello")
        assert (await anext(events)).text == "hello"
        await confirmed.wait()
        nursery.cancel_scope.cancel()


async def test_a_press_is_acknowledged_once_it_is_stored_also_after_a_failed_acknowledgement(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        await link.send(message(buttons=(Button("Yes", "ask:1:once"),)))
        pressed, again = telegram.press("Yes"), telegram.press("Yes")
        for one in (pressed, again):
            telegram.deliver(one)
        telegram.post("hello")
        events = link.receive()
        assert (await anext(events)).kind == "callback"
        assert telegram.pressed == [], "the press is not stored yet"
        telegram.answers("answerCallbackQuery", bad("query is too old and response timeout expired"))
        assert (await anext(events)).kind == "callback"
        assert (await anext(events)).text == "hello"
        assert telegram.pressed == [again.message_id]


async def test_a_message_that_is_not_for_the_bot_is_confirmed_and_not_delivered(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    heard: list[str] = []
    async with bot.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receive, link, heard)
        await telegram.says("hello all", chat="-100", chat_type="group", user="7")
        await telegram.says("hello @hermes_bot", chat="-100", chat_type="group", user="7")
        nursery.cancel_scope.cancel()
    assert heard == ["hello @hermes_bot"]


async def test_all_pictures_of_an_album_that_mentions_the_bot_are_delivered(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    group = {"id": -100, "type": "supergroup", "title": "Friends"}
    kim = {"id": 7, "is_bot": False, "first_name": "Kim"}

    def picture(number: int, album: str | None, **more: object) -> dict[str, object]:
        photo = [{"file_id": f"p{number}", "width": 90}]
        message = {"message_id": number, "date": 1, "chat": group, "from": kim, "photo": photo, **more}
        return {"message": message if album is None else {**message, "media_group_id": album}}

    marks = [{"type": "mention", "offset": 0, "length": 11}]
    telegram.sends(picture(1, "of others"))
    telegram.sends(picture(2, "ours", caption="@hermes_bot which?", caption_entities=marks))
    telegram.post("meanwhile", chat="43")
    telegram.sends(picture(3, "ours"))
    telegram.sends(picture(4, "of others"))
    telegram.sends(picture(5, None))
    telegram.sends(picture(6, "ours"))
    telegram.post("the end")
    heard: list[str | None] = []
    async with bot.connect() as link:
        async for event in link.receive():
            if event.text == "the end":
                break
            heard.append(event.attachments[0].file_id if event.attachments else event.text)
    assert heard == ["p2", "meanwhile", "p3", "p6"]


async def test_a_failed_poll_is_repeated_and_the_link_lives(telegram: BotApi, bot: TelegramAdapter) -> None:
    heard: list[str] = []
    async with bot.connect() as link, trio.open_nursery() as nursery:
        telegram.answers("getUpdates", ApiError(502, "Bad Gateway"), b"<html>")
        nursery.start_soon(receive, link, heard)
        await telegram.says("hello")
        nursery.cancel_scope.cancel()
    assert heard == ["hello"]


async def test_another_program_that_polls_the_bot_is_reported(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link:
        telegram.answers("getUpdates", ApiError(409, "Conflict: terminated by other getUpdates request"))
        with pytest.raises(LinkLost, match="Another program reads this bot's messages"):
            await anext(link.receive())
