"""Updates by webhook: Telegram posts them to an address of ours.

The adapter has its own listener and does not use the gateway's web server. That server is for people who hold
its key and usually answers on this machine only; this listener is open to the internet, and answers one path,
one method and clients that know the secret. Telegram requires HTTPS, which a proxy terminates, so the default
is an address of this machine.

An update is received when it is answered with 200, which happens when the gateway asks for the next event.
`max_connections` makes Telegram post one update at a time, so the order is kept; it repeats an update that
was not answered with 200.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import h11
import trio
import trio.lowlevel

from hermes_trio.platform import LinkLost

from ..beside import open_beside
from ..posted_requests import (
    ANSWER_WITHIN,
    CONFIRMED_WITHIN,
    UnverifiedPlaces,
    answer,
    read_body,
    read_head,
    sent_by_agent,
)
from .parsing import KINDS, update_id_of

LONGEST_UPDATE = 1 << 20
SECRET_HEADER = b"x-telegram-bot-api-secret-token"


@dataclass(frozen=True, slots=True)
class Webhook:
    """Address for updates, and the listener behind it."""

    url: str
    """Address that Telegram uses."""
    secret: str = field(repr=False)
    host: str
    port: int
    path: str


def set_webhook_parameters(hook: Webhook) -> dict[str, object]:
    """Return the parameters of `setWebhook`."""
    return {
        "url": hook.url,
        "secret_token": hook.secret,
        "max_connections": 1,
        "allowed_updates": KINDS,
    }


@dataclass(slots=True)
class _Posted:
    update: object
    number: int
    confirmed: trio.Event = field(default_factory=trio.Event)


class WebhookUpdates:
    """Updates that Telegram posts."""

    def __init__(self, hook: Webhook, platform: str) -> None:
        self._hook, self._platform = hook, platform
        self._hand_over, self._posted = trio.open_memory_channel[_Posted](0)
        self._current: _Posted | None = None
        self._loss: str | None = None
        self._waiting = trio.CancelScope()
        self._unverified = UnverifiedPlaces()

    def end(self, why: str) -> None:
        self._loss = why
        self._waiting.cancel(reason=why)

    async def after(self, offset: int | None) -> list[object]:
        if self._current is not None and offset is not None and offset > self._current.number:
            self._current.confirmed.set()
            self._current = None
        with trio.CancelScope() as self._waiting:
            if self._current is None and self._loss is None:
                self._current = await self._posted.receive()
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._loss is not None or self._current is None:
            raise LinkLost(f"Telegram cannot be reached: {self._loss}.")
        return [self._current.update]

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection: one request and its answer."""
        await self._unverified.serve(stream, self._converse, self._platform)

    async def _converse(self, stream: trio.SocketStream, place: trio.CancelScope) -> None:
        wire = h11.Connection(h11.SERVER)
        status, body = HTTPStatus.REQUEST_TIMEOUT, b""
        with trio.move_on_after(ANSWER_WITHIN):
            if (refusal := _refusal(await read_head(wire, stream), self._hook)) is not None:
                status = refusal
            else:
                self._unverified.free(place)
                read = await read_body(wire, stream, LONGEST_UPDATE)
                status = HTTPStatus.OK if read is not None else HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                body = read or b""
        if status is HTTPStatus.OK:
            status = HTTPStatus.FORBIDDEN if await sent_by_agent(stream) else await self._take(body)
        with trio.move_on_after(ANSWER_WITHIN):
            await answer(wire, stream, status)

    async def _take(self, body: bytes) -> HTTPStatus:
        """Pass an update to the receiver, and wait until it is confirmed."""
        try:
            update = json.loads(body)
        except (ValueError, RecursionError):
            return HTTPStatus.BAD_REQUEST
        if (number := update_id_of(update)) is None:
            return HTTPStatus.BAD_REQUEST
        posted = _Posted(update, number)
        with trio.move_on_after(CONFIRMED_WITHIN):
            await self._hand_over.send(posted)
            await posted.confirmed.wait()
        return HTTPStatus.OK if posted.confirmed.is_set() else HTTPStatus.SERVICE_UNAVAILABLE


def _refusal(request: h11.Request, hook: Webhook) -> HTTPStatus | None:
    if request.target.partition(b"?")[0] != hook.path.encode():
        return HTTPStatus.NOT_FOUND
    if request.method != b"POST":
        return HTTPStatus.METHOD_NOT_ALLOWED
    given = dict(request.headers).get(SECRET_HEADER, b"")
    return None if hmac.compare_digest(given, hook.secret.encode()) else HTTPStatus.FORBIDDEN


@asynccontextmanager
async def open_webhook(hook: Webhook, platform: str) -> AsyncIterator[WebhookUpdates]:
    """Listen for updates while inside."""
    try:
        listeners = await trio.open_tcp_listeners(hook.port, host=hook.host)
    except OSError as error:
        raise LinkLost(f"The webhook cannot listen on {hook.host}:{hook.port}: {error.strerror}.") from error
    updates = WebhookUpdates(hook, platform)
    async with open_beside("the webhook is closed") as nursery:
        await nursery.start(trio.serve_listeners, updates.serve, listeners)
        yield updates
