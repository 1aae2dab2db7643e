"""The platform under test, and helpers of all laws."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal

import pytest
import trio

from ...platform.contract import Adapter, Outgoing
from ..stage import Stage

Trait = Literal[
    "edits",
    "deletes",
    "typing",
    "drafts",
    "reacts",
    "threads",
    "buttons",
    "fetches",
    "sends_files",
    "takes_keys_for",
    "finds",
    "redelivers",
]

MOST_HALTS = 400
PLAIN = "Plain words, and nothing that any dialect could take for a mark"


Law = Callable[..., Awaitable[None]]

NEEDS: dict[str, tuple[Trait, ...]] = {}
"""The abilities that a law needs, by the name of the law; the others need none."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform under test: its adapter, and its people and chats."""

    adapter: Adapter
    stage: Stage
    anew: Callable[[], Adapter] | None = None
    """Make another adapter for the same account, as the next process does; None uses the same one."""

    def next_life(self) -> Adapter:
        """Return the adapter of the next process."""
        return self.adapter if self.anew is None else self.anew()

    @property
    def accepted(self) -> list[str | None]:
        """Ids of the acknowledged messages."""
        return [one.message_id for one in self.stage.history if one.what == "accept"]

    @property
    def sends(self) -> int:
        """Number of sends, successful or not."""
        return sum(one.what == "send" for one in self.stage.history)

    def has(self, trait: Trait) -> bool:
        """Return True if the traits have this ability."""
        return bool(getattr(self.adapter.traits, trait))


def needs(*traits: Trait) -> Callable[[Law], Law]:
    """Let a law apply only to platforms with these abilities."""

    def decorate(law: Law) -> Law:
        @wraps(law)
        async def checked(platform: Platform, **fixtures: Any) -> None:
            for trait in traits:
                if not platform.has(trait):
                    pytest.skip(f"its traits deny {trait}")
            await law(platform, **fixtures)

        NEEDS[law.__name__] = traits
        return checked

    return decorate


def message(text: str = PLAIN, *, chat: str = "42", key: str = "key-1") -> Outgoing:
    """Return a message to send."""
    return Outgoing(chat_id=chat, text=text, key=key)


async def until_tasks(number: int) -> None:
    """Wait until at most this many tasks live."""
    while trio.lowlevel.current_statistics().tasks_living > number:  # noqa: ASYNC110
        await trio.sleep(0.01)  # the other side notices the end of the connection
