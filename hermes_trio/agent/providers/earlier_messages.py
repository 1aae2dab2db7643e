"""The earlier messages of a conversation, which every request repeats.

They only grow, and so does what was made of them: their repaired form, and its encoding in the format of a
server. So a request costs as much as its new messages, however long the conversation is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import trio
from msgspec import Raw

from .endpoint import Body
from .model_messages import Message
from .repair import Repair

MESSAGES_OF_A_STEP = 500

Encode = Callable[[Sequence[Message]], list[Raw]]
"""Encodes messages of a repaired conversation that begin and end where the speaker changes."""


@dataclass(slots=True)
class _Encoded:
    """The settled messages as they were encoded for one server."""

    parts: list[Raw] = field(default_factory=list)
    messages: int = 0
    """The number of messages in these parts."""


class EarlierMessages:
    """The messages before the running turn."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        """The size of the encoded parts."""
        self._repair = Repair()
        self._encoded: dict[tuple[str, str], _Encoded] = {}

    def add(self, messages: Sequence[Message]) -> None:
        """Add messages to the end."""
        self.count += len(messages)
        self._repair.add(messages)

    async def encode_in_steps(self, format_name: str, origin: str, encode: Encode) -> None:
        """Encode many settled messages in steps, so that nobody waits for it."""
        while True:
            if not self._encode_more(format_name, origin, encode, MESSAGES_OF_A_STEP):
                return
            await trio.lowlevel.checkpoint()

    def encoded(self, format_name: str, origin: str, encode: Encode) -> list[Raw]:
        """Return the settled messages for this server: those that no later message changes."""
        while self._encode_more(format_name, origin, encode, self.count + 1):
            pass
        return self._encoded[format_name, origin].parts

    def _encode_more(self, format_name: str, origin: str, encode: Encode, most: int) -> bool:
        """Encode some more of the settled messages; return False if none are left."""
        known = self._encoded.setdefault((format_name, origin), _Encoded())
        messages = self._repair.settled_from(known.messages, most)
        known.parts += (new := encode(messages))
        known.messages += len(messages)
        self.bytes += sum(len(memoryview(part)) for part in new)
        return known.messages < self._repair.settled

    def repaired_rest(self, rest: Iterable[Message]) -> list[Message]:
        """Return the end of the repaired conversation with these further messages: everything after the
        settled ones."""
        repair = Repair(self._repair)
        repair.add(rest)
        return repair.whole()


def decoded(message: Body | Raw) -> Body:
    """Return a message of a request as a body, whether it is encoded or not."""
    return msgspec.json.decode(message, type=dict[str, Any]) if isinstance(message, Raw) else message
