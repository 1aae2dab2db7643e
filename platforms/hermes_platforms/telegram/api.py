"""The Bot API over HTTP: one call, and its outcome as exactly as it is known.

The token is a part of every URL. No URL leaves this module, and `http_calls` removes the token from the error
texts of libraries and servers.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from ..http_calls import Denied as AnyDenied
from ..http_calls import Files, HttpCalls, NoAnswer, NotReached, open_http

BASE_URL = "https://api.telegram.org"

__all__ = ["BASE_URL", "Api", "Denied", "Files", "NoAnswer", "NotReached", "open_api"]


class Denied(AnyDenied):
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

    def __init__(self, http: HttpCalls, token: str, base_url: str) -> None:
        self._http = http
        self._root = f"{base_url.rstrip('/')}/bot{token}/"
        self._files = f"{base_url.rstrip('/')}/file/bot{token}/"

    @property
    def closed(self) -> bool:
        """True after the connections were closed."""
        return self._http.closed

    async def call(
        self,
        method: str,
        params: Mapping[str, object],
        *,
        files: Files | None = None,
        within: float = 60.0,
    ) -> Any:
        """Return the result of a call. Raises `NotReached`, `NoAnswer` or `Denied`."""
        if files is None:
            answer, body = await self._http.call("POST", self._root + method, json=params, within=within)
        else:
            form = {name: one if isinstance(one, str) else json.dumps(one) for name, one in params.items()}
            url = self._root + method
            answer, body = await self._http.call("POST", url, data=form, files=files, within=within)
        return _result(answer.status_code, body)

    async def download(self, path: str, most: int, *, within: float = 60.0) -> bytes:
        """Return a file. Raises `NotReached`, `NoAnswer`, `Denied` or `TooLong`."""
        status, data = await self._http.download(self._files + quote(path), most, within=within)
        if status != 200:
            raise Denied(status, "the file is not there", {})
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


@asynccontextmanager
async def open_api(token: str, base_url: str) -> AsyncIterator[Api]:
    """Open the connections of a bot while inside."""
    async with open_http(base_url, token) as http:
        yield Api(http, token, base_url)
