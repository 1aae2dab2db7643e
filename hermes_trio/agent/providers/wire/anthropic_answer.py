"""Answers in Anthropic's messages format, folded event by event into items."""

from __future__ import annotations

import msgspec

from ....state.tables.session_entry import Usage
from ....state.tables.transcript import ToolCall
from .. import sse
from ..endpoint import Body, Endpoint
from ..error_mapping import stream_error
from ..model import Finished, Item, ReasoningDelta, TextDelta, ToolCallBroken, ToolCallReady, ToolCallStarted
from ..model_errors import ContentRefused, StreamCut, StreamMalformed
from ..repair import UsedIds, json_object

THOUGHTS = ("thinking", "redacted_thinking")
"""The types of blocks with reasoning, which only the model itself reads again."""

_WRITTEN = ("text", "thinking", "signature")
_LENGTH = ("max_tokens", "model_context_window_exceeded")


class MessagesFold:
    """The fold of one answer in Anthropic's messages format."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.done = False
        self.held = 0
        self._endpoint = endpoint
        self._blocks: dict[int, Body] = {}
        """Blocks of the answer by index; the input of a call is text until it is complete."""
        self._ids = UsedIds()
        self._usage: dict[str, int] = {}
        self._reason = ""
        self._why = ""

    def feed(self, event: sse.ReceivedEvent) -> list[Item]:
        """Read one event; return the items that it completes."""
        try:
            message = msgspec.json.decode(event.data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise StreamMalformed(self._endpoint, said=event.data) from error
        if failure := stream_error(self._endpoint, message):
            raise failure
        if not isinstance(message, dict):
            raise StreamMalformed(self._endpoint, said=event.data)
        match message:
            case {"type": "message_start", "message": {"usage": dict(usage)}}:
                self._count(usage)
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                return self._start(index, block)
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                return self._delta(index, delta)
            case {"type": "message_delta"}:
                self._message_delta(message.get("delta"), message.get("usage"))
            case {"type": "message_stop"}:
                self.done = True
        return []

    def end(self) -> list[Item]:
        """End the stream; return the last items. Raise `StreamCut` if the answer is incomplete."""
        if not self._reason and not (self.done and self._blocks):
            raise StreamCut(self._endpoint)
        if self._reason == "refusal":
            raise ContentRefused(self._endpoint, said=self._why)
        cut = self._reason in _LENGTH
        calls = [block for _, block in sorted(self._blocks.items()) if block["type"] == "tool_use"]
        items = [self._closed(block, cut=cut) for block in calls]
        if self._usage:
            items.append(self._used())
        return [*items, Finished("length" if cut else "tool_calls" if calls else "stop", self._opaque())]

    def _message_delta(self, delta: object, usage: object) -> None:
        if isinstance(usage, dict):
            self._count(usage)
        if isinstance(delta, dict):
            self._reason = delta.get("stop_reason") or self._reason
            details = delta.get("stop_details")
            self._why = str(details.get("explanation") or "") if isinstance(details, dict) else ""

    def _start(self, index: int, block: Body) -> list[Item]:
        # Some proxies begin a block with null in place of its text.
        block = {key: block[key] for key in block if key not in _WRITTEN or isinstance(block[key], str)}
        self._blocks[index] = block = {"type": "", **block}
        self.held += len(str(block))
        match block:
            case {"type": "text", "text": str(text)}:
                return [TextDelta(text)] if text else []
            case {"type": "thinking", "thinking": str(text)}:
                return [ReasoningDelta(text)] if text else []
            case {"type": "tool_use"}:
                given = block.get("input")
                block["input"] = msgspec.json.encode(given).decode() if given else ""
                block["name"] = str(block.get("name") or "")
                block["id"] = self._ids.plain(str(block.get("id") or f"toolu_{index}"))
                return [ToolCallStarted(block["id"], block["name"])]
        return []

    def _delta(self, index: int, delta: Body) -> list[Item]:
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                self._more(index, "text", "text", text)
                return [TextDelta(text)] if text else []
            case {"type": "thinking_delta", "thinking": str(text)}:
                self._more(index, "thinking", "thinking", text)
                return [ReasoningDelta(text)] if text else []
            case {"type": "signature_delta", "signature": str(text)}:
                self._more(index, "thinking", "signature", text)
            case {"type": "input_json_delta", "partial_json": str(text)}:
                self._more(index, "tool_use", "input", text)
        return []

    def _more(self, index: int, kind: str, key: str, text: str) -> None:
        """Add text to a block."""
        block = self._blocks.setdefault(index, {"type": kind})
        if block["type"] != kind or (kind == "tool_use" and "id" not in block):
            if block["type"] in ("text", "tool_use", *THOUGHTS, ""):
                raise StreamMalformed(self._endpoint, said=f"{key} in a block of type {block['type']!r}")
            return  # a block of an unknown type, such as a tool that the server runs itself
        block[key] = block.get(key, "") + text
        if key in ("input", "signature"):
            self.held += len(text)

    def _closed(self, block: Body, *, cut: bool) -> Item:
        """Return a call as ready, or as broken with the reason."""
        arguments = None if cut and not block["input"] else json_object(block["input"])
        if block["name"] and arguments is not None:
            return ToolCallReady(ToolCall(block["id"], block["name"], arguments))
        broken = "Its arguments were cut." if cut else "Its arguments are no JSON object."
        return ToolCallBroken(
            block["id"], block["name"], block["input"], broken if block["name"] else "It names no tool."
        )

    def _count(self, usage: Body) -> None:
        # Later counts are totals, not additions.
        self._usage |= {
            key: value for key, value in usage.items() if isinstance(value, int) and 0 <= value < 1 << 40
        }

    def _used(self) -> Usage:
        fresh, read, written = (
            self._usage.get(key, 0)
            for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        )
        return Usage(
            input_tokens=fresh,
            output_tokens=self._usage.get("output_tokens", 0),
            cache_read_tokens=read,
            cache_write_tokens=written,
            last_prompt_tokens=fresh + read + written,
        )

    def _opaque(self) -> str | None:
        """Return all blocks in their order if the answer has reasoning: the model needs them back
        unchanged."""
        if not any(block["type"] in THOUGHTS for block in self._blocks.values()):
            return None
        blocks = [
            {key: value for key, value in block.items() if key != "input"}
            for _, block in sorted(self._blocks.items())
            if block["type"] in ("tool_use", *THOUGHTS) or (block["type"] == "text" and block.get("text"))
        ]
        return msgspec.json.encode({"origin": self._endpoint.origin, "blocks": blocks}).decode()
