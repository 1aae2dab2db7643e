"""Calls of Discord's API as the contract knows them: each outcome is a result or one error of the contract.

| Outcome | Reaction |
|---|---|
| the server was not reached | retry for some seconds; then `NotSent`, and the link is lost |
| the answer was lost, or is a 5xx | `OutcomeUnknown`; for a call that may be repeated, `LinkLost` |
| 429, or the limit is known to be reached | `FloodWait` |
| the channel is gone, or the bot may not write there | `ChatGone` |
| overloaded | `NotSent` |
| the token is refused | `NotSent`, and the link is lost; the next connection raises `CredentialsRefused` |
| any other error | `Refused` |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio

from hermes_trio.platform import (
    ChatGone,
    FloodWait,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    PlatformError,
    Refused,
)

from .api import OVERLOADED, Denied, DiscordApi, NoAnswer, NotReached, TooLong, TooMany
from .gateway import Gateway

REACH_AGAIN_AFTER = (1.0, 2.0, 4.0)

GONE = (10003, 10004, 50001, 50007)
"""Unknown channel, unknown server, no access, a person who takes no messages of the bot."""


class Calls:
    """The calls of one link."""

    def __init__(self, api: DiscordApi, gateway: Gateway) -> None:
        self._api, self._gateway = api, gateway

    async def send(self, path: str, content: object, files: Sequence[tuple[str, bytes]] = ()) -> Any:
        """Make a call that sends a message. It is not repeated if it may have had an effect."""
        for pause in (*REACH_AGAIN_AFTER, None):
            try:
                return await self._api.call("POST", path, content, files=files)
            except NotReached as error:
                if pause is None or self._api.closed:
                    self._gateway.end(str(error))
                    raise NotSent(f"Discord cannot be reached: {error}.") from error
            except NoAnswer as error:
                raise OutcomeUnknown(f"Discord did not answer: {error}.") from error
            except Denied as no:
                raise self._refusal(no) from no
            await trio.sleep(pause)
        raise AssertionError("The last pause is none.")

    async def once(self, method: str, path: str, content: object = None) -> Any:
        """Make a call without any retry: the caller repeats it, or does not need it."""
        try:
            return await self._api.call(method, path, content)
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Discord did not answer: {error}.") from error
        except Denied as no:
            raise self._refusal(no) from no

    async def download(self, url: str, most: int) -> bytes:
        """Return a file. Raises `Refused` if it is longer than `most` bytes."""
        try:
            return await self._api.download(url, most)
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Discord did not answer: {error}.") from error
        except (Denied, TooLong) as error:
            raise Refused(f"Discord: {error}.") from error

    def _refusal(self, no: Denied) -> PlatformError:
        if isinstance(no, TooMany):
            return FloodWait(no.seconds)
        if no.status == 401:
            self._gateway.end("it no longer accepts the token")
            return NotSent("Discord no longer accepts the token.")
        if no.code == OVERLOADED:
            return NotSent("Discord is overloaded.")
        return ChatGone(f"Discord: {no}.") if no.code in GONE else Refused(f"Discord: {no}.")
