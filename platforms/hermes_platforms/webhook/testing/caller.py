"""A program that calls webhooks, signed as Standard Webhooks has it. It posts each message until the answer
is a success, one after another. It gets answers on a port of its own, and shows each one once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import trio

from hermes_trio import World
from hermes_trio.platform import ChatGone, FloodWait, NotSent, OutcomeUnknown, Outgoing, PlatformError
from hermes_trio.testing import WaitingEvent, in_background

from ...testing.http_post import post
from ...testing.http_requests import HttpRequest, response
from ...testing.http_server import HttpStage, HungUp
from ..adapter import WebhookAdapter, open_listeners
from ..settings import Route, WebhookSettings
from ..signatures import signed, verified
from ..webhook_link import TRAITS

SECRET = "simulated-secret-of-nobody"  # noqa: S105 - of a simulator
AGAIN_AFTER = 0.05


class _AnyRoute(Mapping[str, Route]):
    """A route for every name: the chats of a stage. In those whose name begins with `-` several people
    speak."""

    def __init__(self, route: Route) -> None:
        self._route = route

    def __getitem__(self, name: str) -> Route:
        if not name:
            raise KeyError(name)
        return replace(self._route, user="{user}") if name.startswith("-") else self._route

    def __iter__(self) -> Iterator[str]:
        return iter(("42",))

    def __len__(self) -> int:
        return 1


def settings_for(base_url: str, port: int) -> WebhookSettings:
    """Return the settings of a gateway that a caller at this address calls at this port."""
    route = Route(
        secret=SECRET,
        scheme="standard",
        text="{text}",
        per_minute=1_000_000,
        answer=f"{base_url}/answers",
        answer_secret=SECRET,
    )
    return WebhookSettings(host="127.0.0.1", port=port, routes=_AnyRoute(route))


@asynccontextmanager
async def open_caller(port: int = 0) -> AsyncIterator[Caller]:
    """Run the program while inside. With a port it calls a gateway of another process there."""
    caller = Caller(port)
    async with caller.listening(), in_background(caller.call):
        yield caller


class Caller(HttpStage):
    """The program."""

    def __init__(self, port: int = 0) -> None:
        super().__init__("webhook", "main", TRAITS)
        self.asked: list[str] = []
        """The keys of the answers that were posted, also of repeats."""
        self.refused: list[int] = []
        """The answers that were no success."""
        self.webhook_port = port
        """The port of the adapter; 0 while it is not known."""
        self._posting = trio.CancelScope()

    @property
    def waiting(self) -> list[WaitingEvent]:
        """The messages that were not taken yet, the oldest first."""
        return list(self._waiting)

    @property
    def token(self) -> str:
        """The port at which a gateway is called, in the form in which another process is told."""
        return str(self.webhook_port)

    def adapter(self) -> WebhookAdapter:
        """Return an adapter that this program calls."""
        settings = settings_for(self.base_url, 0)
        return WebhookAdapter(settings, listen=self._listen_for_adapter)

    async def _listen_for_adapter(self, host: str, port: int) -> Sequence[trio.SocketListener]:
        await self.connecting()
        listeners = await open_listeners(host, port)
        self.webhook_port = listeners[0].socket.getsockname()[1]
        self.changed.set()
        return listeners

    def drop(self) -> None:
        """Close every connection now."""
        self._posting.cancel(reason="dropped by the test")
        super().drop()

    async def call(self) -> None:
        """Post each message until it is taken."""
        while True:
            oldest = await self.first_waiting()
            await self.until(lambda: self.webhook_port != 0)
            source, event = oldest.event.source, oldest.event
            body = json.dumps({"text": event.text, "user": source.user_id}).encode()
            headers = signed(SECRET, event.message_id or "", int(World().time()), body)
            status = None
            with trio.CancelScope() as self._posting:
                url = f"http://127.0.0.1:{self.webhook_port}/webhooks/{source.chat_id}"
                status = await post(url, body, headers)
            if status in (200, 202) and not oldest.accepted.is_set():
                self.accept(oldest)
            elif status not in (200, 202):
                self.refused += [] if status is None else [status]
                await trio.sleep(AGAIN_AFTER)

    async def answer(self, request: HttpRequest) -> bytes:
        """As `HttpStage.answer`."""
        key = verified("standard", SECRET, request.headers, request.body, World().time())
        if key is None:
            return response(403, {})
        self.asked.append(key)
        data = json.loads(request.body)["data"]
        try:
            act_afterwards = self.count()
            name = await self.send(
                Outgoing(chat_id=data["chat"] or data["route"], text=data["text"], key=key)
            )
            act_afterwards()
        except PlatformError as error:
            return _refusal(error)
        return response(200, {"id": name})


def _refusal(error: PlatformError) -> bytes:
    match error:
        case FloodWait():
            return response(429, {}, {"retry-after": str(int(error.seconds))})
        case NotSent():
            return response(503, {})
        case ChatGone():
            return response(410, {})
        case OutcomeUnknown():
            raise HungUp
        case _:
            return response(400, {})
