"""Server-sent events: a response that goes on while its writer writes, and the form of one event."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
import trio
from starlette.types import Receive, Scope, Send

HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

Write = Callable[[bytes], Awaitable[None]]
Writer = Callable[[Write], Awaitable[bytes]]
"""Writes a stream, and returns its last bytes. They are sent in one piece with the end of the response."""


class EventStream:
    """A response that lasts until its writer returns or the client has gone."""

    def __init__(self, writer: Writer, headers: Mapping[str, str] | None = None) -> None:
        self._writer = writer
        more = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        self._headers = [*HEADERS, *more]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_when_gone, receive, nursery.cancel_scope)

            async def write(data: bytes) -> None:
                await send({"type": "http.response.body", "body": data, "more_body": True})

            await send({"type": "http.response.body", "body": await self._writer(write)})
            nursery.cancel_scope.cancel(reason="the stream is complete")


async def cancel_when_gone(receive: Receive, stream: trio.CancelScope) -> None:
    """Wait until the client has gone, and cancel the scope then."""
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.cancel(reason="the client has gone")


def frame(data: dict[str, Any], event_id: str | None = None) -> bytes:
    """Return one event as it is sent. Encoded JSON contains no line break."""
    head = f"id: {event_id}\n".encode() if event_id else b""
    return b"%bdata: %b\n\n" % (head, msgspec.json.encode(data))
