"""A Slack server on this machine: a workspace as an app sees it, with people that are driven by a test.

    async with open_slack() as slack:
        ...                                            # an adapter with slack.token, app_token and base_url
        await slack.says("hello")                      # returns once its envelope is acknowledged
        slack.drop()                                   # the connections break
        await slack.refreshes()                        # a new connection is asked for; the old one stays
        slack.says_it_again = True                     # each event is delivered twice

It speaks HTTP and WebSocket on 127.0.0.1. An event that is not acknowledged is delivered again on the next
connection: at once, where Slack waits a minute and gives up after three attempts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from hermes_trio.platform import PlatformError

from ...testing import HttpRequest, RequestReader, response
from .slack_methods import ApiError, answer_of, handle
from .slack_sockets import EnvelopeSocket
from .slack_state import SlackState


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call of an adapter."""

    method: str
    params: dict[str, object]


@asynccontextmanager
async def open_slack(name: str = "slack", *, account: str = "main") -> AsyncIterator[SlackServer]:
    """Run the server while inside."""
    server = SlackServer(name, account)
    async with server.listening():
        yield server


class SlackServer(SlackState):
    """A Slack server that listens on a port."""

    def __init__(self, name: str, account: str) -> None:
        super().__init__(name, account)
        self.asked: list[ApiCall] = []
        """Calls in their order."""
        self.sockets: list[EnvelopeSocket] = []
        """The connections, the newest at the end."""
        self.opened = 0
        """Number of connections that were opened."""

    async def refreshes(self, reason: str = "refresh_requested") -> None:
        """Ask for a new connection on the newest one, which stays open."""
        await self.sockets[-1].refresh(reason)

    async def closes_old(self) -> None:
        """Close every connection but the newest one."""
        for socket in self.sockets[:-1]:
            await socket.close(1000)

    async def take_over(self, request: HttpRequest, stream: trio.SocketStream, reader: RequestReader) -> bool:
        """As `HttpStage.take_over`."""
        if request.headers.get("upgrade", "").lower() != "websocket":
            return False
        if request.params.get("ticket") not in self.tickets:
            await stream.send_all(response(408, {"ok": False}))
            return True
        self.tickets.remove(str(request.params["ticket"]))
        socket = EnvelopeSocket(self, stream)
        self.sockets.append(socket)
        self.deliveries.append(socket.delivered)
        self.opened += 1
        self.changed.set()
        try:
            await socket.serve(request, reader)
        finally:
            self.sockets.remove(socket)
            self.deliveries = [one for one in self.deliveries if one is not socket.delivered]
            self.changed.set()
        return True

    async def answer(self, request: HttpRequest) -> bytes:
        """As `HttpStage.answer`."""
        if request.path.startswith("/files/"):
            data = self.files.get(request.path.removeprefix("/files/"))
            if data is None or request.headers.get("authorization") != f"Bearer {self.token}":
                return response(404, {})
            return response(200, data)
        if request.path.startswith("/upload/"):
            self.uploads[request.path.removeprefix("/upload/")].data = request.body
            return response(200, b"OK")
        method = request.path.removeprefix("/api/")
        self.asked.append(ApiCall(method, dict(request.params)))
        scopes = {"x-oauth-scopes": ",".join(sorted(self.scopes))}
        try:
            act_afterwards = self.count()
            result = await handle(self, method, request)
            act_afterwards()
            return response(200, {"ok": True, **result}, scopes)
        except PlatformError as error:
            return answer_of(error)
        except ApiError as error:
            return response(200, {"ok": False, "error": str(error)}, scopes)
