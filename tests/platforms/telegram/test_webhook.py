"""Updates by webhook: an update is confirmed once it is stored, and requests of others are refused."""

from __future__ import annotations

import json
import os
import sys
from contextlib import AsyncExitStack

import pytest
import trio

from hermes_platforms.posted_requests import MOST_UNVERIFIED
from hermes_platforms.telegram import from_config
from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.testing import BotApi
from hermes_platforms.telegram.testing.bot_api_webhook import post
from hermes_platforms.telegram.webhook import Webhook
from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.platform.contract import LinkLost, Outgoing
from tests.platforms.conftest import SECRET, free_webhook

TOKEN = "123456:AAsimulated-token-of-nobody-000000000"


@pytest.fixture
async def hook() -> Webhook:
    return await free_webhook()


@pytest.fixture
def bot(telegram: BotApi, hook: Webhook) -> TelegramAdapter:
    return TelegramAdapter(telegram.token, base_url=telegram.base_url, webhook=hook)


async def test_connecting_sets_the_webhook_with_its_secret(
    telegram: BotApi, bot: TelegramAdapter, hook: Webhook
) -> None:
    async with bot.connect():
        [params] = [one.params for one in telegram.asked if one.method == "setWebhook"]
        assert (params["url"], params["secret_token"], params["max_connections"]) == (hook.url, SECRET, 1)
        assert "message" in params["allowed_updates"]
    assert SECRET not in repr(hook)


async def test_an_update_is_confirmed_when_the_next_one_is_requested_and_else_comes_again(
    telegram: BotApi, bot: TelegramAdapter
) -> None:
    telegram.post("hello")
    async with bot.connect() as link:
        assert (await anext(link.receive())).text == "hello"
        await trio.sleep(0.2)
        assert len(telegram.waiting) == 1
    # The link ended without a confirmation, so the update comes again.
    async with bot.connect() as link, trio.open_nursery() as nursery:
        events = link.receive()
        assert (await anext(events)).text == "hello"
        nursery.start_soon(anext, events)
        await telegram.until(lambda: not telegram.waiting)
        nursery.cancel_scope.cancel()
    assert telegram.brought_in_vain > 0


@pytest.mark.parametrize(
    ("secret", "path", "method", "body", "status"),
    [
        ("another", "/telegram", "POST", b'{"update_id": 1}', 403),
        ("", "/telegram", "POST", b'{"update_id": 1}', 403),
        (SECRET, "/", "POST", b'{"update_id": 1}', 404),
        (SECRET, "/telegram", "GET", b"", 405),
        (SECRET, "/telegram", "POST", b"{not json", 400),
        (SECRET, "/telegram", "POST", b"[" * 100_000, 400),
        (SECRET, "/telegram", "POST", b'{"no": "number"}', 400),
        (SECRET, "/telegram", "POST", b" " * (2 << 20), 413),
    ],
)
async def test_requests_that_telegram_did_not_send_are_refused(
    bot: TelegramAdapter, hook: Webhook, secret: str, path: str, method: str, body: bytes, status: int
) -> None:
    heard: list[str] = []
    async with bot.connect() as link, trio.open_nursery() as nursery:

        async def receive() -> None:
            heard.extend([event.text async for event in link.receive()])

        nursery.start_soon(receive)
        url = f"http://127.0.0.1:{hook.port}{path}"
        # The server may close the connection before two megabytes are sent.
        assert await post(url, body, secret, method=method) in (status, None if status == 413 else status)
        nursery.cancel_scope.cancel()
    assert heard == []


POSTS = """
import http.client, sys
server = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
body = '{"update_id": 1, "message": {"message_id": 1, "date": 1, "text": "/approve", '
body += '"chat": {"id": 42, "type": "private"}, "from": {"id": 42, "is_bot": false, "first_name": "Kim"}}}'
server.request("POST", "/telegram", body, {"X-Telegram-Bot-Api-Secret-Token": sys.argv[2]})
print(server.getresponse().status)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked who has connected")
async def test_a_process_of_the_agent_is_refused_although_it_knows_the_secret(
    bot: TelegramAdapter, hook: Webhook
) -> None:
    command = [sys.executable, "-S", "-c", POSTS, str(hook.port), SECRET]
    environ = {**os.environ, "HERMES_TRIO_GROUP": "a-command-of-the-agent"}
    async with bot.connect() as link, trio.open_nursery() as nursery:
        heard: list[str] = []

        async def receive() -> None:
            heard.extend([event.text async for event in link.receive()])

        nursery.start_soon(receive)
        refused = await trio.run_process(command, env=environ, capture_stdout=True)
        assert (refused.stdout, heard) == (b"403\n", [])
        nursery.cancel_scope.cancel()


async def test_idle_connections_do_not_keep_telegram_out(
    telegram: BotApi, bot: TelegramAdapter, hook: Webhook
) -> None:
    async with bot.connect() as link, AsyncExitStack() as slow:
        for _ in range(3 * MOST_UNVERIFIED):
            stream = await slow.enter_async_context(await trio.open_tcp_stream("127.0.0.1", hook.port))
            await stream.send_all(b"POST /telegram HTTP/1.1\r\nHost: x\r\n")
        telegram.post("hello")
        assert (await anext(link.receive())).text == "hello"


async def test_invalid_http_disturbs_no_later_update(
    telegram: BotApi, bot: TelegramAdapter, hook: Webhook
) -> None:
    async with bot.connect() as link:
        for rubbish in (b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01" * 400, b""):
            async with await trio.open_tcp_stream("127.0.0.1", hook.port) as stream:
                await stream.send_all(rubbish)
        telegram.post("hello")
        assert (await anext(link.receive())).text == "hello"


async def test_a_webhook_link_without_a_network_is_lost(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link, trio.open_nursery() as nursery:

        async def receive() -> None:
            with pytest.raises(LinkLost):
                await anext(link.receive())

        nursery.start_soon(receive)
        async with telegram.away():
            with pytest.raises(LinkLost):
                await link.edit("42", "1", "Other words")


async def test_a_port_in_use_is_reported(bot: TelegramAdapter, hook: Webhook) -> None:
    [listener] = await trio.open_tcp_listeners(hook.port, host="127.0.0.1")
    async with listener:
        with pytest.raises(LinkLost, match=f"cannot listen on 127.0.0.1:{hook.port}"):
            async with bot.connect():
                pass


async def test_an_error_in_the_block_of_a_webhook_link_is_raised_unchanged(bot: TelegramAdapter) -> None:
    with pytest.raises(KeyError):
        async with bot.connect():
            raise KeyError("mine")


async def test_a_webhook_is_made_from_the_configuration(telegram: BotApi, hook: Webhook) -> None:
    options = {
        "webhook_url": hook.url,
        "webhook_secret": SECRET,
        "webhook_listen": f"127.0.0.1:{hook.port}",
    }
    config = PlatformConfig(token=telegram.token, base_url=telegram.base_url, options=options)
    telegram.post("hello")
    async with from_config(config).connect() as link:
        assert (await anext(link.receive())).text == "hello"
        await link.send(Outgoing(chat_id="42", text="Hi", key="k"))
    assert telegram.chat("42").texts == ["Hi"]


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"webhook_url": "example.org"}, "webhook_url"),
        ({"webhook_url": "https://example.org"}, "webhook_url"),
        ({"webhook_url": "https://[::1/hook"}, "webhook_url"),
        ({"webhook_url": "https://example.org/hook?of=mine"}, "webhook_url"),
        ({"webhook_url": "https://example.org/hook"}, "webhook_secret"),
        ({"webhook_url": "https://example.org/hook", "webhook_secret": "short"}, "webhook_secret"),
        (
            {"webhook_url": "https://example.org/hook", "webhook_secret": SECRET, "webhook_listen": "8443"},
            "webhook_listen",
        ),
    ],
)
def test_a_mistake_in_the_webhook_configuration_is_reported_with_its_key(
    options: dict[str, str], wrong: str
) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        from_config(PlatformConfig(token=TOKEN, options=options))
    assert caught.value.key == f"platforms.telegram.{wrong}"
    assert json.dumps(options).count(SECRET) == 0 or SECRET not in str(caught.value)
