"""Base class of links, with the check of the traits in one place."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from typing import Literal

from ..base.messages import MessageEvent
from .contract import Draft, Link, Outgoing, Preformatted, Traits

_Trait = Literal["edits", "deletes", "typing", "drafts", "reacts", "finds", "fetches"]


class BaseLink(Link):
    """Base class of links. A subclass implements `receive` and `send`, and for each trait of its platform one
    of `_edit`, `_delete`, `_typing`, `_draft`, `_react`, `_find` and `_fetch`.

    A call that the traits deny raises AssertionError: the caller did not look at the traits. It is no
    `PlatformError`, because nothing may handle it."""

    def __init__(self, traits: Traits) -> None:
        self.traits = traits

    @abstractmethod
    def receive(self) -> AsyncIterator[MessageEvent]:
        """As `Link.receive`."""

    @abstractmethod
    async def send(self, message: Outgoing) -> str | None:
        """As `Link.send`."""

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted = ()) -> None:
        """As `Link.edit`."""
        self._check("edits")
        await self._edit(chat_id, message_id, text, preformatted)

    async def delete(self, chat_id: str, message_id: str) -> None:
        """As `Link.delete`."""
        self._check("deletes")
        await self._delete(chat_id, message_id)

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        """As `Link.typing`."""
        self._check("typing")
        await self._typing(chat_id, thread_id)

    async def draft(self, draft: Draft) -> None:
        """As `Link.draft`."""
        self._check("drafts")
        await self._draft(draft)

    async def react(self, chat_id: str, message_id: str) -> None:
        """As `Link.react`."""
        self._check("reacts")
        await self._react(chat_id, message_id)

    async def find(self, chat_id: str, key: str, thread_id: str | None = None) -> str | None:
        """As `Link.find`."""
        self._check("finds")
        return await self._find(chat_id, key, thread_id)

    async def fetch(self, file_id: str, most: int) -> bytes:
        """As `Link.fetch`."""
        self._check("fetches")
        return await self._fetch(file_id, most)

    async def _edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted) -> None:
        raise NotImplementedError

    async def _delete(self, chat_id: str, message_id: str) -> None:
        raise NotImplementedError

    async def _typing(self, chat_id: str, thread_id: str | None) -> None:
        raise NotImplementedError

    async def _draft(self, draft: Draft) -> None:
        raise NotImplementedError

    async def _react(self, chat_id: str, message_id: str) -> None:
        raise NotImplementedError

    async def _find(self, chat_id: str, key: str, thread_id: str | None) -> str | None:
        raise NotImplementedError

    async def _fetch(self, file_id: str, most: int) -> bytes:
        raise NotImplementedError

    def _check(self, trait: _Trait) -> None:
        if not getattr(self.traits, trait):
            raise AssertionError(f"The traits deny this call: {trait}.")
