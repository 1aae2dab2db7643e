"""A command as somebody gave it, who that was, and where the replies go."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...base.messages import MessageEvent

if TYPE_CHECKING:
    from ..parts import Gateway
    from ..turn.questions import OpenQuestion

_COMMAND = re.compile(r"/([a-z][a-z0-9_-]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)
_ALIASES = {"reset": "new", "q": "queue", "bg": "background", "btw": "background"}
SAYING = frozenset({"queue", "steer", "background"})
"""Behind these stands a message."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command as somebody gave it."""

    name: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class Invocation:
    """Who gave it, and where."""

    gateway: Gateway
    key: str
    event: MessageEvent
    rest: str
    replies: list[str] | None = None
    """Where the replies go of a command that was given at a door of ours, with its key; None for the chat."""

    def reply(self, text: str) -> None:
        if self.replies is None:
            self.gateway.reply(self.event, text)
        else:
            self.replies.append(text)

    async def is_admin(self) -> bool:
        return self.replies is not None or await self.gateway.access.is_admin(self.event.source)

    async def may_approve(self, asked: OpenQuestion) -> bool:
        """Whether whoever gave the command may answer this approval."""
        access = self.gateway.access
        return self.replies is not None or await access.may_approve(self.event.source, asked.asked_of)

    def anew(self, text: str, name: str) -> tuple[MessageEvent, str | None]:
        """A message of the same person with this text, and what it is called: it is another one than the
        command, and comes as often."""
        key = self.event.message_key
        return replace(self.event, text=text, kind="text"), f"{name}:{key}" if key else None


def parse(event: MessageEvent) -> Command | None:
    """The command in a message, if it is one. A path such as `/etc/hosts` is none."""
    found = _COMMAND.fullmatch(event.text.strip())
    if found is None or event.kind == "internal":
        return None
    name = found[1].lower()
    return Command(_ALIASES.get(name, name), (found[2] or "").strip())
