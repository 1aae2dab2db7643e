"""HTTP/1.1 to a model server, for a client that is lent to one turn at a time.

httpx leaves connections to a transport. Its own one is a pool for many requests at once: a word of an answer
passes five generators, a lock and two translations of exceptions there. This one keeps one idle connection,
and one step reads everything that has arrived. h11 speaks HTTP, but for a body in chunks. To leave an answer
closes its socket and waits for nothing.

A request goes to its server directly. Where a proxy is configured, httpx's own transport is used.
"""

from __future__ import annotations

import math
import ssl
from typing import Self

import h11
import trio

from ...base.tls import httpx
from ...host.loop.sockets import has_news, receive_waiting
from .chunked_body import ChunkedBody

MOST_READ = 64 * 1024
LONGEST_HEAD = 100 * 1024
CHUNKS = "chunks"
"""The extension of a response that has its body as we made it. httpx wraps the body in a generator."""


class ModelTransport(httpx.AsyncBaseTransport):
    """Sends each request on a connection that it has for itself. One idle connection is kept."""

    def __init__(self, tls: ssl.SSLContext | None, *, kept_seconds: float) -> None:
        """`tls` is needed for addresses with `https`."""
        self._tls, self._kept_seconds = tls, kept_seconds
        self._idle: Connection | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. Return the response when its head has arrived. Raises `httpx.TransportError`."""
        silence = _timeout(request, "read")
        connection = self._take_idle() or await self._connect(request.url, _timeout(request, "connect"))
        try:
            await connection.send(request)
            head = await connection.head(silence)
        except BaseException:  # also a cancellation: the connection is in the middle of an exchange
            connection.close()
            raise
        body = ResponseBody(self, connection, silence)
        headers = head.headers.raw_items()
        return httpx.Response(head.status_code, headers=headers, stream=body, extensions={CHUNKS: body})

    def give_back(self, connection: Connection) -> None:
        """Keep this connection for the next request if its exchange is complete, else close it."""
        if self._idle is None and connection.begin_next():
            self._idle = connection
        else:
            connection.close()

    def _take_idle(self) -> Connection | None:
        """Return the idle connection. One that the server has closed, or may close now, is not used."""
        connection, self._idle = self._idle, None
        if connection is None or connection.is_fresh(self._kept_seconds):
            return connection
        connection.close()
        return None

    async def _connect(self, url: httpx.URL, seconds: float) -> Connection:
        host, port = url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80)
        with trio.move_on_after(seconds):
            try:
                tcp = await trio.open_tcp_stream(host, port)
            except OSError as error:
                raise httpx.ConnectError(str(error)) from error
            return Connection(tcp, await self._secured(tcp, host) if url.scheme == "https" else tcp)
        raise httpx.ConnectTimeout(f"not connected after {seconds:g} seconds")

    async def _secured(self, tcp: trio.SocketStream, host: str) -> trio.SSLStream[trio.SocketStream]:
        assert self._tls is not None  # noqa: S101 - the address has `https`
        stream = trio.SSLStream(tcp, self._tls, server_hostname=host, https_compatible=True)
        try:
            await stream.do_handshake()
        except trio.BrokenResourceError as error:
            tcp.socket.close()
            raise httpx.ConnectError(str(error)) from error
        except BaseException:  # also a cancellation: nobody else knows the socket
            tcp.socket.close()
            raise
        return stream

    async def aclose(self) -> None:
        """Close the idle connection."""
        connection, self._idle = self._idle, None
        if connection is not None:
            connection.close()


class Connection:
    """A connection to a server, with one request at a time."""

    def __init__(
        self, tcp: trio.SocketStream, stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]
    ) -> None:
        """`stream` is what carries HTTP: the connection itself, or TLS on it."""
        self._socket, self._stream = tcp.socket, stream
        self._http = _new_http()
        self._chunked: ChunkedBody | None = None
        """The decoder of the body, if it comes in chunks."""
        self._content = b""
        """The content of the chunks that have arrived with the head."""
        self._problem: str | None = None
        """The fault in the data after the last chunk."""
        self._idle_since = -math.inf

    async def send(self, request: httpx.Request) -> None:
        """Send a request. A server that refuses it may close before it has all of it: the refusal is read."""
        http, headers = self._http, request.headers.raw
        head = h11.Request(method=request.method, target=request.url.raw_path, headers=headers)
        data = [http.send(head)]
        assert isinstance(request.stream, httpx.AsyncByteStream)  # noqa: S101 - of an asynchronous client
        data += [http.send(h11.Data(piece)) async for piece in request.stream]
        data.append(http.send(h11.EndOfMessage()))
        try:
            await self._stream.send_all(b"".join(data))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return

    async def head(self, seconds: float) -> h11.Response:
        """Return the head of the response. `seconds` is the longest time without data."""
        while True:
            event = self._next_event()
            if isinstance(event, h11.Response):
                self._begin_body(event)
                return event
            if event is h11.NEED_DATA:
                await self._receive(seconds)

    async def chunk(self, seconds: float) -> bytes:
        """Return all of the body that has arrived; wait if there is none. Empty at the end of the body."""
        chunk = b""
        if self._chunked is not None:
            return await self._decoded(self._chunked, seconds)
        while self._http.their_state is h11.SEND_BODY:
            try:
                event = self._next_event()
            except httpx.RemoteProtocolError as error:
                self._problem = str(error)
                break
            if isinstance(event, h11.Data):
                chunk += event.data
            elif event is h11.NEED_DATA:
                if chunk:
                    break
                await self._receive(seconds)
        if not chunk and self._problem is not None:
            raise httpx.RemoteProtocolError(self._problem)
        return chunk

    def _begin_body(self, head: h11.Response) -> None:
        """Decode a body in chunks from here on, beginning with what has arrived with the head."""
        names = {name for name, _ in head.headers}
        if b"transfer-encoding" in names and head.status_code not in (204, 304):
            self._chunked = ChunkedBody()
            arrived, _ = self._http.trailing_data
            self._content = self._chunked.feed(arrived) if arrived else b""

    async def _decoded(self, body: ChunkedBody, seconds: float) -> bytes:
        """As `chunk`, for a body in chunks."""
        content, self._content = self._content, b""
        while not (content or body.is_over or body.problem):
            content = body.feed(await self._received(seconds))
        if body.problem and not content:
            raise httpx.RemoteProtocolError(body.problem)
        return content

    def begin_next(self) -> bool:
        """Make ready for the next request. Return False if this connection takes none."""
        http, body = self._http, self._chunked
        is_whole = body.is_over if body is not None else http.their_state is h11.DONE
        after = body.rest if body is not None else http.trailing_data[0]
        if http.our_state is not h11.DONE or not is_whole or after:
            return False
        self._http, self._chunked = _new_http(), None
        self._idle_since = trio.current_time()
        return True

    def is_fresh(self, seconds: float) -> bool:
        """Return whether it was idle for at most `seconds`, and the server has not closed it."""
        return trio.current_time() - self._idle_since <= seconds and not has_news(self._socket)

    def close(self) -> None:
        """Close the socket, without waiting for the server."""
        self._socket.close()

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error

    async def _receive(self, seconds: float) -> None:
        data = await self._received(seconds)
        if not data and self._http.their_state is h11.SEND_RESPONSE:
            raise httpx.RemoteProtocolError("the server closed the connection without a response")
        self._http.receive_data(data)

    async def _received(self, seconds: float) -> bytes:
        """Return the next data; empty if the server has closed the connection."""
        # A wait may last as long as the turn, and this holds less memory than `move_on_after`.
        with trio.CancelScope(deadline=trio.current_time() + seconds) as patience:
            try:
                if isinstance(self._stream, trio.SocketStream):
                    data = await receive_waiting(self._stream, MOST_READ)
                else:
                    data = bytes(await self._stream.receive_some(MOST_READ))
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise httpx.ReadError(str(error)) from error
        if patience.cancelled_caught:
            raise httpx.ReadTimeout(f"no data for {seconds:g} seconds")
        return data


def _new_http() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=LONGEST_HEAD)


class ResponseBody(httpx.AsyncByteStream):
    """The body of a response, in chunks. Its connection is given back when it is closed."""

    def __init__(self, transport: ModelTransport, connection: Connection, seconds: float) -> None:
        """`seconds` is the longest time without data."""
        self._transport, self._seconds = transport, seconds
        self._connection: Connection | None = connection

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._connection.chunk(self._seconds) if self._connection is not None else b""
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.give_back(connection)


def _timeout(request: httpx.Request, name: str) -> float:
    seconds: float | None = request.extensions["timeout"][name]
    return math.inf if seconds is None else seconds
