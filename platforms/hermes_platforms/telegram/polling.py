"""Updates by long polling. The offset that is asked behind confirms every update before it.

A poll that fails is tried again for about 40 seconds before the link counts as lost: Telegram has a bad
second several times a day, and a lost link is deaf and dumb for half a minute.
"""

from __future__ import annotations

from typing import Protocol

import trio
import trio.lowlevel

from hermes_trio.platform import CredentialsRefused, LinkLost, Log

from .api import Api, Denied, NoAnswer, NotReached
from .parsing import KINDS

POLL_SECONDS = 50
POLL_AGAIN_AFTER = (1.0, 2.0, 5.0, 10.0, 20.0)

log = Log(__name__)


class Updates(Protocol):
    """Where updates come from."""

    async def behind(self, offset: int | None) -> list[object]:
        """What comes behind this offset, as soon as there is any. Everything before it is confirmed; None
        confirms nothing. Raises `LinkLost`, or `CredentialsRefused`."""

    def end(self, why: str) -> None:
        """Nothing goes through any more: who waits for updates need not find out by himself."""


class Polling:
    """They are asked for."""

    def __init__(self, api: Api, platform: str) -> None:
        self._api, self._platform = api, platform
        self._loss: str | None = None
        self._asking = trio.CancelScope()

    def end(self, why: str) -> None:
        self._loss = why
        self._asking.cancel(reason=why)

    async def behind(self, offset: int | None) -> list[object]:
        with trio.CancelScope() as self._asking:
            for pause in (*POLL_AGAIN_AFTER, None):
                if self._loss is not None:
                    break
                try:
                    return await self._poll(offset)
                except Denied as no:
                    if no.refuses_token:
                        raise CredentialsRefused(self._platform) from no
                    if no.code == 409:
                        raise LinkLost(f"Another program reads this bot's messages. ({no})") from no
                    trouble, pause = str(no), pause and max(pause, no.retry_after or 0.0)
                except (NotReached, NoAnswer) as error:
                    trouble = str(error)
                if pause is None:
                    raise LinkLost(f"Telegram cannot be reached: {trouble}.")
                log.info("a poll failed", platform=self._platform, error=trouble, again_after=pause)
                await trio.sleep(pause)
        await trio.lowlevel.checkpoint()
        raise LinkLost(f"Telegram cannot be reached: {self._loss}.")

    async def _poll(self, offset: int | None) -> list[object]:
        params: dict[str, object] = {"timeout": POLL_SECONDS, "allowed_updates": KINDS}
        if offset is not None:
            params["offset"] = offset
        updates = await self._api.call("getUpdates", params, within=POLL_SECONDS + 15)
        if not isinstance(updates, list):
            raise NoAnswer("no list of updates")
        return updates
