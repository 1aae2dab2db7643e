"""The Bot API over HTTP: one call, and what can be known of it when it did not work out.

The token is a part of every address. So no address leaves this module, and what a library or a server says
of an error is cleaned before it is passed on.
"""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import httpx  # noqa: ASYNC127
import trio
import trio.lowlevel

BASE_URL = "https://api.telegram.org"
CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 20.0
"""Less than any server's: a connection that ends just when we write to it leaves us not knowing."""

# It writes a line with the whole address for each request.
logging.getLogger("httpx").setLevel(logging.WARNING)


class NotReached(Exception):
    """The server was not reached: surely nothing was done."""


class NoAnswer(Exception):
    """The server may have done it, and nobody knows."""


class Denied(Exception):
    """The server said no: surely nothing was done."""

    def __init__(self, code: int, description: str, parameters: Mapping[str, Any]) -> None:
        super().__init__(f"{code}: {description}")
        self.code, self.description = code, description
        retry_after, moved_to = parameters.get("retry_after"), parameters.get("migrate_to_chat_id")
        self.retry_after = float(retry_after) if isinstance(retry_after, int | float) else None
        self.moved_to = str(moved_to) if isinstance(moved_to, int) else None
        """The chat that has taken this one's place."""

    def says(self, *words: str) -> bool:
        """Whether one of these is in what was said."""
        return any(word in self.description.lower() for word in words)

    @property
    def refuses_token(self) -> bool:
        """Whether it is we who are not known; for a token that never was one it says 404 and no more."""
        return self.code == 401 or (self.code == 404 and self.description == "Not Found")


class Api:
    """Calls of one bot."""

    def __init__(self, client: httpx.AsyncClient, token: str, base_url: str) -> None:
        self._client, self._token = client, token
        self._root = f"{base_url.rstrip('/')}/bot{token}/"
        self._files = f"{base_url.rstrip('/')}/file/bot{token}/"
        self._calls: set[trio.CancelScope] = set()
        self.closed = False

    def close(self) -> None:
        """What is under way ends, and nothing begins any more: somebody may hold this for longer than the
        connections live."""
        self.closed = True
        for call in self._calls:
            call.cancel(reason="the connections are closed")

    async def call(
        self,
        method: str,
        params: Mapping[str, object],
        *,
        files: Mapping[str, tuple[str, bytes]] | None = None,
        within: float = 60.0,
    ) -> Any:
        """The result. Raises `NotReached`, `NoAnswer` or `Denied`."""
        if self.closed:
            await trio.lowlevel.checkpoint()
            raise NotReached("the connections are closed")
        with trio.move_on_after(within) as scope:
            self._calls.add(scope)
            try:
                response = await self._post(method, params, files)
            finally:
                self._calls.discard(scope)
            return _result(response.status_code, response.content.replace(self._token.encode(), b"***"))
        raise NoAnswer("the connections are closed" if self.closed else f"none within {within:g} seconds")

    async def download(self, path: str, most: int, *, within: float = 60.0) -> bytes:
        """A file. Raises `NotReached`, `NoAnswer` or `Denied`, also where it is longer than that."""
        if self.closed:
            await trio.lowlevel.checkpoint()
            raise NotReached("the connections are closed")
        data, is_long = bytearray(), False
        with trio.move_on_after(within) as scope:
            self._calls.add(scope)
            try:
                async with self._client.stream("GET", self._files + quote(path)) as response:
                    async for part in response.aiter_bytes():
                        data += part
                        if len(data) > most:
                            # Left in any other way, the library's generators would be nobody's.
                            is_long = True
                            scope.cancel(reason="the file is too long")
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
                raise NotReached(self._clean(error)) from None
            except httpx.HTTPError as error:
                raise NoAnswer(self._clean(error)) from None
            finally:
                self._calls.discard(scope)
            if response.status_code != 200:
                raise Denied(response.status_code, "the file is not there", {})
            if not is_long:
                return bytes(data)
        if is_long:
            raise Denied(413, f"the file has more than {most} bytes", {})
        raise NoAnswer("the connections are closed" if self.closed else f"none within {within:g} seconds")

    async def _post(
        self, method: str, params: Mapping[str, object], files: Mapping[str, tuple[str, bytes]] | None
    ) -> httpx.Response:
        if files is None:
            request = self._client.build_request("POST", self._root + method, json=params)
        else:
            form = {name: one if isinstance(one, str) else json.dumps(one) for name, one in params.items()}
            request = self._client.build_request("POST", self._root + method, data=form, files=files)
        request.stream = _Body(request.read())
        try:
            return await self._client.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
            raise NotReached(self._clean(error)) from None
        except httpx.HTTPError as error:
            raise NoAnswer(self._clean(error)) from None

    def _clean(self, error: Exception) -> str:
        return f"{type(error).__name__}: {error}".removesuffix(": ").replace(self._token, "***")


class _Body(httpx.AsyncByteStream):
    """What is posted, in one piece. The library's own is a generator, and a connection that breaks on the way
    leaves it for the garbage collector to complain about."""

    def __init__(self, data: bytes) -> None:
        self._data: bytes | None = data

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        if self._data is None:
            raise StopAsyncIteration
        data, self._data = self._data, None
        return data


def _result(status: int, content: bytes) -> Any:
    try:
        answer = json.loads(content)
        ok, description = answer["ok"], str(answer.get("description", ""))
        parameters = answer.get("parameters", {})
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        raise NoAnswer(f"status {status}, and no answer of a Bot API") from None
    if ok is True and "result" in answer:
        return answer["result"]
    if status >= 500:
        raise NoAnswer(f"status {status}: {description}")
    raise Denied(status, description, parameters if isinstance(parameters, dict) else {})


def _tls() -> ssl.SSLContext:
    context = httpx.create_ssl_context()
    context.load_default_certs()  # what this machine trusts besides, such as a company's own
    return context


@asynccontextmanager
async def open_api(token: str, base_url: str) -> AsyncIterator[Api]:
    """A bot's connections, while inside. A server on this machine is never asked through a proxy."""
    local = urlsplit(base_url).hostname in ("localhost", "127.0.0.1", "::1")
    client = httpx.AsyncClient(
        verify=_tls() if base_url.startswith("https:") else False,
        trust_env=not local,
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        limits=httpx.Limits(
            max_connections=None, max_keepalive_connections=20, keepalive_expiry=KEEP_ALIVE_SECONDS
        ),
        headers={"user-agent": "hermes-trio"},
    )
    async with client:
        api = Api(client, token, base_url)
        try:
            yield api
        finally:
            api.close()
