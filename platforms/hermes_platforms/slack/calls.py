"""Calls of Slack's Web API as the contract knows them.

| Refusal | Error |
|---|---|
| 429, or `ratelimited` | `FloodWait` |
| the channel is gone or archived, or the app is no member | `ChatGone` |
| the request was not read whole; the workspace is being moved | `NotSent` |
| the token is refused | `CredentialsRefused` |
| any other one | `Refused` |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hermes_trio.platform import ChatGone, CredentialsRefused, FloodWait, NotSent, PlatformError, Refused

from ..contract_calls import ContractCalls
from .api import Denied, SlackApi

GONE = ("channel_not_found", "is_archived", "not_in_channel", "user_not_found", "restricted_action")
NOT_TAKEN = ("request_timeout", "team_added_to_org")


class Calls(ContractCalls[Denied]):
    """The calls of one link."""

    service = "Slack"

    def __init__(self, api: SlackApi, end: Callable[[str], None], platform: str) -> None:
        super().__init__(lambda: api.closed, end)
        self._api, self._platform = api, platform

    async def send(self, method: str, **params: object) -> dict[str, Any]:
        """Make a call that sends a message. It is not repeated if it may have had an effect."""
        return await self.sent(partial(self._api.call, method, params))

    async def once(self, method: str, **params: object) -> dict[str, Any]:
        """Make a call without any retry: the caller repeats it, or does not need it."""
        return await self.asked(partial(self._api.call, method, params))

    async def upload(self, url: str, data: bytes) -> None:
        """Upload the content of a file. It may be repeated: nobody sees it yet."""
        await self.asked(partial(self._api.upload, url, data))

    async def download(self, url: str, most: int) -> bytes:
        """Return a file. Raises `Refused` if it is longer than `most` bytes."""
        return await self.downloaded(partial(self._api.download, url, most))

    def refusal(self, no: Denied) -> PlatformError:
        """As `ContractCalls.refusal`."""
        if no.error == "ratelimited":
            return FloodWait(no.seconds)
        if no.refuses_token:
            return CredentialsRefused(self._platform)
        if no.error in NOT_TAKEN:
            return NotSent(f"Slack: {no}.")
        return (ChatGone if no.error in GONE else Refused)(f"Slack: {no}.")
