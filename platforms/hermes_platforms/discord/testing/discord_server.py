"""A Discord server on this machine: Discord as an adapter sees it, with people that are driven by a test.

    async with open_discord() as discord:
        ...                                            # an adapter with discord.token and discord.base_url
        await discord.says("hello")                    # returns once a heartbeat names its dispatch
        discord.drop()                                 # the connection breaks; the session stays
        discord.expires()                              # the session is forgotten: 9, and a new one
        await discord.close(4014)                      # the gateway closes with this code
        discord.limits["send"] = (5, 5.0)              # with the headers of a bucket

It speaks HTTP and WebSocket on 127.0.0.1. A dispatch counts as stored once a heartbeat or a resume names its
number. The real server gives no such sign of it; ours is what the adapter promises.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from hermes_trio.platform import CredentialsRefused, PlatformError

from ...testing import HttpRequest, RequestReader, response
from .discord_routes import ApiError, answer_of, handle
from .discord_sockets import GatewaySocket
from .discord_state import DiscordState


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call of an adapter."""

    method: str
    path: str


@asynccontextmanager
async def open_discord(name: str = "discord", *, account: str = "main") -> AsyncIterator[DiscordServer]:
    """Run the server while inside."""
    server = DiscordServer(name, account)
    async with server.listening():
        yield server


class DiscordServer(DiscordState):
    """A Discord server that listens on a port."""

    def __init__(self, name: str, account: str) -> None:
        super().__init__(name, account)
        self.asked: list[ApiCall] = []
        """Calls in their order."""
        self.sockets: list[GatewaySocket] = []
        """The connections to the gateway."""
        self._sent: dict[str, list[float]] = {}

    async def close(self, code: int) -> None:
        """Close the connections to the gateway with a code."""
        for socket in list(self.sockets):
            await socket.close(code)

    async def take_over(self, request: HttpRequest, stream: trio.SocketStream, reader: RequestReader) -> bool:
        """As `HttpStage.take_over`."""
        if request.headers.get("upgrade", "").lower() != "websocket":
            return False
        socket = GatewaySocket(self, stream)
        self.sockets.append(socket)
        try:
            await socket.serve(request, reader)
        finally:
            self.sockets.remove(socket)
        return True

    async def answer(self, request: HttpRequest) -> bytes:
        """As `HttpStage.answer`."""
        if request.path.startswith("/files/"):
            data = self.files.get(request.path.removeprefix("/files/"))
            return response(404, {}) if data is None else response(200, data)
        self.asked.append(ApiCall(request.method, request.path))
        try:
            act_afterwards = self.count()
            headers = self._limited(request)
            if not self.lets_in or request.headers.get("authorization") != f"Bot {self.token}":
                raise CredentialsRefused(self.name)
            result = await handle(self, request)
            act_afterwards()
            return response(200, result, headers) if result is not None else response(204, b"", headers)
        except PlatformError as error:
            return answer_of(error)
        except ApiError as error:
            return response(error.status, error.body)
        except _Limited as limited:
            self.refusals += 1
            body = {"message": "You are being rate limited.", "retry_after": limited.seconds, "global": False}
            return response(429, body, limited.headers)

    def _limited(self, request: HttpRequest) -> dict[str, str]:
        """Return the headers of the bucket of this request. Raises `_Limited` for one too many."""
        kind = "send" if request.method == "POST" and request.path.endswith("/messages") else ""
        if kind not in self.limits:
            return {}
        most, seconds = self.limits[kind]
        now = trio.current_time()
        sent = [at for at in self._sent.get(request.path, []) if now - at < seconds]
        rest = seconds - (now - sent[0]) if sent else seconds
        headers = {
            "x-ratelimit-bucket": "bucket-of-send",
            "x-ratelimit-limit": str(most),
            "x-ratelimit-remaining": str(max(most - len(sent) - 1, 0)),
            "x-ratelimit-reset-after": f"{rest:.3f}",
        }
        if len(sent) >= most:
            raise _Limited(round(rest, 3), headers)
        self._sent[request.path] = [*sent, now]
        return headers


class _Limited(Exception):
    def __init__(self, seconds: float, headers: dict[str, str]) -> None:
        super().__init__(seconds)
        self.seconds, self.headers = seconds, headers
