"""One connection: HTTP/1.1 (h11) with the client, ASGI with the application.

No other protocol is supported: a request to upgrade is answered without the upgrade, and CONNECT with 405.
Everything a client can delay has a deadline: it must send its request, and take the answer. Data is read
from the client only while the application waits for it (`receive`). So an application that has to notice a
hang-up waits for it, and early data stays unread.

Rejected: the ASGI servers that run on Trio. They shield their sends without a deadline, so that one client
that reads nothing keeps the whole gateway from ending (tried), and their HTTP/2 cannot be turned off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote, urlsplit

import h11
import trio

from ...host.loop.sockets import send_at_once
from ...log import Log

HEAD_WITHIN = 10.0
"""Seconds from the first byte of a request to the end of its headers."""
BODY_WITHIN = 60.0
"""Seconds until the whole body has arrived."""
PROGRESS_WITHIN = 10.0
"""Seconds in which an incomplete body must grow by `PROGRESS_BYTES`."""
PROGRESS_BYTES = 1024
IDLE = 75.0
"""Seconds that a connection may be idle between two requests."""
FIRST_WITHIN = 0.05
"""Seconds from the start of a connection in which its first request is still answered if the server closes.
Most clients connect because they have a request, and would take the close for a failure."""
TAKEN_WITHIN = 20.0
"""Seconds in which a client must take the next piece of an answer."""
LINGER = 5.0
"""Seconds for which a refused client may go on sending, so that it receives the refusal."""
LONGEST_HEAD = 32 * 1024
MOST_AHEAD = 64 * 1024
"""Bytes of later requests that are read while one is being answered."""
PIECE = 64 * 1024
MOST_HEADERS = 100
MOST_CHUNKS = 4096
"""Chunks of any size that a body may have. Each further chunk needs `CHUNK_BYTES` of body. A chunk costs as
much as some hundred bytes, so the size of a body bounds its cost."""
CHUNK_BYTES = 256
MOST_PASSED_OVER = 64
"""Events of an unread body that are skipped so that the connection can be used again."""
VOUCH = "hermes_trio.vouch"
"""The ASGI extension that `vouch` calls."""
NOTES = "hermes_trio.notes"
"""The ASGI extension with what is known of the connection: a set of texts that lasts as long as it does."""

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

log = Log(__name__)


class Hangup(OSError):
    """The client has gone, or takes no more data."""


def vouch(scope: Message) -> None:
    """Note that this request is authenticated. Until then its connection is a stranger's, which is closed
    when a newer stranger needs its place."""
    if (note := scope.get("extensions", {}).get(VOUCH)) is not None:
        note()


class HttpConnection:
    """A connection to a client. `idle` is the scope of the wait for the next request."""

    def __init__(self, stream: trio.SocketStream, app: App) -> None:
        self._stream, self._app = stream, app
        self._whole = trio.CancelScope()
        self.known = False
        """True if its current request, or the last one, was authenticated."""
        self.waits = False
        """True while the connection waits for data from the client."""
        self.since = trio.current_time()
        """The start of the current wait or request."""
        self.notes: set[str] = set()
        try:
            self.peer = stream.socket.getpeername()[:2]
        except OSError:  # the client has gone
            self.peer = ("", 0)
        self.own = stream.socket.getsockname()[:2]
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
        self.idle: trio.CancelScope | None = None
        self._is_new = True
        """True until the first request."""
        self.closing = False
        """True if the connection is closed after the current answer."""

    def close(self) -> None:
        """Close the connection after its current answer; at once if it is idle, or if it is a stranger whose
        request is incomplete. One that has just begun may still send its first request."""
        self.closing = True
        if self.idle is not None and self._is_new:
            self.idle.deadline = min(self.idle.deadline, self.since + FIRST_WITHIN)
        elif self.idle is not None:
            self.idle.cancel(reason="the server is closed")
        elif self.waits and not self.known:
            self.evict()

    def vouch(self) -> None:
        """Note that the current request is authenticated."""
        self.known = True

    def evict(self) -> None:
        """Close the connection now."""
        self._whole.cancel(reason="another connection needs the place")

    async def serve(self) -> None:
        """Answer one request after the other, until one side closes."""
        with self._whole:
            await self._serve()

    async def _serve(self) -> None:
        async with self._stream:
            with suppress(Hangup, trio.BrokenResourceError, trio.ClosedResourceError):
                try:
                    while (self._is_new or not self.closing) and (exchange := await self._next()) is not None:
                        self._is_new, self.known, self.since = False, False, trio.current_time()
                        if not await exchange.answer(self._app):
                            break
                        self._http.start_next_cycle()
                except h11.RemoteProtocolError as error:
                    await self._refuse(error.error_status_hint)
                await self._linger()

    async def _next(self) -> Exchange | None:
        """Return the exchange of the next request; None if none comes."""
        self.since, self.waits = trio.current_time(), True
        try:
            request = await self._read_head()
            return Exchange(self._http, self._stream, request, self) if request is not None else None
        finally:
            self.waits, self.idle = False, None

    async def _read_head(self) -> h11.Request | None:
        within = FIRST_WITHIN if self.closing else IDLE
        with trio.CancelScope(deadline=trio.current_time() + within) as self.idle:
            if self._http.trailing_data[0]:
                self.idle.deadline = trio.current_time() + HEAD_WITHIN
            while True:
                event = self._http.next_event()
                if isinstance(event, h11.Request):
                    return event
                if event is not h11.NEED_DATA:
                    break
                data = await self._stream.receive_some(PIECE)
                if not self._http.trailing_data[0]:
                    self.idle.deadline = min(self.idle.deadline, trio.current_time() + HEAD_WITHIN)
                self._http.receive_data(data)
        return None

    async def _refuse(self, status: int) -> None:
        """Answer data that is not HTTP."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        head = h11.Response(status_code=status, headers=[("Content-Length", "0"), ("Connection", "close")])
        await write(self._stream, self._http.send(head) + self._http.send(h11.EndOfMessage()))

    async def _linger(self) -> None:
        """Read on until the client stops sending: closing earlier resets the connection, and the client may
        lose the answer."""
        if self._http.their_state in (h11.DONE, h11.IDLE, h11.CLOSED, h11.MUST_CLOSE):
            return
        self.waits = True
        with trio.move_on_after(LINGER):
            await self._stream.send_eof()
            while await self._stream.receive_some(PIECE):
                pass


class Exchange:
    """One request and its answer."""

    def __init__(
        self,
        http: h11.Connection,
        stream: trio.SocketStream,
        request: h11.Request,
        connection: HttpConnection,
    ) -> None:
        self._http, self._stream, self._connection = http, stream, connection
        # Not the request: an answer may last as long as a turn, and the scope has all that is needed.
        self._method, self._scope = request.method, self._scope_of(request)
        self._body_by = trio.current_time() + BODY_WITHIN
        self._progress_by = trio.current_time() + PROGRESS_WITHIN
        self._progress = self._size = self._chunks = 0
        self._body_over = self._gone = False
        self._problem: int | None = None
        """The status for a wrong body."""
        self._ahead = 0
        self._head: h11.Response | None = None
        """The head of the answer, until it is sent with the first data."""
        self._takes_body = True
        self._started = False

    async def answer(self, app: App) -> bool:
        """Answer the request. Return True if the client may send another one. Raises `Hangup` if it has
        gone."""
        scope = self._scope
        if scope is None:
            await self._plainly(405 if self._method == b"CONNECT" else 400)
            return False
        if len(scope["headers"]) > MOST_HEADERS:
            await self._plainly(431)
            return False
        try:
            await app(scope, self._receive, self._send)
        except* Hangup:
            self._gone = True
        except* Exception:
            # A bug in one answer must not end the server.
            log.error("request failed", path=scope["path"], exc_info=True)
        if self._gone and (self._problem is None or self._started):
            raise Hangup
        if not self._started:
            await self._plainly(self._problem or 500)
        return self._is_whole() and self._http.our_state is h11.DONE and not self._connection.closing

    def _is_whole(self) -> bool:
        """Return True if the request is complete. A body that the application did not read is skipped."""
        with suppress(h11.RemoteProtocolError):
            for _ in range(MOST_PASSED_OVER):
                if self._http.their_state is not h11.SEND_BODY or isinstance(self._http.next_event(), type):
                    break
        return self._http.their_state is h11.DONE

    def _scope_of(self, request: h11.Request) -> Message | None:
        """Return a request as an ASGI scope. Return None for a target that is not a path or an HTTP
        address, and for a body with two lengths, because a proxy in front of us may use the other one."""
        target, names = request.target, {name for name, _ in request.headers}
        if request.method == b"CONNECT" or {b"content-length", b"transfer-encoding"} <= names:
            return None
        if not target.startswith(b"/"):
            try:
                parts = urlsplit(target)
            except ValueError:
                return None
            if parts.scheme not in (b"http", b"https"):
                return None
            target = (parts.path or b"/") + (b"?" + parts.query if parts.query else b"")
        path, _, query = target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": request.http_version.decode("ascii"),
            "method": request.method.decode("ascii"),
            "scheme": "http",
            "path": unquote(path.decode("latin-1")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": list(request.headers),
            "client": self._connection.peer,
            "server": self._connection.own,
            "extensions": {VOUCH: self._connection.vouch, NOTES: self._connection.notes},
        }

    # --- called by the application ---

    async def _receive(self) -> Message:
        while not (self._body_over or self._gone or self._has_begun):
            try:
                event = self._http.next_event()
                if event is h11.NEED_DATA:
                    await self._more()
                    continue
            except h11.RemoteProtocolError:
                self._problem = self._problem or 400
                break
            if isinstance(event, h11.Data):
                if self._is_crumbs(event):
                    self._problem = 400
                    break
                return {"type": "http.request", "body": bytes(event.data), "more_body": True}
            if isinstance(event, h11.EndOfMessage) or event is h11.PAUSED:
                self._body_over = True
                return {"type": "http.request", "body": b"", "more_body": False}
            break
        if self._body_over or self._has_begun:
            await self._hangup()
        self._gone = True
        return {"type": "http.disconnect"}

    async def _more(self) -> None:
        """Read more of the body."""
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await write(self._stream, self._http.send(go_on))
        data, self._connection.waits = b"", True
        with trio.CancelScope(deadline=min(self._body_by, self._progress_by)) as patience:
            data = await read(self._stream)
        self._connection.waits = False
        if patience.cancelled_caught:
            self._problem = 408
        self._progress += len(data)
        if self._progress >= PROGRESS_BYTES:
            self._connection.since = trio.current_time()
            self._progress, self._progress_by = 0, trio.current_time() + PROGRESS_WITHIN
        self._http.receive_data(data)

    def _is_crumbs(self, piece: h11.Data) -> bool:
        """Count a piece of the body. Return True if the body has more chunks than its size allows."""
        self._size += len(piece.data)
        self._chunks += piece.chunk_start
        return self._chunks > MOST_CHUNKS + self._size // CHUNK_BYTES

    async def _hangup(self) -> None:
        """Wait until the client has gone. Requests that it sends meanwhile are kept."""
        while self._ahead < MOST_AHEAD:
            # It waits as long as the answer lasts, and waiting for data would hold more frames in memory.
            await trio.lowlevel.wait_readable(self._stream.socket)
            data = await read(self._stream)
            self._http.receive_data(data)
            if not data:
                return
            self._ahead += len(data)
        await trio.sleep_forever()

    async def _send(self, message: Message) -> None:
        if self._gone:
            raise Hangup
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ()), (b"date", formatdate(usegmt=True).encode())]
            if self._connection.closing or not self._is_whole():
                headers.append((b"connection", b"close"))
            self._head = h11.Response(status_code=message["status"], headers=headers)
            self._takes_body = self._method != b"HEAD" and message["status"] not in (204, 304)
            return
        assert self._has_begun  # noqa: S101 - an answer has a head first
        data, self._head = self._http.send(self._head) if self._head is not None else b"", None
        self._started = True
        if (body := message.get("body", b"")) and self._takes_body:
            data += self._http.send(h11.Data(body))
        if not message.get("more_body", False):
            data += self._http.send(h11.EndOfMessage())
        await write(self._stream, data)

    @property
    def _has_begun(self) -> bool:
        return self._started or self._head is not None

    async def _plainly(self, status: int) -> None:
        headers = [("Content-Length", "0"), ("Connection", "close")]
        head = h11.Response(status_code=status, headers=headers)
        await write(self._stream, self._http.send(head) + self._http.send(h11.EndOfMessage()))


async def read(stream: trio.SocketStream) -> bytes:
    """Return the next data; empty if the client has closed."""
    try:
        return bytes(await stream.receive_some(PIECE))
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return b""


async def write(stream: trio.SocketStream, data: bytes) -> None:
    """Send this in pieces. Raises `Hangup` if the client does not take it."""
    await trio.lowlevel.checkpoint()
    try:
        # Nearly always the system takes all of it at once. Then a deadline would cost more than the sending.
        sent = send_at_once(stream.socket, data)
    except OSError as error:
        raise Hangup from error
    for start in range(sent, len(data), PIECE):
        with trio.move_on_after(TAKEN_WITHIN) as patience:
            try:
                await stream.send_all(data[start : start + PIECE])
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise Hangup from error
        if patience.cancelled_caught:
            raise Hangup
