"""The API of a gateway as the terminal uses it: requests, and the stream of events.

The address is looked up for each request: a gateway that was restarted may have another port.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec
import trio

from ...agent.providers.sse import Decoder
from ...base.errors import GatewayError
from ...base.tls import httpx

REQUEST_TIMEOUT = 30.0
LONG_TIMEOUT = 600.0
"""Seconds for a command: some wait for a model, or for the end of a turn."""
SILENCE = 60.0
"""Seconds without any byte after which the stream of events is opened again; a heartbeat comes each 15 s."""

Event = Mapping[str, Any]


class Unreachable(GatewayError):
    """The gateway does not answer."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The gateway does not answer ({reason}). `hermes-trio status` shows its state.")


class ApiRefused(GatewayError):
    """The gateway refuses a request."""

    def __init__(self, status: int, code: str, message: str, remedy: str) -> None:
        super().__init__(f"{message} {remedy}".strip())
        self.status, self.code = status, code


class GatewayApi:
    """Requests with the key of the gateway. Made by `open_api`."""

    def __init__(self, http: httpx.AsyncClient, address: Callable[[], str | None]) -> None:
        self._http, self._address = http, address

    async def get(self, path: str, **query: str | int) -> Any:
        """Return the answer. Raises `ApiRefused` and `Unreachable`."""
        return await self._request("GET", path, params=query)

    async def post(self, path: str, body: Mapping[str, Any], *, within: float = REQUEST_TIMEOUT) -> Any:
        """Send a body, and return the answer. Raises `ApiRefused` and `Unreachable`."""
        return await self._request("POST", path, json=body, within=within)

    @asynccontextmanager
    async def events(self, cursor: str) -> AsyncIterator[trio.MemoryReceiveChannel[Event]]:
        """Yield the events after the cursor; without one, those of the runs that are not over. The channel
        ends with the stream. Raises `ApiRefused` and `Unreachable` where the stream cannot be opened."""
        send, receive = trio.open_memory_channel[Event](0)
        timeout = httpx.Timeout(REQUEST_TIMEOUT, read=SILENCE)
        query = {"cursor": cursor} if cursor else {}
        try:
            async with self._http.stream(
                "GET", self._url("/api/events"), params=query, timeout=timeout
            ) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise _refusal(answer)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_decode, answer, send)
                    yield receive
                    nursery.cancel_scope.cancel(reason="the listener has left")
        except httpx.HTTPError as error:
            raise Unreachable(str(error) or type(error).__name__) from error

    async def _request(self, method: str, path: str, *, within: float = REQUEST_TIMEOUT, **more: Any) -> Any:
        try:
            answer = await self._http.request(method, self._url(path), timeout=within, **more)
        except httpx.HTTPError as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        if not answer.is_success:
            raise _refusal(answer)
        return msgspec.json.decode(answer.content)

    def _url(self, path: str) -> str:
        address = self._address()
        if address is None:
            raise Unreachable("no gateway is running")
        return address + path


def session_path(session_id: str, rest: str = "") -> str:
    """Return the path of a session in the API."""
    return f"/api/sessions/{quote(session_id, safe='')}{rest}"


@asynccontextmanager
async def open_api(address: Callable[[], str | None], key: str) -> AsyncIterator[GatewayApi]:
    """Open the API of a gateway for the block."""
    # The key must not go through a proxy of the environment.
    async with httpx.AsyncClient(trust_env=False, headers={"Authorization": f"Bearer {key}"}) as http:
        yield GatewayApi(http, address)


async def _decode(answer: httpx.Response, send: trio.MemorySendChannel[Event]) -> None:
    """Send each event of a stream to the channel, and close it at the end of the stream."""
    decoder = Decoder()
    with send:
        try:
            async for chunk in answer.aiter_bytes():
                for event in decoder.feed(chunk):
                    await send.send(msgspec.json.decode(event.data))
        except httpx.HTTPError:
            return  # the listener opens the stream again


def _refusal(answer: httpx.Response) -> ApiRefused:
    """Return the error of a response."""
    try:
        error = msgspec.json.decode(answer.content)["error"]
        return ApiRefused(answer.status_code, error["code"], error["message"], error.get("remedy") or "")
    except (msgspec.MsgspecError, KeyError, TypeError):
        return ApiRefused(answer.status_code, "", f"The gateway answers {answer.status_code}.", "")
