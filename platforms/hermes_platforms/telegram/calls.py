"""Calls of the Bot API as the contract knows them.

| Refusal | Reaction |
|---|---|
| 429 | `FloodWait` |
| 403, or the chat is not found | `ChatGone` |
| the markup is refused | `MarkupRefused` |
| the topic is gone | one retry outside of it |
| the group has become another chat | one retry there |
| the token is refused | `CredentialsRefused` |
| any other one | `Refused` |
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from hermes_trio.platform import (
    ChatGone,
    CredentialsRefused,
    FloodWait,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    PlatformError,
    Refused,
)

from ..contract_calls import ContractCalls
from .api import Api, Denied, Files, NoAnswer
from .polling import Updates


class MarkupRefused(Refused):
    """Telegram does not accept this form of the text. Another form may be accepted."""


class Calls(ContractCalls[Denied]):
    """The calls of one link."""

    service = "Telegram"

    def __init__(self, api: Api, updates: Updates) -> None:
        super().__init__(lambda: api.closed, updates.end)
        self._api = api

    async def send(self, method: str, params: Mapping[str, object], files: Files | None = None) -> Any:
        """Make a call that sends a message. It is not repeated if it may have had an effect."""
        return await self._addressed(method, params, files, before=NotSent, after=OutcomeUnknown)

    async def change(self, method: str, params: Mapping[str, object]) -> Any:
        """Make a call that may be made twice, such as an edit."""
        return await self._addressed(method, params, None, before=LinkLost, after=LinkLost)

    async def once(self, method: str, params: Mapping[str, object]) -> Any:
        """Make a call without any retry: the caller repeats it, or does not need it."""
        return await self.asked(lambda: self._api.call(method, params))

    async def download(self, path: str, most: int) -> bytes:
        """Return a file. Raises `Refused` if it is longer than `most` bytes."""
        return await self.downloaded(lambda: self._api.download(path, most))

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
                return await self.reached(partial(self._api.call, method, params, files=files), before)
            except NoAnswer as error:
                raise after(f"Telegram did not answer: {error}.") from error
            except Denied as no:
                if "message_thread_id" in params and no.says("thread not found"):
                    del params["message_thread_id"]
                elif no.moved_to is not None and params["chat_id"] == chat_id != no.moved_to:
                    params["chat_id"] = no.moved_to
                else:
                    raise self.refused(no, before) from no

    def refusal(self, no: Denied) -> PlatformError:
        """As `ContractCalls.refusal`."""
        if no.code == 429:
            return FloodWait(no.retry_after or 1.0)
        if no.refuses_token:
            return CredentialsRefused("telegram")
        if no.code == 403 or no.says("chat not found", "group chat was"):  # upgraded, deactivated
            return ChatGone(f"Telegram: {no.description}.")
        refused = (
            MarkupRefused if no.says("can't parse entities", "is too long", "text is empty") else Refused
        )
        return refused(f"Telegram: {no.description}.")
