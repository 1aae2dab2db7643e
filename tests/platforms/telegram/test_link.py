"""A link to Telegram in bad weather: what is lost, refused, moved, flooded or cut, and what is said of it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
import trio

from hermes_platforms.telegram import from_config
from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.telegram_link import TelegramLink
from hermes_platforms.telegram.testing import ApiError, BotApi
from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.base.messages import Attachment, MessageEvent
from hermes_trio.platform.contract import (
    Button,
    ChatGone,
    CredentialsRefused,
    FloodWait,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
)


def message(text: str = "Hi.", *, chat: str = "42", **more: object) -> Outgoing:
    return Outgoing(chat_id=chat, text=text, key="key-1", **more)  # type: ignore[arg-type]


def bad(description: str) -> ApiError:
    return ApiError(400, f"Bad Request: {description}")


def asked(telegram: BotApi, method: str) -> list[dict[str, object]]:
    return [dict(one.params) for one in telegram.asked if one.method == method]


async def receive(link: TelegramLink, into: list[str]) -> None:
    async for event in link.receive():
        into.append(event.text)  # noqa: PERF401


# --- what is said to people ---


async def test_markdown_becomes_what_it_means(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link:
        message_id = await link.send(message("**Done.** See `a_b.py`"))
        assert message_id is not None
        assert telegram.chat("42").texts == ["Done. See a_b.py"]
        assert [one.kind for one in telegram.entities[message_id]] == ["bold", "code"]
        await link.edit("42", message_id, "*Really* done.")
        assert [one.kind for one in telegram.entities[message_id]] == ["italic"]


async def test_markup_that_is_refused_goes_without(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link:
        telegram.answers("sendMessage", bad("can't parse entities: Can't find end of Bold entity"))
        message_id = await link.send(message("**Done.**"))
        assert telegram.chat("42").texts == ["**Done.**"]
        assert message_id is not None
        telegram.answers("editMessageText", bad("can't parse entities: Character '.' is reserved"))
        await link.edit("42", message_id, "**Really.**")
        assert telegram.chat("42").texts == ["**Really.**"]


async def test_a_table_that_grows_over_the_limit_goes_as_it_was_written(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    table = "\n".join(["|a|b|", "|-|-|", *(["|1|2|"] * 400), f"|{'x' * 400}|2|"])
    assert len(table) < 4096
    async with bot.connect() as link:
        await link.send(message(table))
    assert telegram.chat("42").texts == [table]


@pytest.mark.parametrize(
    ("chat", "thread_id", "reply_to"),
    [("42", None, "7"), ("42", "5", "7"), ("-100", None, "7"), ("-100", "5", None)],
)
async def test_an_answer_says_what_it_answers_where_that_is_not_plain_to_see(
    telegram: BotApi, bot: TelegramAdapter, chat: str, thread_id: str | None, reply_to: str | None
) -> None:
    async with bot.connect() as link:
        await link.send(message(chat=chat, thread_id=thread_id, reply_to="7", silent=True))
    [shown] = telegram.chat(chat).messages
    assert (shown.thread_id, shown.reply_to, shown.silent) == (thread_id, reply_to, True)


async def test_an_answer_to_who_writes_to_a_channel_goes_into_his_topic(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        await link.typing("-100", "direct-8")
        await link.send(message(chat="-100", thread_id="direct-8", reply_to="7"))
    [sent] = asked(telegram, "sendMessage")
    assert (sent["direct_messages_topic_id"], "message_thread_id" in sent) == (8, False)
    assert [shown.reply_to for shown in telegram.chat("-100").messages] == ["7"]


async def test_the_general_topic_is_named_when_typing_and_never_when_sending(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        await link.typing("-100", "1")
        await link.send(message(chat="-100", thread_id="1"))
    [typing] = asked(telegram, "sendChatAction")
    [sent] = asked(telegram, "sendMessage")
    assert (typing["message_thread_id"], "message_thread_id" in sent) == (1, False)
    assert [shown.thread_id for shown in telegram.chat("-100").messages] == [None]


async def test_without_its_topic_or_what_it_answers_a_message_arrives_all_the_same(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    telegram.lost_threads.add(("42", "5"))
    telegram.lost_messages.add("7")
    async with bot.connect() as link:
        await link.send(message(thread_id="5", reply_to="7"))
    [shown] = telegram.chat("42").messages
    assert (shown.text, shown.thread_id, shown.reply_to) == ("Hi.", None, None)


async def test_a_group_that_has_become_another_is_followed(telegram: BotApi, bot: TelegramAdapter) -> None:
    moved = "group chat was upgraded to a supergroup chat"
    telegram.answers("sendMessage", ApiError(400, f"Bad Request: {moved}", migrate_to_chat_id=-1005))
    async with bot.connect() as link:
        await link.send(message(chat="-5"))
    assert telegram.chat("-1005").texts == ["Hi."]


@pytest.mark.parametrize(
    ("answer", "told"),
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
async def test_what_telegram_answers_is_told_as_what_it_is(
    telegram: BotApi, bot: TelegramAdapter, answer: ApiError | bytes, told: type[PlatformError]
) -> None:
    async with bot.connect() as link:
        telegram.answers("sendMessage", answer)
        with pytest.raises(PlatformError) as caught:
            await link.send(message())
        assert type(caught.value) is told
        assert len(asked(telegram, "sendMessage")) == 1
        await link.send(message())


async def test_an_edit_may_be_repeated_and_so_its_lost_answer_is_a_lost_link(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        message_id = await link.send(message())
        assert message_id is not None
        telegram.loses_answer("edit")
        with pytest.raises(LinkLost):
            await link.edit("42", message_id, "Other words")
        await link.edit("42", message_id, "Other words")  # it is not modified, which is what was wanted
        with pytest.raises(Refused, match="message to edit not found"):
            await link.edit("42", "999", "Other words")
        with pytest.raises(Refused, match="no id"):
            await link.send(message(thread_id="the second one"))


async def test_cut_at_any_byte_a_send_is_known_to_have_arrived_or_not_known(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    told = set()
    async with bot.connect() as link:
        for number in range(0, 400, 9):
            chat = str(1000 + number)
            telegram.cuts_after(**{"sent" if number % 2 else "received": number})
            try:
                assert await link.send(message(chat=chat)) is not None
                told.add("arrived")
                assert telegram.chat(chat).texts == ["Hi."]
            except OutcomeUnknown:
                told.add("unknown")
                assert telegram.chat(chat).texts in ([], ["Hi."])
            telegram.cuts_after()
    assert told == {"arrived", "unknown"}


async def test_files_go_out_with_the_text_as_their_caption(
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


async def test_what_people_send_along_can_be_had_within_a_limit(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    telegram.files["voice 1"] = data = bytes(range(256)) * 400
    async with bot.connect() as link:
        assert await link.fetch("voice 1", 200_000) == data
        with pytest.raises(Refused, match="The file has 102400 bytes"):
            await link.fetch("voice 1", 100_000)
        telegram.hides_sizes = True  # the real one does not always say
        with pytest.raises(Refused, match="more than 100000 bytes"):
            await link.fetch("voice 1", 100_000)
        with pytest.raises(Refused, match="wrong file_id"):
            await link.fetch("another", 100_000)
        telegram.cuts_after(sent=1000)
        with pytest.raises(LinkLost):
            await link.fetch("voice 1", 200_000)
        assert await link.fetch("voice 1", 200_000) == data, "and the link goes on"
    with pytest.raises(LinkLost):
        await link.fetch("voice 1", 200_000)


async def test_a_file_that_is_gone_or_a_method_that_is_not_known_says_nothing_of_our_token(
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


async def test_no_address_in_a_text_is_looked_at_before_a_person_does(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        message_id = await link.send(message("See https://example.org/?secret=1"))
        assert message_id is not None
        await link.edit("42", message_id, "See https://example.org/?secret=2")
    for method in ("sendMessage", "editMessageText"):
        assert [one["link_preview_options"] for one in asked(telegram, method)] == [{"is_disabled": True}]


async def test_where_no_typing_can_be_shown_nobody_is_asked_to(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link:
        await link.typing("-100", "direct-8")
        await link.typing("-100", "1")
    assert [one.get("message_thread_id") for one in asked(telegram, "sendChatAction")] == [1]


async def test_a_picture_that_is_not_taken_as_one_goes_as_a_document(
    telegram: BotApi, bot: TelegramAdapter, tmp_path: Path
) -> None:
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"no picture at all")
    telegram.answers("sendPhoto", bad("IMAGE_PROCESS_FAILED"))
    async with bot.connect() as link:
        await link.send(message("A cat.", attachments=(Attachment("photo", path=str(picture)),)))
    [shown] = telegram.chat("42").messages
    assert [(one.kind, one.name) for one in shown.attachments] == [("document", "cat.png")]


async def test_the_menu_has_the_commands(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect():
        assert {"help", "stop", "new", "status"} <= telegram.commands.keys()
        assert "start" not in telegram.commands


# --- what people say ---


async def test_what_cannot_be_read_is_handed_over_as_it_came_and_does_not_come_again(
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


async def test_a_button_comes_to_rest_once_its_press_is_stored_also_if_that_fails_at_first(
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
        assert telegram.pressed == [], "nobody has stored it yet"
        telegram.answers("answerCallbackQuery", bad("query is too old and response timeout expired"))
        assert (await anext(events)).kind == "callback"
        assert (await anext(events)).text == "hello"
        assert telegram.pressed == [again.message_id]


async def test_talk_that_is_not_for_us_is_confirmed_and_not_heard(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    heard: list[str] = []
    async with bot.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receive, link, heard)
        await telegram.says("hello all", chat="-100", chat_type="group", user="7")
        await telegram.says("hello @hermes_bot", chat="-100", chat_type="group", user="7")
        nursery.cancel_scope.cancel()
    assert heard == ["hello @hermes_bot"]


async def test_an_album_is_heard_whole_though_only_its_first_picture_names_us(
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


async def test_a_bad_moment_of_the_server_ends_no_link(telegram: BotApi, bot: TelegramAdapter) -> None:
    heard: list[str] = []
    async with bot.connect() as link, trio.open_nursery() as nursery:
        telegram.answers("getUpdates", ApiError(502, "Bad Gateway"), b"<html>")
        nursery.start_soon(receive, link, heard)
        await telegram.says("hello")
        nursery.cancel_scope.cancel()
    assert heard == ["hello"]


async def test_another_reader_of_the_same_bot_is_named(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link:
        telegram.answers("getUpdates", ApiError(409, "Conflict: terminated by other getUpdates request"))
        with pytest.raises(LinkLost, match="Another program reads this bot's messages"):
            await anext(link.receive())


async def test_one_process_of_this_machine_has_the_bot_and_whoever_leaves_gives_it_back(
    telegram: BotApi, bot: TelegramAdapter, state_home: Path
) -> None:
    other = TelegramAdapter(telegram.token, base_url=telegram.base_url)
    async with bot.connect():
        with pytest.raises(LinkLost, match="Another process on this machine uses this bot"):
            async with other.connect():
                pass
    async with other.connect():
        pass
    assert all(telegram.token not in str(path) for path in state_home.rglob("*"))


async def test_a_webhook_of_old_is_taken_away_and_what_waited_for_it_is_heard(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    telegram.webhook = "https://old.example/hook"
    telegram.post("are you there?")
    async with bot.connect() as link:
        assert (await anext(link.receive())).text == "are you there?"


async def test_a_token_that_is_revoked_ends_the_link_for_good_also_in_the_middle_of_a_poll(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with bot.connect() as link, trio.open_nursery() as nursery:

        async def poll() -> None:
            with pytest.raises(CredentialsRefused):
                await anext(link.receive())

        nursery.start_soon(poll)
        await telegram.until(lambda: bool(asked(telegram, "getUpdates")))
        telegram.refuses()
    with pytest.raises(CredentialsRefused):
        async with bot.connect():
            pass


async def test_a_send_that_finds_the_token_revoked_takes_the_link_along(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    telegram.answers("sendMessage", ApiError(401, "Unauthorized"))
    async with bot.connect() as link, trio.open_nursery() as nursery:

        async def poll() -> None:
            with pytest.raises(LinkLost, match="does not know our token"):
                await anext(link.receive())

        nursery.start_soon(poll)
        await telegram.until(lambda: bool(asked(telegram, "getUpdates")))
        with pytest.raises(NotSent):
            await link.send(message())


async def test_without_a_network_nothing_is_sent_the_link_is_lost_and_later_all_is_well(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    heard: list[str] = []
    lost: list[LinkLost] = []

    async def poll(link: TelegramLink) -> None:
        try:
            await receive(link, heard)
        except LinkLost as error:
            lost.append(error)

    async with bot.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(poll, link)
        await telegram.says("hello")
        async with telegram.away():
            with pytest.raises(NotSent):
                await link.send(message())
            with pytest.raises(LinkLost):
                await link.typing("42", None)
        # The poll did not go on being patient for itself.
    assert len(lost) == 1
    with pytest.raises(LinkLost):
        await anext(link.receive())
    telegram.post("anybody there?")
    async with bot.connect() as link:
        assert (await anext(link.receive())).text == "anybody there?"
        await link.send(message())
    assert telegram.chat("42").texts == ["Hi."]


async def test_a_moment_without_a_network_is_waited_out(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link, trio.open_nursery() as nursery, telegram.away():
        nursery.start_soon(link.send, message())
        await trio.sleep(0.3)
    assert telegram.chat("42").texts == ["Hi."]


async def test_where_nobody_listens_the_link_is_lost_and_the_bot_is_free(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    async with telegram.away():
        for _ in range(2):
            with pytest.raises(LinkLost, match="cannot be reached"):
                async with bot.connect():
                    pass


async def test_the_token_is_in_no_log_and_in_no_error(
    telegram: BotApi, bot: TelegramAdapter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    errors: list[BaseException] = []
    async with bot.connect() as link:
        telegram.answers("sendMessage", ApiError(400, f"Bad Request: {telegram.token}"), b"<html>")
        telegram.answers("getUpdates", ApiError(409, "Conflict"))
        for _ in range(2):
            with pytest.raises(PlatformError) as caught:
                await link.send(message())
            errors.append(caught.value)
        with pytest.raises(LinkLost) as conflict:
            await anext(link.receive())
        errors.append(conflict.value)
        telegram.cuts_after(sent=5)
        with pytest.raises(OutcomeUnknown) as unknown:
            await link.send(message())
        errors.append(unknown.value)
    telegram.refuses()
    with pytest.raises(CredentialsRefused) as refused:
        async with bot.connect():
            pass
    errors.append(refused.value)
    secret = telegram.token.partition(":")[2]
    for error in errors:
        chain: BaseException | None = error
        while chain is not None:
            assert secret not in f"{chain!r} {chain}"
            chain = chain.__cause__
    assert secret not in caplog.text
    assert secret not in repr(bot)


# --- its configuration ---


@pytest.mark.parametrize(
    ("keys", "wrong"),
    [
        ({}, "token"),
        ({"token": "hunter2-hunter2"}, "token"),
        ({"token": "123456:AAsimulated-token-of-nobody\n"}, "token"),
        ({"token": "123456:AAsimulated-token-of-nobody", "base_url": "my-server"}, "base_url"),
        ({"token": "123456:AAsimulated-token-of-nobody", "base_url": "http://host:port"}, "base_url"),
        ({"token": "123456:AAsimulated-token-of-nobody", "base_url": "http://[::1"}, "base_url"),
        ({"token": "123456:AAsimulated-token-of-nobody", "base_url": "http://my server"}, "base_url"),
        ({"token": "123456:AAsimulated-token-of-nobody", "allow_from": ("42", "bob")}, "allow_from"),
        ({"token": "123456:AAsimulated-token-of-nobody", "allow_from": ("@bob",)}, "allow_from"),
        ({"token": "123456:AAsimulated-token-of-nobody", "allow_from": ("0042",)}, "allow_from"),
        ({"token": "123456:AAsimulated-token-of-nobody", "allow_admin_from": ("+4912",)}, "allow_admin_from"),
    ],
)
def test_what_is_wrong_with_the_configuration_is_named_and_no_token_is_shown(
    keys: dict[str, str], wrong: str
) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        from_config(PlatformConfig(**keys))  # type: ignore[arg-type]
    assert caught.value.key == f"platforms.telegram.{wrong}"
    assert keys.get("token", "hunter") not in str(caught.value)


async def test_it_is_made_from_the_configuration(telegram: BotApi, state_home: Path) -> None:
    config = PlatformConfig(token=telegram.token, base_url=telegram.base_url + "/", require_mention=False)
    telegram.post("hello all", chat="-100", chat_type="group", user="7")
    async with from_config(config).connect() as link:
        event = await anext(link.receive())
    assert isinstance(event, MessageEvent)
    assert event.text == "hello all"
