"""Forwarding: a request for a chat of another gateway is answered by that one, and its answer is passed on
piece by piece.

Only the owner of a chat has its running turn, its open questions and its files. The transcript and the events
of a run are rows, so a request that only reads is answered here if the owner cannot be reached. One that acts
is refused then, and nothing is done.

The request has been let in here. It is sent on with a key that is derived from `web.key`, and with the life
of this gateway, so the owner does not forward it a second time.

| ends | the other side |
|---|---|
| the client goes | the connection to the owner is closed, as if its own client had gone |
| the owner closes, or its life is over | the answer breaks off; one that has not begun is refused |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import h11
import trio
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from ...gateway.operations.chat_owners import owner_of_run, owner_of_session
from ...state.tables.lives import Peer
from ..http.auth import FORWARDED_BY, is_forwarded
from ..http.connection import PIECE, Hangup
from ..http.http_errors import RETRY_AFTER, Refusal
from .peers import Peers

CONNECT_WITHIN = 2.0
NOT_SENT = frozenset(
    (
        b"host connection keep-alive proxy-connection te trailer transfer-encoding upgrade expect "
        b"content-length authorization cookie origin referer x-hermes-page"
    ).split()
)
"""Headers of a request that are for this gateway: of its connection, or of its log-in."""
NOT_PASSED = frozenset((b"connection", b"keep-alive", b"transfer-encoding", b"date"))
"""Headers of an answer that are of its connection."""

AnswerHere = Callable[[], Awaitable[ASGIApp]]
"""Answers a request in this gateway."""

SessionElsewhere = Callable[[Request, str, bytes], Awaitable[ASGIApp | None]]
"""`Forwarding.to_session`."""


class OwnerUnreachable(Refusal):
    """The gateway that owns a chat cannot be reached. Nothing was done."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(
            503,
            "owner_unreachable",
            f"The gateway {peer.node} has this chat, and cannot be reached.",
            "Try again: another gateway takes over when it is lost. If it is not, set database.address in "
            "its config.yaml to an address that the other gateways reach.",
            {"Retry-After": str(RETRY_AFTER)},
        )


class OwnerLost(Refusal):
    """The gateway that owns a chat went away before it answered."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(
            502,
            "owner_lost",
            f"The gateway {peer.node}, which has this chat, went away before its answer.",
            "It may have done what was asked. Read the session, or repeat the request with the same "
            "Idempotency-Key.",
            {"Retry-After": str(RETRY_AFTER)},
        )


class KeysDiffer(Refusal):
    """The gateway that owns a chat has another key."""

    def __init__(self, peer: Peer) -> None:
        super().__init__(
            502,
            "keys_differ",
            f"The gateway {peer.node} has this chat, and another key than this one.",
            "Set web.key to the same value in config.yaml of all gateways that share the database.",
        )


@dataclass(frozen=True, slots=True)
class Forwarding:
    """Finds the owner of the chat that a request names."""

    peers: Peers
    key: str
    """Shows the other gateways that a request comes from one of them."""
    life: str

    def headers_to(self, peer: Peer) -> list[tuple[bytes, bytes]]:
        """Return the headers by which another gateway knows this one."""
        return [
            (b"host", urlsplit(peer.address or "").netloc.encode()),
            (b"authorization", f"Bearer {self.key}".encode()),
            (FORWARDED_BY.encode(), self.life.encode()),
        ]

    async def by_path(self, request: Request, here: AnswerHere | None) -> ASGIApp | None:
        """Return the answer of another gateway to a request whose path names a session or a run of it; None
        if this gateway has to answer. `here` answers if the owner cannot."""
        names = request.path_params
        if is_forwarded(request):
            return None
        if "session_id" in names:
            peer = await self.peers.owner(owner_of_session, names["session_id"])
        elif "run_id" in names:
            peer = await self.peers.owner(owner_of_run, names["run_id"])
        else:
            return None
        return None if peer is None else Relay(self, peer, None, here)

    async def to_session(self, request: Request, session_id: str, body: bytes) -> ASGIApp | None:
        """Return the answer of another gateway to a request with this body, whose session is one of it; None
        if this gateway has to answer."""
        if is_forwarded(request):
            return None
        peer = await self.peers.owner(owner_of_session, session_id)
        return None if peer is None else Relay(self, peer, body, None)


@dataclass(slots=True)
class _Progress:
    """How far an answer has come."""

    has_begun: bool = False
    is_whole: bool = False
    keys_differ: bool = False
    client_gone: bool = False


@dataclass(frozen=True, slots=True)
class Relay:
    """The answer of another gateway, passed on."""

    forwarding: Forwarding
    peer: Peer
    body: bytes | None
    """The body of the request; None if it has not been read."""
    here: AnswerHere | None
    """Answers in this gateway if the other one cannot."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with trio.fail_after(CONNECT_WITHIN):
                stream = await self.forwarding.peers.connect(self.peer)
        except (OSError, trio.TooSlowError, trio.BrokenResourceError):
            await self._instead(OwnerUnreachable(self.peer), scope, receive, send)
            return
        async with stream:
            progress = await self._passed_on(stream, scope, receive, send)
        if progress.is_whole or progress.client_gone:
            return
        if progress.has_begun:
            raise Hangup
        refusal = KeysDiffer(self.peer) if progress.keys_differ else OwnerLost(self.peer)
        await self._instead(refusal, scope, receive, send)

    async def _instead(self, refusal: Refusal, scope: Scope, receive: Receive, send: Send) -> None:
        if self.here is None or isinstance(refusal, KeysDiffer):
            raise refusal
        await (await self.here())(scope, receive, send)

    async def _passed_on(
        self, stream: trio.abc.Stream, scope: Scope, receive: Receive, send: Send
    ) -> _Progress:
        http, progress = h11.Connection(h11.CLIENT), _Progress()
        async with trio.open_nursery() as nursery:
            scope_of_all = nursery.cancel_scope

            async def ask() -> None:
                try:
                    await self._send_request(http, stream, scope, receive)
                    while (await receive())["type"] != "http.disconnect":
                        pass
                    progress.client_gone = True
                except Hangup:
                    progress.client_gone = True
                except trio.BrokenResourceError:
                    return  # its answer, or the lack of one, is read below
                scope_of_all.cancel(reason="the client has gone")

            async def watch() -> None:
                await self.forwarding.peers.lost(self.peer)
                scope_of_all.cancel(reason="the life of the owner is over")

            nursery.start_soon(ask)
            nursery.start_soon(watch)
            # If the owner has gone, the answer is not whole.
            with suppress(h11.RemoteProtocolError, trio.BrokenResourceError):
                await _pass_answer(http, stream, send, progress)
            scope_of_all.cancel(reason="the answer has ended")
        return progress

    async def _send_request(
        self, http: h11.Connection, stream: trio.abc.Stream, scope: Scope, receive: Receive
    ) -> None:
        parts = urlsplit(self.peer.address or "")
        target = parts.path.rstrip("/") + quote(scope["path"]) + _query(scope)
        headers = [(name, value) for name, value in scope["headers"] if name.lower() not in NOT_SENT]
        headers += [*self.forwarding.headers_to(self.peer), _framing(scope, self.body)]
        head = h11.Request(method=scope["method"], target=target.encode(), headers=headers)
        await stream.send_all(http.send(head))
        more, piece = self.body is None, self.body or b""
        while more or piece:
            if more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Hangup
                piece, more = message.get("body", b""), message.get("more_body", False)
            if piece:
                await stream.send_all(http.send(h11.Data(piece)))
            piece = b""
        await stream.send_all(http.send(h11.EndOfMessage()))


async def _pass_answer(
    http: h11.Connection, stream: trio.abc.Stream, send: Send, progress: _Progress
) -> None:
    """Pass an answer on as it comes, to its end. One that refuses our key is not passed on."""
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(bytes(await stream.receive_some(PIECE)))
        elif isinstance(event, h11.Response):
            if event.status_code == 401:
                progress.keys_differ = True
                return
            headers = [(name, value) for name, value in event.headers if name not in NOT_PASSED]
            progress.has_begun = True
            await send({"type": "http.response.start", "status": event.status_code, "headers": headers})
        elif isinstance(event, h11.Data):
            await send({"type": "http.response.body", "body": bytes(event.data), "more_body": True})
        elif isinstance(event, h11.EndOfMessage):
            progress.is_whole = True
            await send({"type": "http.response.body", "body": b""})
            return
        elif event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            return


def _framing(scope: Scope, body: bytes | None) -> tuple[bytes, bytes]:
    """Return the header with the length of a request's body."""
    given = dict(scope["headers"])
    if body is not None:
        return b"content-length", str(len(body)).encode()
    if b"transfer-encoding" in given:
        return b"transfer-encoding", b"chunked"
    return b"content-length", given.get(b"content-length", b"0")


def _query(scope: Scope) -> str:
    query: str = scope["query_string"].decode("latin-1")
    return f"?{query}" if query else ""
