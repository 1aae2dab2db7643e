"""What the laws are told of, and the few words that all of them use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pytest
import trio

from ...platform.contract import Adapter, Outgoing
from ..stage import Stage

Trait = Literal[
    "edits", "deletes", "typing", "threads", "buttons", "fetches", "sends_files", "takes_keys", "finds"
]

MOST_HALTS = 400
PLAIN = "Plain words, and nothing that any dialect could take for a mark"


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform: what the gateway has of it, and what its people see."""

    adapter: Adapter
    stage: Stage

    @property
    def accepted(self) -> list[str | None]:
        """The messages that were acknowledged."""
        return [one.message_id for one in self.stage.history if one.what == "accept"]

    @property
    def sends(self) -> int:
        """How often something was sent, whatever came of it."""
        return sum(one.what == "send" for one in self.stage.history)

    def has(self, trait: Trait) -> bool:
        """Whether the adapter says that it can do this."""
        return bool(getattr(self.adapter.traits, trait))

    def needs(self, *traits: Trait) -> None:
        """Skip what is told for platforms that can do more."""
        for trait in traits:
            if not self.has(trait):
                pytest.skip(f"its traits deny {trait}")


def message(text: str = PLAIN, *, chat: str = "42", key: str = "key-1") -> Outgoing:
    """Something to send."""
    return Outgoing(chat_id=chat, text=text, key=key)


async def until_tasks(number: int) -> None:
    """Wait until no more tasks live than so many."""
    while trio.lowlevel.current_statistics().tasks_living > number:  # noqa: ASYNC110
        await trio.sleep(0.01)  # the other side sees the connection end
