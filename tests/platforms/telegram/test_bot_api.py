"""The Bot API server for tests, called by a plain HTTP client: it behaves as the manual of the real one
says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx  # noqa: ASYNC127
import pytest
import trio

from hermes_platforms.telegram.testing import ApiError, BotApi, open_bot_api
from hermes_trio.base.messages import Attachment, MessageEvent, SessionSource


@pytest.fixture
async def telegram() -> AsyncIterator[BotApi]:
    async with open_bot_api() as server:
        with trio.fail_after(20):
            yield server


class Client:
    """A client that returns every answer."""

    def __init__(self, telegram: BotApi, http: httpx.AsyncClient) -> None:
        self.http, self.root = http, f"{telegram.base_url}/bot{telegram.token}"

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        answer = await self.http.post(f"{self.root}/{method}", json=params)
        body: dict[str, Any] = answer.json()
        assert body["ok"] is (answer.status_code == 200)
        assert body.get("error_code", 200) == answer.status_code
        return body

    async def texts(self, **params: Any) -> list[str]:
        updates = (await self.ask("getUpdates", **params))["result"]
        return [update["message"]["text"] for update in updates]


@pytest.fixture
async def client(telegram: BotApi) -> AsyncIterator[Client]:
    async with httpx.AsyncClient(trust_env=False, timeout=None) as http:  # noqa: S113
        yield Client(telegram, http)


async def test_only_a_higher_offset_confirms_an_update(telegram: BotApi, client: Client) -> None:
    for text in ("one", "two", "three"):
        telegram.post(text)
    assert await client.texts() == await client.texts() == ["one", "two", "three"]
    assert await client.texts(limit=1) == ["one"]
    first = (await client.ask("getUpdates"))["result"][0]["update_id"]
    assert await client.texts(offset=first + 1) == ["two", "three"]
    assert await client.texts(offset=first) == ["two", "three"]
    assert (await client.ask("getWebhookInfo"))["result"]["pending_update_count"] == 2


async def test_a_long_poll_waits_for_an_update(telegram: BotApi, client: Client) -> None:
    async with trio.open_nursery() as nursery:

        async def poll() -> None:
            assert await client.texts(timeout=50) == ["hello"]

        nursery.start_soon(poll)
        await telegram.until(lambda: bool(telegram.asked))
        telegram.post("hello")
    assert await client.texts(offset=2, timeout=0) == []


async def test_a_second_poll_ends_the_first(telegram: BotApi, client: Client) -> None:
    async with trio.open_nursery() as nursery:

        async def first() -> None:
            answer = await client.ask("getUpdates", timeout=50)
            assert (answer["error_code"], answer["description"].partition(":")[0]) == (409, "Conflict")

        nursery.start_soon(first)
        await telegram.until(lambda: bool(telegram.asked))
        assert await client.texts() == []


async def test_polls_are_refused_while_a_webhook_is_set(telegram: BotApi, client: Client) -> None:
    telegram.post("hello")
    await client.ask("setWebhook", url="https://example.org/hook")
    assert (await client.ask("getUpdates"))["error_code"] == 409
    await client.ask("deleteWebhook")
    assert await client.texts() == ["hello"]


async def test_parameters_are_accepted_in_every_encoding(telegram: BotApi, client: Client) -> None:
    hello = {"chat_id": "42", "text": "hello", "disable_notification": "true"}
    for sending in (
        client.http.get(f"{client.root}/sendMessage", params=hello),
        client.http.post(f"{client.root}/sendmessage", data=hello),
        client.http.post(f"{client.root}/SendMessage", json={**hello, "chat_id": 42}),
        client.http.post(f"{client.root}/sendMessage", files={name: (None, v) for name, v in hello.items()}),
    ):
        assert (await sending).json()["ok"]
    assert telegram.chat("42").texts == ["hello"] * 4
    assert all(shown.silent for shown in telegram.chat("42").messages)


async def test_a_sent_file_can_be_downloaded(telegram: BotApi, client: Client) -> None:
    data = bytes(range(256))
    answer = await client.http.post(
        f"{client.root}/sendDocument", data={"chat_id": "42"}, files={"document": ("a.bin", data)}
    )
    assert answer.json()["ok"]
    [file] = telegram.chat("42").messages[0].attachments
    path = (await client.ask("getFile", file_id=file.file_id))["result"]["file_path"]
    download = await client.http.get(f"{telegram.base_url}/file/bot{telegram.token}/{path}")
    assert download.content == data


@pytest.mark.parametrize(
    ("method", "params", "problem"),
    [
        ("sendMessage", {"text": "a.b", "parse_mode": "MarkdownV2"}, "can't parse entities: Character '.'"),
        ("sendMessage", {"text": "x" * 4097}, "message is too long"),
        ("sendMessage", {"text": "😀" * 2049}, "message is too long"),
        ("sendMessage", {"text": " \n"}, "message text is empty"),
        ("sendMessage", {"text": "x", "message_thread_id": 1}, "message thread not found"),
        ("sendMessage", {"text": "x", "parse_mode": "XML"}, "unsupported parse_mode"),
        ("sendMessage", {}, "message text is empty"),
        ("editMessageText", {"text": "x", "message_id": 99}, "message to edit not found"),
        ("editMessageText", {"text": "hello", "message_id": 1}, "message is not modified"),
        ("deleteMessage", {"message_id": 99}, "message to delete not found"),
        ("sendPhoto", {"caption": "x" * 1025, "photo": "id"}, "message caption is too long"),
        ("getFile", {"file_id": "none"}, "wrong file_id"),
    ],
)
async def test_an_invalid_request_is_refused_with_the_text_of_the_server(
    client: Client, method: str, params: dict[str, Any], problem: str
) -> None:
    await client.ask("sendMessage", chat_id=42, text="hello")
    answer = await client.ask(method, **{"chat_id": 42, **params})
    assert (answer["error_code"], answer["description"].startswith(f"Bad Request: {problem}")) == (400, True)


async def test_a_wrong_token_is_refused(telegram: BotApi, client: Client) -> None:
    client.root = client.root[:-1]
    assert (await client.ask("getMe"))["error_code"] == 401
    client.root = telegram.base_url + "/nothing"
    assert (await client.ask("getMe"))["error_code"] == 404


async def test_a_test_can_prepare_answers(telegram: BotApi, client: Client) -> None:
    telegram.answers("sendMessage", ApiError(429, "Too Many Requests: retry after 3", retry_after=3))
    flood = await client.ask("sendMessage", chat_id=42, text="hello")
    assert flood["parameters"] == {"retry_after": 3}
    telegram.loses_answer()
    with pytest.raises(httpx.RemoteProtocolError):
        await client.ask("sendMessage", chat_id=42, text="hello")
    assert telegram.chat("42").texts == ["hello"]
    async with telegram.away():
        with pytest.raises(httpx.ConnectError):
            await client.ask("getMe")
    assert (await client.ask("getMe"))["result"]["username"] == "hermes_bot"


async def test_files_and_edits_of_people_become_updates(telegram: BotApi, client: Client) -> None:
    source = SessionSource("telegram", "42", user_id="42")
    photo = MessageEvent(source, "look", "7", attachments=(Attachment("photo", file_id="p"),))
    telegram.deliver(photo)
    telegram.deliver(MessageEvent(source, "looks", "7", edited=True, sent_at=50.0))
    telegram.sends({"poll": {"id": "8"}})
    first, second, third = (await client.ask("getUpdates"))["result"]
    assert [size["file_id"] for size in first["message"]["photo"]] == ["p-small", "p"]
    assert first["message"]["caption"] == "look"
    assert second["edited_message"]["edit_date"] == 50
    assert third == {"update_id": 3, "poll": {"id": "8"}}


async def test_a_client_that_hangs_up_during_a_poll_is_noticed_at_once(
    telegram: BotApi, client: Client
) -> None:
    with trio.move_on_after(0.3):
        await client.ask("getUpdates", timeout=50)
    await telegram.until(lambda: telegram.open == 0)
