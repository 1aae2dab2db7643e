"""Chats that no longer exist for the bot: a person blocked it, a group removed it or was deleted.

Nothing is sent there until a message arrives from there again.

It may touch the table of these chats only.
"""

from __future__ import annotations

from ...base.world import World
from ...state.db.database import Database
from ...state.tables import dead_chats
from .rows import Chat


class GoneChats:
    """The chats that are gone, with the reasons. Kept in the database across restarts."""

    def __init__(self, database: Database, world: World, known: dict[Chat, str]) -> None:
        self._database, self._world = database, world
        self.reasons = known
        """The reason why each of them is gone. Written here only."""

    def add(self, chat: Chat, reason: str) -> None:
        """Send nothing to this chat any more. `store` makes that durable."""
        self.reasons[chat] = reason

    async def store(self, chat: Chat) -> None:
        """Store that this chat is gone."""
        await self._database.write(dead_chats.mark, *chat, reason=self.reasons[chat], at=self._world.time())

    async def remove(self, chat: Chat) -> None:
        """Send to this chat again: a message arrived from it."""
        if self.reasons.pop(chat, None) is not None:
            await self._database.write(dead_chats.clear, *chat)
