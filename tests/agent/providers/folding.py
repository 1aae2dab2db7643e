"""Folding of scripted events into items, for tests of both wire formats."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model import (
    Item,
)
from hermes_trio.agent.providers.model_errors import (
    ModelError,
)
from hermes_trio.agent.providers.sse import Decoder, ReceivedEvent
from hermes_trio.agent.providers.stream import AnswerFold, AnswerStream
from hermes_trio.agent.providers.wire.anthropic_answer import MessagesFold
from hermes_trio.agent.providers.wire.openai_answer import ChatFold
from hermes_trio.testing.model_replies import Wire

ENDPOINT = Endpoint("openai", "http://127.0.0.1:1/v1", "m")


def fold(wire: Wire) -> AnswerFold:
    """Return a new fold for this wire format."""
    ids = iter(range(1, 100))
    return ChatFold(ENDPOINT, lambda: str(next(ids))) if wire == "openai" else MessagesFold(ENDPOINT)


def folded(wire: Wire, sent: Sequence[Any]) -> list[Item]:
    """Return the items of an answer whose events have this data."""
    folding = fold(wire)
    items: list[Item] = []
    for data in sent:
        items += folding.feed(ReceivedEvent(data if isinstance(data, str) else json.dumps(data)))
    return items + folding.end()


def delta(finish: str | None = None, **fields: Any) -> Mapping[str, Any]:
    """Return a chunk in OpenAI's format."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def part(name: str | None = None, arguments: Any = None, **more: Any) -> Mapping[str, Any]:
    """Return a chunk in OpenAI's format with a piece of a call."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return delta(tool_calls=[{"function": function, **more}])


STOP = delta("stop")


class _Chunks:
    """Chunks of bytes, as a connection yields them."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._chunks:
            raise StopAsyncIteration
        return self._chunks.pop(0)


async def outcome(wire: Wire, stream: bytes, cuts: Sequence[int]) -> tuple[list[Item], str]:
    """Return the items of a stream that is cut into chunks at `cuts`, and the error after them, if any."""
    places = [0, *sorted(cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(places) if end > start]
    answer = AnswerStream(_Chunks(chunks), Decoder(), fold(wire), ENDPOINT, 60)
    items: list[Item] = []
    try:
        async for item in answer:
            items.append(item)  # noqa: PERF401 - keeps the items before an error
    except ModelError as error:
        return items, repr(error)
    return items, ""
