"""The listener: a request is verified, becomes an event, and is answered with 202 once the event is stored.

It is a socket of its own and not the gateway's web server, as `posted_requests` says. A proxy in front of it
terminates HTTPS.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

import h11
import trio

from hermes_trio.platform import LinkLost, Log, MessageEvent

from ..posted_requests import (
    ANSWER_WITHIN,
    CONFIRMED_WITHIN,
    UnverifiedPlaces,
    answer,
    read_body,
    read_head,
    sent_by_agent,
)
from .parsing import data_of, event_name, parse
from .rate import Rate
from .settings import WebhookSettings
from .signatures import verified

PATH = "/webhooks/"
LONGEST_BODY = 1 << 20

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class _Posted:
    event: MessageEvent
    stored: trio.Event = field(default_factory=trio.Event)


class Arrivals:
    """The events that were posted, in the order of their arrival. An iterator: a request for the next event
    means that the one before is stored."""

    def __init__(self) -> None:
        self._hand_over, self._posted = trio.open_memory_channel[_Posted](0)
        self._current: _Posted | None = None

    def end(self) -> None:
        """Let the wait for the next event fail: the link is left."""
        self._hand_over.close()

    async def stored(self, event: MessageEvent) -> bool:
        """Hand an event over and wait until it is stored. Return False if that takes too long."""
        posted = _Posted(event)
        with trio.move_on_after(CONFIRMED_WITHIN), suppress(trio.ClosedResourceError):
            await self._hand_over.send(posted)
            await posted.stored.wait()
        return posted.stored.is_set()

    def __aiter__(self) -> Arrivals:
        return self

    async def __anext__(self) -> MessageEvent:
        if self._current is not None:
            self._current.stored.set()
            self._current = None
        try:
            self._current = await self._posted.receive()
        except trio.EndOfChannel:
            raise LinkLost("The listener for webhooks is closed.") from None
        return self._current.event


class WebhookListener:
    """Serves the connections of one link."""

    def __init__(
        self,
        settings: WebhookSettings,
        arrivals: Arrivals,
        now: Callable[[], float],
        platform: str,
        account: str,
    ) -> None:
        self._settings, self._arrivals, self._now = settings, arrivals, now
        self._platform, self._account = platform, account
        self._rates: dict[str, Rate] = {}
        self._unverified = UnverifiedPlaces()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection: one request and its answer."""
        await self._unverified.serve(stream, self._converse, self._platform)

    async def _converse(self, stream: trio.SocketStream, place: trio.CancelScope) -> None:
        wire = h11.Connection(h11.SERVER)
        status, request, body = HTTPStatus.REQUEST_TIMEOUT, None, b""
        with trio.move_on_after(ANSWER_WITHIN):
            request = await read_head(wire, stream)
            if (refusal := self._refusal(request)) is not None:
                status = refusal
            else:
                read = await read_body(wire, stream, LONGEST_BODY)
                status = HTTPStatus.OK if read is not None else HTTPStatus.REQUEST_ENTITY_TOO_LARGE
                body = read or b""
        wait = 0
        if status is HTTPStatus.OK and request is not None:
            status, wait = await self._take(request, body, stream, place)
        with trio.move_on_after(ANSWER_WITHIN):
            await answer(wire, stream, status, wait or None)

    def _refusal(self, request: h11.Request) -> HTTPStatus | None:
        if _route_name(request) not in self._settings.routes:
            return HTTPStatus.NOT_FOUND
        return None if request.method == b"POST" else HTTPStatus.METHOD_NOT_ALLOWED

    async def _take(
        self, request: h11.Request, body: bytes, stream: trio.SocketStream, place: trio.CancelScope
    ) -> tuple[HTTPStatus, int]:
        """Return the answer to a request, and the seconds after which it may come again."""
        name = _route_name(request)
        route, headers = self._settings.routes[name], _headers_of(request)
        delivery = verified(route.scheme, route.secret, headers, body, self._now())
        if delivery is None or await sent_by_agent(stream):
            log.warning("webhook refused", platform=self._platform, route=name)
            return HTTPStatus.FORBIDDEN, 0
        self._unverified.free(place)
        if wait := self._rates.setdefault(name, Rate(route.per_minute)).wait():
            return HTTPStatus.TOO_MANY_REQUESTS, wait
        data = data_of(headers, body)
        if route.only and event_name(headers, data) not in route.only:
            return HTTPStatus.OK, 0
        event = parse(name, route, delivery, headers, data, self._platform, self._account)
        is_stored = await self._arrivals.stored(event)
        return (HTTPStatus.ACCEPTED, 0) if is_stored else (HTTPStatus.SERVICE_UNAVAILABLE, 5)


def _route_name(request: h11.Request) -> str:
    path = request.target.partition(b"?")[0].decode("ascii", "replace")
    return path.removeprefix(PATH) if path.startswith(PATH) else ""


def _headers_of(request: h11.Request) -> dict[str, str]:
    return {name.decode("ascii"): value.decode("latin-1") for name, value in request.headers}
