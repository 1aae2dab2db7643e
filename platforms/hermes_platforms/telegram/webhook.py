"""Updates that Telegram brings to an address of ours: webhook mode.

The listener is the adapter's own, and not the gateway's web server: that one is for people who hold its key
and usually stays on this machine, while this one is for everybody on the internet, and answers one
path, one method and whoever knows the secret. Telegram comes by HTTPS only, which is the work of the proxy
in front; so it listens on this machine's own address unless it is told another.

Received is what was answered with 200, and that is said when the gateway asks for the next event. Telegram
is told to bring one update at a time (`max_connections`), so nothing overtakes anything; what it was not
told to be received it brings again.
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

from hermes_trio.platform import LinkLost, Log, is_from_agent

from .parsing import KINDS, update_id_of

ANSWER_WITHIN = 10.0
"""For the peer to say what it has to say, and to take the answer."""
CONFIRMED_WITHIN = 50.0
"""Less than Telegram's patience: who is told nothing does not know that it may come again."""
MOST_STRANGERS = 32
"""Connections that have not shown the secret yet. The newest of them have the places, so that nobody keeps
Telegram out by holding connections."""
LONGEST_UPDATE = 1 << 20
SECRET_HEADER = b"x-telegram-bot-api-secret-token"

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Webhook:
    """Where updates are brought to."""

    url: str
    """As Telegram sees it."""
    secret: str = field(repr=False)
    host: str
    port: int
    path: str


def address_of(hook: Webhook) -> dict[str, object]:
    """What `setWebhook` is told."""
    return {
        "url": hook.url,
        "secret_token": hook.secret,
        "max_connections": 1,
        "allowed_updates": KINDS,
    }


@dataclass(slots=True)
class _Brought:
    update: object
    number: int
    confirmed: trio.Event = field(default_factory=trio.Event)


class Pushed:
    """Updates that are brought."""

    def __init__(self, hook: Webhook, platform: str) -> None:
        self._hook, self._platform = hook, platform
        self._bring, self._brought = trio.open_memory_channel[_Brought](0)
        self._in_hand: _Brought | None = None
        self._loss: str | None = None
        self._waiting = trio.CancelScope()
        self._strangers: dict[trio.CancelScope, None] = {}

    def end(self, why: str) -> None:
        self._loss = why
        self._waiting.cancel(reason=why)

    async def behind(self, offset: int | None) -> list[object]:
        if self._in_hand is not None and offset is not None and offset > self._in_hand.number:
            self._in_hand.confirmed.set()
            self._in_hand = None
        with trio.CancelScope() as self._waiting:
            if self._in_hand is None and self._loss is None:
                self._in_hand = await self._brought.receive()
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._loss is not None or self._in_hand is None:
            raise LinkLost(f"Telegram cannot be reached: {self._loss}.")
        return [self._in_hand.update]

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection: one request, and its answer."""
        if len(self._strangers) >= MOST_STRANGERS:
            oldest = next(iter(self._strangers))
            oldest.cancel(reason="its place is needed")
            del self._strangers[oldest]
        with trio.CancelScope() as place:
            self._strangers[place] = None
            try:
                async with stream:
                    await self._converse(stream, place)
            except (trio.BrokenResourceError, h11.ProtocolError) as error:
                log.debug("a connection to the webhook broke", platform=self._platform, error=str(error))
            finally:
                self._strangers.pop(place, None)

    async def _converse(self, stream: trio.SocketStream, place: trio.CancelScope) -> None:
        wire = h11.Connection(h11.SERVER)
        status, body = HTTPStatus.REQUEST_TIMEOUT, b""
        with trio.move_on_after(ANSWER_WITHIN):
            if (refusal := await _read_head(wire, stream, self._hook)) is not None:
                status = refusal
            else:
                self._strangers.pop(place, None)
                status, body = await _read_body(wire, stream)
        if status is HTTPStatus.OK:
            status = HTTPStatus.FORBIDDEN if await _is_from_agent(stream) else await self._take(body)
        with trio.move_on_after(ANSWER_WITHIN):
            await _answer(wire, stream, status)

    async def _take(self, body: bytes) -> HTTPStatus:
        """Hand an update to whoever receives, and wait until it is confirmed."""
        try:
            update = json.loads(body)
        except (ValueError, RecursionError):
            return HTTPStatus.BAD_REQUEST
        if (number := update_id_of(update)) is None:
            return HTTPStatus.BAD_REQUEST
        brought = _Brought(update, number)
        with trio.move_on_after(CONFIRMED_WITHIN):
            await self._bring.send(brought)
            await brought.confirmed.wait()
        return HTTPStatus.OK if brought.confirmed.is_set() else HTTPStatus.SERVICE_UNAVAILABLE


async def _read_head(wire: h11.Connection, stream: trio.SocketStream, hook: Webhook) -> HTTPStatus | None:
    """Read the head of the request. Return how it is refused; None for one with the secret."""
    while True:
        match wire.next_event():
            case h11.NEED_DATA:
                wire.receive_data(await stream.receive_some(1 << 16))
            case h11.Request() as request:
                return _refusal(request, hook)
            case _:
                raise trio.BrokenResourceError("hung up within a request")


async def _read_body(wire: h11.Connection, stream: trio.SocketStream) -> tuple[HTTPStatus, bytes]:
    """Read the update; or say how it is refused, as early as that is known."""
    body = bytearray()
    while True:
        match wire.next_event():
            case h11.NEED_DATA:
                wire.receive_data(await stream.receive_some(1 << 16))
            case h11.Data(data=data):
                body += data
                if len(body) > LONGEST_UPDATE:
                    return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, b""
            case h11.EndOfMessage():
                return HTTPStatus.OK, bytes(body)
            case _:
                raise trio.BrokenResourceError("hung up within a request")


def _refusal(request: h11.Request, hook: Webhook) -> HTTPStatus | None:
    if request.target.partition(b"?")[0] != hook.path.encode():
        return HTTPStatus.NOT_FOUND
    if request.method != b"POST":
        return HTTPStatus.METHOD_NOT_ALLOWED
    given = dict(request.headers).get(SECRET_HEADER, b"")
    return None if hmac.compare_digest(given, hook.secret.encode()) else HTTPStatus.FORBIDDEN


async def _is_from_agent(stream: trio.SocketStream) -> bool:
    """Whether a process that the agent runs has sent this. A command of the agent can read the secret, and
    would speak for everybody in every chat."""
    try:
        theirs, ours = stream.socket.getpeername()[:2], stream.socket.getsockname()[:2]
        return await trio.to_thread.run_sync(is_from_agent, theirs, ours, abandon_on_cancel=True)
    except OSError as error:
        raise trio.BrokenResourceError("the sender cannot be found out") from error


async def _answer(wire: h11.Connection, stream: trio.SocketStream, status: HTTPStatus) -> None:
    headers = [("content-length", "0"), ("connection", "close")]
    head = wire.send(h11.Response(status_code=status, headers=headers, reason=status.phrase.encode()))
    await stream.send_all((head or b"") + (wire.send(h11.EndOfMessage()) or b""))


@asynccontextmanager
async def open_webhook(hook: Webhook, platform: str) -> AsyncIterator[Pushed]:
    """Listen for what Telegram brings, while inside. What the caller's block raises comes out as it was
    raised, and in no group: the nursery is nothing that it knows of."""
    try:
        listeners = await trio.open_tcp_listeners(hook.port, host=hook.host)
    except OSError as error:
        raise LinkLost(f"The webhook cannot listen on {hook.host}:{hook.port}: {error.strerror}.") from error
    pushed, raised = Pushed(hook, platform), None
    async with trio.open_nursery() as nursery:
        await nursery.start(trio.serve_listeners, pushed.serve, listeners)
        try:
            yield pushed
        except Exception as error:  # whatever it is: the nursery would make a group of it
            raised = error
        finally:
            nursery.cancel_scope.cancel(reason="the webhook is left")
    if raised is not None:
        raise raised
