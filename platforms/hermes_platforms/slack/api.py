"""Slack's Web API: one call, and its outcome as exactly as it is known.

An answer with an error in it has the status 200. Some of these errors do not say whether the call had an
effect: then the outcome is unknown.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ..http_calls import Denied as AnyDenied
from ..http_calls import HttpCalls, NoAnswer, NotReached, TooLong, open_http

BASE_URL = "https://slack.com"
PERHAPS_DONE = ("fatal_error", "internal_error", "service_unavailable")
"""Errors after which a part of the call may have succeeded."""
TOKEN_REFUSED = (
    "invalid_auth",
    "not_authed",
    "account_inactive",
    "token_revoked",
    "token_expired",
    "not_allowed_token_type",
)

__all__ = ["BASE_URL", "Denied", "NoAnswer", "NotReached", "SlackApi", "TooLong", "open_api"]


class Denied(AnyDenied):
    """Slack refused the call: it certainly had no effect."""

    def __init__(self, error: str, seconds: float = 0.0, needed: str = "") -> None:
        super().__init__(f"{error} (the scope {needed} is missing)" if needed else error)
        self.error, self.seconds, self.needed = error, seconds, needed

    @property
    def refuses_token(self) -> bool:
        """Return True if no call can be made with this token."""
        return self.error in TOKEN_REFUSED


class SlackApi:
    """Calls with one token."""

    def __init__(self, http: HttpCalls, token: str, base_url: str) -> None:
        self._http, self._base_url = http, base_url.rstrip("/")
        self._headers = {"authorization": f"Bearer {token}"}
        self.scopes: frozenset[str] = frozenset()
        """The scopes of the token, once a call was answered."""

    @property
    def closed(self) -> bool:
        """True after the connections were closed."""
        return self._http.closed

    async def call(
        self, method: str, params: Mapping[str, object] | None = None, *, within: float = 60.0
    ) -> dict[str, Any]:
        """Return the answer to a call. Parameters that are None are left out. Raises `NotReached`, `NoAnswer`
        or `Denied`."""
        form = {name: _written(value) for name, value in (params or {}).items() if value is not None}
        url = f"{self._base_url}/api/{method}"
        answer, body = await self._http.call("POST", url, data=form, headers=self._headers, within=within)
        if scopes := answer.headers.get("x-oauth-scopes"):
            self.scopes = frozenset(one.strip() for one in scopes.split(","))
        return _result(answer.status_code, answer.headers, body)

    async def upload(self, url: str, data: bytes) -> None:
        """Upload the content of a file. Nobody sees it yet. Raises as `call` does."""
        answer, _ = await self._http.call("POST", url, content=data)
        if answer.status_code != 200:
            raise Denied(f"the upload has the status {answer.status_code}")

    async def download(self, url: str, most: int) -> bytes:
        """Return a file. Raises `NotReached`, `NoAnswer`, `Denied` or `TooLong`."""
        status, data = await self._http.download(url, most, headers=self._headers)
        if status != 200:
            raise Denied(f"the file is not there (status {status})")
        return data

    def is_ours(self, url: str) -> bool:
        """Return True for an address of the server that we talk to."""
        return url.startswith(f"{self._base_url}/")


def _written(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _result(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    if status == 429:
        raise Denied("ratelimited", _seconds(headers.get("retry-after")))
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise NoAnswer(f"status {status}, and no JSON") from None
    if not isinstance(answer, dict) or "ok" not in answer:
        raise NoAnswer(f"status {status}, and no answer of Slack")
    if answer["ok"] is True:
        return answer
    error = str(answer.get("error", ""))
    if error in PERHAPS_DONE or (status >= 500 and not error):
        raise NoAnswer(f"Slack answers {error or status}")
    if error == "ratelimited":
        raise Denied(error, _seconds(headers.get("retry-after")))
    raise Denied(error, needed=str(answer.get("needed") or ""))


def _seconds(value: str | None) -> float:
    try:
        return max(float(value or 1.0), 0.0)
    except ValueError:
        return 1.0


@asynccontextmanager
async def open_api(token: str, base_url: str) -> AsyncIterator[SlackApi]:
    """Open the connections of a token while inside."""
    async with open_http(base_url, token) as http:
        yield SlackApi(http, token, base_url)
