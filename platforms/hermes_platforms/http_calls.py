"""HTTP requests of the adapters: one request, and its outcome as exactly as it is known.

The secret of the account may be a part of a URL, and a server may repeat it. It is removed from the texts of
all errors and from all answers, and no URL is logged.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx  # noqa: ASYNC127
import trio
import trio.lowlevel

CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 20.0
"""Shorter than the servers' own limit: if the server closes a connection while we write, the outcome is
unknown."""

Files = Mapping[str, tuple[str, bytes]]

# httpx logs the whole URL of each request.
logging.getLogger("httpx").setLevel(logging.WARNING)


class NotReached(Exception):
    """The server was not reached: the call certainly had no effect."""


class NoAnswer(Exception):
    """The server did not answer: the call may have had an effect."""


class TooLong(Exception):
    """The file is longer than the caller takes."""


class Denied(Exception):
    """The server refused the call: it certainly had no effect. Each platform has a form of its own."""


class HttpCalls:
    """Requests of one account."""

    def __init__(self, client: httpx.AsyncClient, secret: str) -> None:
        self._client, self._secret = client, secret
        self._calls: set[trio.CancelScope] = set()
        self.closed = False

    def close(self) -> None:
        """End the calls in progress, and refuse later ones: the object may outlive its connections."""
        self.closed = True
        for call in self._calls:
            call.cancel(reason="the connections are closed")

    async def call(
        self,
        method: str,
        url: str,
        *,
        within: float = 60.0,
        **content: Any,
    ) -> tuple[httpx.Response, bytes]:
        """Return an answer of any status, and its body. `content` is what httpx takes: `json`, `data`,
        `files`, `content`, `params`, `headers`. Raises `NotReached` or `NoAnswer`."""
        await self._check_open()
        with trio.move_on_after(within) as scope:
            request = self._client.build_request(method, url, **content)
            request.stream = _Body(request.read())
            with self._noted(scope):
                response = await self._client.send(request)
            return response, response.content.replace(self._secret.encode(), b"***")
        raise self._nothing_within(within)

    async def download(
        self, url: str, most: int, *, within: float = 60.0, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Return the status and the body of an answer. Raises `NotReached`, `NoAnswer`, and `TooLong` for a
        body of more than `most` bytes."""
        await self._check_open()
        data, is_long = bytearray(), False
        with trio.move_on_after(within) as scope:
            with self._noted(scope):
                async with self._client.stream("GET", url, headers=headers) as response:
                    async for part in response.aiter_bytes():
                        data += part
                        if len(data) > most:
                            # A cancellation closes the generators of the library; an early exit would not.
                            is_long = True
                            scope.cancel(reason="the file is too long")
            if not is_long:
                return response.status_code, bytes(data)
        if is_long:
            raise TooLong(f"the file has more than {most} bytes")
        raise self._nothing_within(within)

    async def _check_open(self) -> None:
        if self.closed:
            await trio.lowlevel.checkpoint()
            raise NotReached("the connections are closed")

    def _nothing_within(self, seconds: float) -> NoAnswer:
        return NoAnswer("the connections are closed" if self.closed else f"none within {seconds:g} seconds")

    @contextmanager
    def _noted(self, scope: trio.CancelScope) -> Iterator[None]:
        """Let `close` end the call in this block, and translate the errors of the library."""
        self._calls.add(scope)
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            raise NotReached(self._clean(error)) from None
        except httpx.HTTPError as error:
            raise NoAnswer(self._clean(error)) from None
        finally:
            self._calls.discard(scope)

    def _clean(self, error: Exception) -> str:
        return f"{type(error).__name__}: {error}".removesuffix(": ").replace(self._secret, "***")


class _Body(httpx.AsyncByteStream):
    """Request body in one piece. The library's own body is a generator: if the connection breaks during the
    request, nobody closes it, and the garbage collector warns."""

    def __init__(self, data: bytes) -> None:
        self._data: bytes | None = data

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        if self._data is None:
            raise StopAsyncIteration
        data, self._data = self._data, None
        return data


def tls_context() -> ssl.SSLContext:
    """Return the TLS settings of a client: also the certificates that this machine trusts in addition."""
    context = httpx.create_ssl_context()
    context.load_default_certs()
    return context


def is_local(url: str) -> bool:
    """Return True for a server on this machine: requests to it use no proxy."""
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")


@asynccontextmanager
async def open_http(base_url: str, secret: str) -> AsyncIterator[HttpCalls]:
    """Open the connections of an account while inside."""
    client = httpx.AsyncClient(
        verify=tls_context() if base_url.startswith("https:") else False,
        trust_env=not is_local(base_url),
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEP_ALIVE_SECONDS
        ),
        headers={"user-agent": "hermes-trio"},
    )
    async with client:
        calls = HttpCalls(client, secret)
        try:
            yield calls
        finally:
            calls.close()
