"""Calls of the Client-Server API as the contract knows them.

| Refusal | Error |
|---|---|
| 429 | `FloodWait` |
| `M_FORBIDDEN` for a room | `ChatGone` |
| the token is refused | `CredentialsRefused`, which the sync raises |
| any other one | `Refused` |
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hermes_trio.platform import (
    ChatGone,
    CredentialsRefused,
    FloodWait,
    PlatformError,
    Refused,
)

from ..contract_calls import ContractCalls
from ..http_calls import Denied as AnyDenied
from ..http_calls import HttpCalls, NoAnswer, open_http

CLIENT = "/_matrix/client/v3"
UNKNOWN_TOKEN = ("M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED")


class Denied(AnyDenied):
    """The server refused the call: it certainly had no effect."""

    def __init__(self, status: int, code: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(f"{status}: {message} ({code})")
        self.status, self.code, self.retry_after = status, code, retry_after


class MatrixCalls(ContractCalls[Denied]):
    """Calls of one account."""

    service = "Matrix"

    def __init__(self, http: HttpCalls, token: str, base_url: str, platform: str = "matrix") -> None:
        super().__init__(lambda: http.closed, lambda why: None)  # the next sync fails too, and ends the link
        self._http, self._base_url, self._platform = http, base_url.rstrip("/"), platform
        self._headers = {"authorization": f"Bearer {token}"}

    @property
    def closed(self) -> bool:
        """True after the connections were closed."""
        return self._http.closed

    async def ask(
        self,
        method: str,
        path: str,
        content: object = None,
        *,
        params: dict[str, str] | None = None,
        within: float = 60.0,
    ) -> Any:
        """Return the JSON of an answer. Raises `NotReached`, `NoAnswer` or `Denied`."""
        body: dict[str, Any] = {"content": content} if isinstance(content, bytes) else {}
        if content is not None and not body:
            body = {"json": content}
        url = f"{self._base_url}{path}"
        answer, data = await self._http.call(
            method, url, headers=self._headers, params=params, within=within, **body
        )
        return _result(answer.status_code, data)

    async def send(self, method: str, path: str, content: object, **how: Any) -> Any:
        """Make a call that sends something. It is not repeated if it may have had an effect."""
        return await self.sent(lambda: self.ask(method, path, content, **how))

    async def once(self, method: str, path: str, content: object = None, **how: Any) -> Any:
        """Make a call that the caller repeats, or does not need."""
        return await self.asked(lambda: self.ask(method, path, content, **how))

    async def download(self, path: str, most: int) -> bytes:
        """Return a file. Raises `Refused` if it is longer than `most` bytes."""
        return await self.downloaded(lambda: self._file(path, most))

    async def _file(self, path: str, most: int) -> bytes:
        status, data = await self._http.download(f"{self._base_url}{path}", most, headers=self._headers)
        if status != 200:
            raise Denied(404, "", f"the file is not there (status {status})")
        return data

    def refusal(self, no: Denied) -> PlatformError:
        """As `ContractCalls.refusal`."""
        if no.code in UNKNOWN_TOKEN:
            return CredentialsRefused(self._platform)
        if no.status == 429:
            return FloodWait(no.retry_after)
        return (ChatGone if no.code == "M_FORBIDDEN" else Refused)(f"Matrix: {no}.")


def _result(status: int, body: bytes) -> Any:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise NoAnswer(f"status {status}, and no JSON") from None
    if 200 <= status < 300:
        return answer
    said = answer if isinstance(answer, dict) else {}
    if status >= 500:
        raise NoAnswer(f"status {status}")
    wait = said.get("retry_after_ms")
    seconds = wait / 1000 if isinstance(wait, int | float) else 1.0
    raise Denied(status, str(said.get("errcode", "")), str(said.get("error", "")), seconds)


@asynccontextmanager
async def open_calls(token: str, base_url: str, platform: str) -> AsyncIterator[MatrixCalls]:
    """Open the connections of an account while inside."""
    async with open_http(base_url, token) as http:
        yield MatrixCalls(http, token, base_url, platform)
