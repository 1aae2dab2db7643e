"""Updates by long polling. The offset of a poll confirms every update before it.

A failed poll is repeated for about 40 seconds before the link counts as lost: Telegram fails for a second
several times a day, and a lost link can neither receive nor send for half a minute.
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
    """Source of updates."""

    async def after(self, offset: int | None) -> list[object]:
        """Wait for updates, and return those from this offset on. The offset confirms every update before it;
        None confirms nothing. Raises `LinkLost` or `CredentialsRefused`."""

    def end(self, why: str) -> None:
        """Let the current and later calls of `after` raise `LinkLost`, because the server cannot be
        reached."""


class Polling:
    """Updates by long polling."""

    def __init__(self, api: Api, platform: str) -> None:
        self._api, self._platform = api, platform
        self._loss: str | None = None
        self._waiting = trio.CancelScope()

    def end(self, why: str) -> None:
        self._loss = why
        self._waiting.cancel(reason=why)

    async def after(self, offset: int | None) -> list[object]:
        with trio.CancelScope() as self._waiting:
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
                log.info("poll failed; retrying", platform=self._platform, error=trouble, again_after=pause)
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
