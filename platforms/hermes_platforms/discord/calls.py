"""Calls of Discord's API as the contract knows them.

| Refusal | Error |
|---|---|
| 429, or the limit is known to be reached | `FloodWait` |
| the channel is gone, or the bot may not write there | `ChatGone` |
| overloaded | `NotSent` |
| the token is refused | `CredentialsRefused` |
| any other one | `Refused` |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hermes_trio.platform import (
    ChatGone,
    CredentialsRefused,
    FloodWait,
    NotSent,
    PlatformError,
    Refused,
)

from ..contract_calls import ContractCalls
from .api import OVERLOADED, Denied, DiscordApi, TooMany
from .gateway import Gateway

GONE = (10003, 10004, 50001, 50007)
"""Unknown channel, unknown server, no access, a person who takes no messages of the bot."""


class Calls(ContractCalls[Denied]):
    """The calls of one link."""

    service = "Discord"

    def __init__(self, api: DiscordApi, gateway: Gateway) -> None:
        super().__init__(lambda: api.closed, gateway.end)
        self._api = api

    async def send(self, path: str, content: object, files: Sequence[tuple[str, bytes]] = ()) -> Any:
        """Make a call that sends a message. It is not repeated if it may have had an effect."""
        return await self.sent(lambda: self._api.call("POST", path, content, files=files))

    async def once(self, method: str, path: str, content: object = None) -> Any:
        """Make a call without any retry: the caller repeats it, or does not need it."""
        return await self.asked(lambda: self._api.call(method, path, content))

    async def download(self, url: str, most: int) -> bytes:
        """Return a file. Raises `Refused` if it is longer than `most` bytes."""
        return await self.downloaded(lambda: self._api.download(url, most))

    def refusal(self, no: Denied) -> PlatformError:
        """As `ContractCalls.refusal`."""
        if isinstance(no, TooMany):
            return FloodWait(no.seconds)
        if no.status == 401:
            return CredentialsRefused("discord")
        if no.code == OVERLOADED:
            return NotSent("Discord is overloaded.")
        return (ChatGone if no.code in GONE else Refused)(f"Discord: {no}.")
