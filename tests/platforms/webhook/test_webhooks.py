"""Webhooks through real sockets: who may call, what becomes of a call, and where the answer goes."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio
import trio.testing

import hermes_trio
from hermes_platforms.testing.http_post import post
from hermes_platforms.webhook import from_config, settings_of
from hermes_platforms.webhook.adapter import WebhookAdapter, open_listeners
from hermes_platforms.webhook.checks import check
from hermes_platforms.webhook.listener import LONGEST_BODY
from hermes_platforms.webhook.settings import Route, WebhookSettings
from hermes_platforms.webhook.testing import Caller, open_caller
from hermes_trio import ConfigInvalid, GatewayConfig, PlatformConfig
from hermes_trio.platform import MessageEvent

SECRET = "simulated-secret-of-nobody"
ROUTE = Route(secret=SECRET, scheme="github", text="{text}")
pytestmark = pytest.mark.usefixtures("state_home")


class Door:
    """An adapter with one route, on a free port."""

    def __init__(self, route: Route = ROUTE) -> None:
        self.port, self.opened = 0, trio.Event()
        settings = WebhookSettings(host="127.0.0.1", port=0, routes={"ci": route})
        self.adapter = WebhookAdapter(settings, listen=self._listen)

    async def _listen(self, host: str, port: int) -> Sequence[trio.SocketListener]:
        listeners = await open_listeners(host, port)
        self.port = listeners[0].socket.getsockname()[1]
        self.opened.set()
        return listeners

    async def call(
        self,
        body: bytes,
        *,
        route: str = "ci",
        secret: str = SECRET,
        method: str = "POST",
        event: str = "push",
    ) -> int | None:
        digest = hmac.digest(secret.encode(), body, hashlib.sha256).hex()
        headers = {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Event": event}
        return await post(f"http://127.0.0.1:{self.port}/webhooks/{route}", body, headers, method=method)


@asynccontextmanager
async def heard_by(door: Door) -> AsyncIterator[list[MessageEvent]]:
    """Receive the events of a door while inside."""
    events: list[MessageEvent] = []

    async def receive() -> None:
        async for event in link.receive():
            events.append(event)  # noqa: PERF401

    async with door.adapter.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receive)
        yield events
        nursery.cancel_scope.cancel()


async def test_only_a_signed_request_to_a_route_is_taken_in() -> None:
    door, body = Door(), b'{"text": "hello"}'
    async with heard_by(door) as events:
        assert await door.call(body, secret="a secret of somebody else") == 403
        assert await door.call(body, route="other") == 404
        assert await door.call(body, method="PUT") == 405
        assert await door.call(b" " * (LONGEST_BODY + 1)) == 413
        assert events == []
        assert await door.call(body) == 202
        assert [(one.text, one.source.chat_id, one.kind) for one in events] == [("hello", "ci", "internal")]


async def test_a_call_too_many_is_refused_and_one_without_a_signature_takes_no_place() -> None:
    door = Door(replace(ROUTE, per_minute=2))
    async with heard_by(door) as events:
        for _ in range(5):
            assert await door.call(b"x", secret="a secret of somebody else") == 403
        answers = [await door.call(b'{"text": "%d"}' % number) for number in range(3)]
        assert answers == [202, 202, 429]
        assert [one.text for one in events] == ["0", "1"]


async def test_events_that_are_not_wanted_are_answered_and_not_taken_in() -> None:
    door = Door(replace(ROUTE, only=("issues",)))
    async with heard_by(door) as events:
        assert await door.call(b"{}", event="ping") == 200
        assert await door.call(b"{}", event="issues") == 202
        assert len(events) == 1


async def test_a_call_is_answered_only_when_its_event_is_stored() -> None:
    door, answers = Door(), list[int | None]()

    async def call() -> None:
        answers.append(await door.call(b'{"text": "hello"}'))

    async with door.adapter.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(call)
        events = link.receive()
        assert (await anext(events)).text == "hello"
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert answers == []
        nursery.start_soon(anext, events)
        while not answers:
            await trio.testing.wait_all_tasks_blocked()
        assert answers == [202]
        nursery.cancel_scope.cancel()


async def test_a_call_that_is_repeated_is_one_message_also_in_the_next_life(tmp_path: Path) -> None:
    prompts, prompted = trio.open_memory_channel[str](9)

    async def agent(turn: hermes_trio.Turn) -> str:
        prompts.send_nowait(turn.prompt)
        return "noted"

    door, config = Door(), GatewayConfig(platforms={"webhook": PlatformConfig()})
    for text in ("/restart", "yes"):
        async with hermes_trio.open_gateway(tmp_path, config, agent=agent, adapters=[door.adapter]):
            await door.opened.wait()
            body = json.dumps({"text": text}).encode()
            assert [await door.call(body) for _ in range(2)] == [202, 202]
            assert await door.call(b'{"text": "/restart"}') == 202
            assert await prompted.receive() == text, "neither a command nor an answer, and once"
        door.opened = trio.Event()
    assert prompted.statistics().current_buffer_used == 0


async def test_an_answer_is_posted_once_although_the_first_response_was_lost(tmp_path: Path) -> None:
    async def agent(turn: hermes_trio.Turn) -> str:
        return f"You said: {turn.prompt}"

    config = GatewayConfig(platforms={"webhook": PlatformConfig()})
    async with open_caller() as caller:
        caller.loses_answer()
        adapter = caller.adapter()
        async with hermes_trio.open_gateway(tmp_path, config, agent=agent, adapters=[adapter]):
            await caller.says("hello")
            await caller.until(lambda: _sends(caller) == 2)
            await caller.says("again")
            await caller.until(lambda: len(caller.chat("42").texts) == 2)
        assert caller.chat("42").texts == ["You said: hello", "You said: again"]


def _sends(caller: Caller) -> int:
    return sum(one.what == "send" for one in caller.history)


def platform(**options: object) -> PlatformConfig:
    return PlatformConfig(options=options)


async def test_the_settings_of_a_route_are_its_own_or_those_of_all() -> None:
    config = platform(
        secret=SECRET, scheme="stripe", routes={"ci": {"scheme": "github"}, "pay": {"per_minute": 5}}
    )
    routes = settings_of(config).routes
    assert (routes["ci"].scheme, routes["pay"].scheme, routes["pay"].per_minute) == ("github", "stripe", 5)
    assert [one.level for one in await check(config)] == ["ok"] * 6
    assert settings_of(platform(secret=SECRET)).routes["default"].scheme == "github"


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({}, "routes.default.secret"),
        ({"secret": "short"}, "routes.default.secret"),
        ({"secret": SECRET, "listen": "here"}, "listen"),
        ({"secret": SECRET, "scheme": "md5"}, "routes.default.scheme"),
        ({"secret": SECRET, "sceme": "github"}, "sceme"),
        ({"secret": SECRET, "routes": {"A/B": {}}}, "routes.A/B"),
        ({"secret": SECRET, "routes": {"ci": {"sceret": "x"}}}, "routes.ci.sceret"),
        ({"secret": SECRET, "routes": []}, "routes"),
        ({"secret": SECRET, "per_minute": 0}, "routes.default.per_minute"),
        ({"secret": SECRET, "only": "push"}, "routes.default.only"),
        ({"secret": SECRET, "answer": "example.org"}, "routes.default.answer"),
    ],
)
def test_a_mistake_in_the_settings_is_named(options: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        from_config(platform(**options))
    assert caught.value.findings[0].key == f"platforms.webhook.{key}"


def test_a_list_of_people_has_no_use() -> None:
    with pytest.raises(ConfigInvalid, match="allow_from"):
        from_config(PlatformConfig(allow_from=("ci",), options={"secret": SECRET}))
