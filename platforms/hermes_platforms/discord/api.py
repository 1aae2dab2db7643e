"""Discord's API over HTTP: one call, and its outcome as exactly as it is known.

A call waits while its limit is known to be used up, so that Discord refuses nothing: a bot whose requests are
refused too often is shut out. A longer wait is for the caller, as `TooMany`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from ..http_calls import Denied as AnyDenied
from ..http_calls import HttpCalls, NoAnswer, NotReached, TooLong, open_http
from .buckets import Buckets, Route, route_of

BASE_URL = "https://discord.com"
LONGEST_WAIT = 5.0
OVERLOADED = 130000

__all__ = ["BASE_URL", "Denied", "DiscordApi", "NoAnswer", "NotReached", "TooLong", "TooMany", "open_api"]


class Denied(AnyDenied):
    """Discord refused the call: it certainly had no effect."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(f"{status}: {message}" + (f" ({code})" if code else ""))
        self.status, self.code = status, code


class TooMany(Denied):
    """The call was one too many, or would have been."""

    def __init__(self, seconds: float) -> None:
        super().__init__(429, 0, f"the limit is reached for {seconds:g} seconds")
        self.seconds = seconds


class DiscordApi:
    """Calls of one bot."""

    def __init__(self, http: HttpCalls, token: str, base_url: str) -> None:
        self._http, self._base_url = http, base_url.rstrip("/")
        self._headers = {
            "authorization": f"Bot {token}",
            "user-agent": "DiscordBot (hermes-trio, 1)",
        }
        self._buckets = Buckets()

    @property
    def closed(self) -> bool:
        """True after the connections were closed."""
        return self._http.closed

    async def call(
        self,
        method: str,
        path: str,
        content: object = None,
        *,
        files: Sequence[tuple[str, bytes]] = (),
        within: float = 60.0,
    ) -> Any:
        """Return the JSON of the answer; None without any. `path` is without its query. Raises `NotReached`,
        `NoAnswer` or `Denied`."""
        route = route_of(method, path)
        await self._room(route)
        form: dict[str, Any] = {}
        if files:
            form["data"] = {"payload_json": json.dumps(content)}
            form["files"] = {f"files[{number}]": file for number, file in enumerate(files)}
        elif method == "GET":
            form["params"] = content
        elif content is not None:
            form["json"] = content
        url = f"{self._base_url}/api/v10{path}"
        answer, body = await self._http.call(method, url, headers=self._headers, within=within, **form)
        self._buckets.answered(route, answer.headers, trio.current_time())
        return self._result(answer.status_code, answer.headers, body)

    async def download(self, url: str, most: int) -> bytes:
        """Return a file. Raises `NotReached`, `NoAnswer`, `Denied` or `TooLong`."""
        status, data = await self._http.download(url, most)
        if status != 200:
            raise Denied(404, 0, f"the file is not there (status {status})")
        return data

    def is_ours(self, url: str) -> bool:
        """Return True for an address of the server that we talk to."""
        return url.startswith(f"{self._base_url}/")

    async def _room(self, route: Route) -> None:
        while (wait := self._buckets.wait(route, trio.current_time())) > 0:
            if wait > LONGEST_WAIT:
                await trio.lowlevel.checkpoint()
                raise TooMany(wait)
            await trio.sleep(wait)
        self._buckets.take(route, trio.current_time())

    def _result(self, status: int, headers: Mapping[str, str], body: bytes) -> Any:
        try:
            answer = json.loads(body) if body else None
        except (ValueError, RecursionError):
            answer = None
        said = answer if isinstance(answer, dict) else {}
        if status == 429:
            seconds = _seconds(said.get("retry_after"), headers.get("retry-after"))
            if said.get("global") or not said:  # else the headers have told the limit
                self._buckets.hold(trio.current_time() + seconds)
            raise TooMany(seconds)
        if 200 <= status < 300:
            if answer is None and status != 204:
                raise NoAnswer(f"status {status}, and no JSON")
            return answer
        code = said.get("code")
        code = code if isinstance(code, int) else 0
        if status >= 500 and code != OVERLOADED:
            raise NoAnswer(f"status {status}")
        raise Denied(status, code, str(said.get("message", "")))


def _seconds(*values: object) -> float:
    for value in values:
        try:
            return max(float(value), 0.0)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
    return 1.0


@asynccontextmanager
async def open_api(token: str, base_url: str) -> AsyncIterator[DiscordApi]:
    """Open the connections of a bot while inside."""
    async with open_http(base_url, token) as http:
        yield DiscordApi(http, token, base_url)
