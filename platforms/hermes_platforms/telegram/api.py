"""The Bot API over HTTP: one call, and its outcome as exactly as it is known.

The token is a part of every URL. No URL leaves this module, and the token is removed from the error texts of
libraries and servers.
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
"""Shorter than the servers' own limit: if the server closes a connection while we write, the outcome is
unknown."""

# httpx logs the whole URL of each request.
logging.getLogger("httpx").setLevel(logging.WARNING)


class NotReached(Exception):
    """The server was not reached: the call certainly had no effect."""


class NoAnswer(Exception):
    """The server did not answer: the call may have had an effect."""


class Denied(Exception):
    """The server refused the call: it certainly had no effect."""

    def __init__(self, code: int, description: str, parameters: Mapping[str, Any]) -> None:
        super().__init__(f"{code}: {description}")
        self.code, self.description = code, description
        retry_after, moved_to = parameters.get("retry_after"), parameters.get("migrate_to_chat_id")
        self.retry_after = float(retry_after) if isinstance(retry_after, int | float) else None
        self.moved_to = str(moved_to) if isinstance(moved_to, int) else None
        """Id of the chat that replaced this one."""

    def says(self, *words: str) -> bool:
        """Return True if the description contains one of these texts."""
        return any(word in self.description.lower() for word in words)

    @property
    def refuses_token(self) -> bool:
        """Return True if the token is invalid. For a token that never existed the answer is a bare 404."""
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
        """End the calls in progress, and refuse later ones: the object may outlive its connections."""
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
        """Return the result of a call. Raises `NotReached`, `NoAnswer` or `Denied`."""
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
        """Return a file. Raises `NotReached`, `NoAnswer` or `Denied`, also if it is longer than `most`
        bytes."""
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
                            # A cancellation closes the generators of the library; an early exit would not.
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
    context.load_default_certs()  # those that this machine trusts in addition
    return context


@asynccontextmanager
async def open_api(token: str, base_url: str) -> AsyncIterator[Api]:
    """Open the connections of a bot while inside. Requests to a server on this machine use no proxy."""
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
