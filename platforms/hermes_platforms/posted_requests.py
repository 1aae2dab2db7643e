"""Requests that other programs post to an address of ours: what the listeners of several platforms share.

Such a listener is open to the internet, and answers one request on each connection. It is not the gateway's
web server, which is for people who hold its key and usually answers on this machine only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

import h11
import trio

from hermes_trio.platform import Log, is_from_agent

ANSWER_WITHIN = 10.0
"""Seconds for the peer to send the request, and to read the answer."""
CONFIRMED_WITHIN = 50.0
"""Seconds to wait until an event is stored. It is less than the limit of the senders, so that they get an
answer."""
MOST_UNVERIFIED = 32
"""Most connections whose request was not verified yet. A new one replaces the oldest, so that held
connections cannot keep the sender out."""

log = Log(__name__)


class UnverifiedPlaces:
    """The connections whose request was not verified yet."""

    def __init__(self) -> None:
        self._held: dict[trio.CancelScope, None] = {}

    async def serve(
        self,
        stream: trio.SocketStream,
        converse: Callable[[trio.SocketStream, trio.CancelScope], Awaitable[None]],
        platform: str,
    ) -> None:
        """Serve one connection: one request and its answer. `converse` frees its place once the request is
        verified."""
        with self._place() as place:
            try:
                async with stream:
                    await converse(stream, place)
            except (trio.BrokenResourceError, h11.ProtocolError) as error:
                log.debug("webhook connection broken", platform=platform, error=str(error))

    @contextmanager
    def _place(self) -> Iterator[trio.CancelScope]:
        """Hold a place for a connection in this block, which ends if the place is needed."""
        if len(self._held) >= MOST_UNVERIFIED:
            oldest = next(iter(self._held))
            oldest.cancel(reason="its place is needed")
            del self._held[oldest]
        with trio.CancelScope() as place:
            self._held[place] = None
            try:
                yield place
            finally:
                self._held.pop(place, None)

    def free(self, place: trio.CancelScope) -> None:
        """Note that the request is verified: its connection stays."""
        self._held.pop(place, None)


async def read_head(wire: h11.Connection, stream: trio.SocketStream) -> h11.Request:
    """Read the head of the request."""
    while True:
        match wire.next_event():
            case h11.NEED_DATA:
                wire.receive_data(await stream.receive_some(1 << 16))
            case h11.Request() as request:
                return request
            case _:
                raise trio.BrokenResourceError("the client hung up within a request")


async def read_body(wire: h11.Connection, stream: trio.SocketStream, most: int) -> bytes | None:
    """Read the body; None as soon as it is longer than `most`."""
    body = bytearray()
    while True:
        match wire.next_event():
            case h11.NEED_DATA:
                wire.receive_data(await stream.receive_some(1 << 16))
            case h11.Data(data=data):
                body += data
                if len(body) > most:
                    return None
            case h11.EndOfMessage():
                return bytes(body)
            case _:
                raise trio.BrokenResourceError("the client hung up within a request")


async def sent_by_agent(stream: trio.SocketStream) -> bool:
    """Return True if a process of the agent has sent the request. A command of the agent may know the secret,
    and could send messages in the name of any person."""
    try:
        theirs, ours = stream.socket.getpeername()[:2], stream.socket.getsockname()[:2]
        return await trio.to_thread.run_sync(is_from_agent, theirs, ours, abandon_on_cancel=True)
    except OSError as error:
        raise trio.BrokenResourceError("the sender is unknown") from error


async def answer(
    wire: h11.Connection, stream: trio.SocketStream, status: HTTPStatus, retry_after: int | None = None
) -> None:
    """Answer with a status, and close the connection."""
    headers = [("content-length", "0"), ("connection", "close")]
    if retry_after is not None:
        headers.append(("retry-after", str(retry_after)))
    head = wire.send(h11.Response(status_code=status, headers=headers, reason=status.phrase.encode()))
    await stream.send_all((head or b"") + (wire.send(h11.EndOfMessage()) or b""))
