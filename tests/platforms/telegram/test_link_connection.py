"""The link to Telegram: connecting, losing the connection, the token, and the configuration."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio

from hermes_platforms.telegram import from_config
from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.telegram_link import TelegramLink
from hermes_platforms.telegram.testing import ApiError, BotApi
from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.base.messages import MessageEvent
from hermes_trio.platform.contract import (
    CredentialsRefused,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    PlatformError,
)
from tests.platforms.telegram.link_calls import asked, message, receive


async def test_the_command_menu_has_the_listed_commands(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect():
        assert {"help", "stop", "new", "status"} <= telegram.commands.keys()
        assert "start" not in telegram.commands


async def test_a_bot_has_one_link_on_this_machine_until_it_is_left(
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


async def test_an_old_webhook_is_removed_and_its_waiting_updates_are_delivered(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    telegram.webhook = "https://old.example/hook"
    telegram.post("are you there?")
    async with bot.connect() as link:
        assert (await anext(link.receive())).text == "are you there?"


async def test_a_revoked_token_raises_credentials_refused_also_during_a_poll(
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


async def test_a_send_with_a_revoked_token_ends_the_link(telegram: BotApi, bot: TelegramAdapter) -> None:
    telegram.answers("sendMessage", ApiError(401, "Unauthorized"))
    async with bot.connect() as link, trio.open_nursery() as nursery:

        async def poll() -> None:
            with pytest.raises(LinkLost, match="no longer accepts the token"):
                await anext(link.receive())

        nursery.start_soon(poll)
        await telegram.until(lambda: bool(asked(telegram, "getUpdates")))
        with pytest.raises(NotSent):
            await link.send(message())


async def test_a_link_without_a_network_is_lost_and_a_later_one_works(
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
        # The failed call has also ended the retries of the poll.
    assert len(lost) == 1
    with pytest.raises(LinkLost):
        await anext(link.receive())
    telegram.post("anybody there?")
    async with bot.connect() as link:
        assert (await anext(link.receive())).text == "anybody there?"
        await link.send(message())
    assert telegram.chat("42").texts == ["Hi."]


async def test_a_short_network_failure_delays_a_send(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link, trio.open_nursery() as nursery, telegram.away():
        nursery.start_soon(link.send, message())
        await trio.sleep(0.3)
    assert telegram.chat("42").texts == ["Hi."]


async def test_a_failed_connection_leaves_the_bot_free(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with telegram.away():
        for _ in range(2):
            with pytest.raises(LinkLost, match="cannot be reached"):
                async with bot.connect():
                    pass


async def test_the_token_is_in_no_log_record_and_in_no_error(
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
def test_a_mistake_in_the_configuration_is_reported_without_the_token(
    keys: dict[str, str], wrong: str
) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        from_config(PlatformConfig(**keys))  # type: ignore[arg-type]
    assert caught.value.key == f"platforms.telegram.{wrong}"
    assert keys.get("token", "hunter") not in str(caught.value)


async def test_an_adapter_is_made_from_the_configuration(telegram: BotApi, state_home: Path) -> None:
    config = PlatformConfig(token=telegram.token, base_url=telegram.base_url + "/", require_mention=False)
    telegram.post("hello all", chat="-100", chat_type="group", user="7")
    async with from_config(config).connect() as link:
        event = await anext(link.receive())
    assert isinstance(event, MessageEvent)
    assert event.text == "hello all"
