"""Calls of the Bot API as the contract knows them: each outcome is a result or one error of the contract.

| Outcome | Reaction |
|---|---|
| the server was not reached | retry for some seconds; then `NotSent`, and the link is lost |
| the answer was lost, or is a 5xx | `OutcomeUnknown`; for a call that may be repeated, `LinkLost` |
| 429 | `FloodWait` |
| 403, or the chat is not found | `ChatGone` |
| the markup is refused | `MarkupRefused` |
| the topic is gone | one retry outside of it |
| the group has become another chat | one retry there |
| the token is refused | `NotSent`, and the link is lost; the next connection raises `CredentialsRefused` |
| any other error | `Refused` |
"""

from __future__ import annotations

from collections.abc import Mapping
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

from .api import Api, Denied, Files, NoAnswer, NotReached
from .polling import Updates

REACH_AGAIN_AFTER = (1.0, 2.0, 4.0)


class MarkupRefused(Refused):
    """Telegram does not accept this form of the text. Another form may be accepted."""


class Calls:
    """The calls of one link."""

    def __init__(self, api: Api, updates: Updates) -> None:
        self._api, self._updates = api, updates

    async def send(self, method: str, params: Mapping[str, object], files: Files | None = None) -> Any:
        """Make a call that sends a message. It is not repeated if it may have had an effect."""
        return await self._addressed(method, params, files, before=NotSent, after=OutcomeUnknown)

    async def change(self, method: str, params: Mapping[str, object]) -> Any:
        """Make a call that may be made twice, such as an edit."""
        return await self._addressed(method, params, None, before=LinkLost, after=LinkLost)

    async def once(self, method: str, params: Mapping[str, object]) -> Any:
        """Make a call without any retry: the caller repeats it, or does not need it."""
        try:
            return await self._api.call(method, params)
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Telegram did not answer: {error}.") from error
        except Denied as no:
            raise self._refusal(no) from no

    async def download(self, path: str, most: int) -> bytes:
        """Return a file. Raises `Refused` if it is longer than `most` bytes."""
        try:
            return await self._api.download(path, most)
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"Telegram did not answer: {error}.") from error
        except Denied as no:
            raise self._refusal(no) from no

    async def _addressed(
        self,
        method: str,
        params: Mapping[str, object],
        files: Files | None,
        *,
        before: type[PlatformError],
        after: type[PlatformError],
    ) -> Any:
        """Call with a chat, and perhaps a topic. Each is replaced or left out at most once if Telegram
        objects to it. Raises `before` if the server was not reached, and `after` if it did not answer."""
        params, chat_id = dict(params), params["chat_id"]
        while True:
            try:
                return await self._reached(method, params, files, before)
            except NoAnswer as error:
                raise after(f"Telegram did not answer: {error}.") from error
            except Denied as no:
                if "message_thread_id" in params and no.says("thread not found"):
                    del params["message_thread_id"]
                elif no.moved_to is not None and params["chat_id"] == chat_id != no.moved_to:
                    params["chat_id"] = no.moved_to
                else:
                    raise self._refusal(no) from no

    async def _reached(
        self, method: str, params: Mapping[str, object], files: Files | None, unreached: type[PlatformError]
    ) -> Any:
        """Call, and retry while the server is not reached: such a call certainly had no effect."""
        for pause in (*REACH_AGAIN_AFTER, None):
            try:
                return await self._api.call(method, params, files=files)
            except NotReached as error:
                if pause is None or self._api.closed:
                    self._updates.end(str(error))
                    raise unreached(f"Telegram cannot be reached: {error}.") from error
            await trio.sleep(pause)
        raise AssertionError("The last pause is none.")

    def _refusal(self, no: Denied) -> PlatformError:
        if no.code == 429:
            return FloodWait(no.retry_after or 1.0)
        if no.refuses_token:
            self._updates.end("it no longer accepts the token")
            return NotSent("Telegram no longer accepts the token.")
        if no.code == 403 or no.says("chat not found", "group chat was"):  # upgraded, deactivated
            return ChatGone(f"Telegram: {no.description}.")
        refused = (
            MarkupRefused if no.says("can't parse entities", "is too long", "text is empty") else Refused
        )
        return refused(f"Telegram: {no.description}.")
