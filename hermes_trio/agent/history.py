"""From the rows of a transcript to what a model is sent. Pure.

What a cut left behind is put right by `repaired`, in the providers; here it is only said what the rows
mean. A recovered row tells of calls that nobody stored: the model is told what was seen of them, as text,
because nothing is known that a call would have to have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..state.transcript import Message as Row
from ..state.transcript import ToolCard
from .providers.model import Assistant, Message, ToolResult, User


def conversation(rows: Iterable[Row], prompt: str) -> list[Message]:
    """What has been said, and what is asked now."""
    messages = [message for row in rows if (message := _message(row)) is not None]
    return [*messages, User(prompt)]


def _message(row: Row) -> Message | None:
    if row.marker is not None:
        return None
    if row.role == "user":
        return User(row.content)
    if row.role == "assistant":
        return Assistant(_with_cards(row.content, row.cards), row.tool_calls, row.opaque)
    if row.role == "tool":
        return ToolResult(row.tool_call_id or "", row.content, is_error=row.status == "error")
    return None


def _with_cards(text: str, cards: Sequence[ToolCard]) -> str:
    return "\n".join([text, *map(_seen, cards)]) if cards else text


def _seen(card: ToolCard) -> str:
    if not card.done:
        return f"[{card.name} was running when this was interrupted: {card.preview}. Its effect is unknown.]"
    how = "failed" if card.is_error else "ended"
    return f"[{card.name} {how}: {card.preview}. {card.snippet}]"
