"""A chat command in the text of a message.

Pure: it reads only the text and the kind of an event.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ...base.messages import MessageEvent

_COMMAND = re.compile(r"/([a-z][a-z0-9_-]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)
_ALIASES = {"reset": "new", "q": "queue", "bg": "background", "btw": "background"}
SAYING = frozenset({"queue", "steer", "background"})
"""Commands that are followed by a message to the agent."""
STORED_WITH_EFFECT = frozenset({"stop", "new"})
"""Commands whose row is stored in the transaction of their effect. A kill between the two would lose the
command, and resume the turn that a person has stopped."""


@dataclass(frozen=True, slots=True)
class Command:
    """A parsed command: its name, and the text after it."""

    name: str
    rest: str = ""


def parse(event: MessageEvent) -> Command | None:
    """Return the command in a message, or None. A path such as `/etc/hosts` is no command."""
    found = _COMMAND.fullmatch(event.text.strip())
    if found is None or event.kind == "internal":
        return None
    name = found[1].lower()
    return Command(_ALIASES.get(name, name), (found[2] or "").strip())
