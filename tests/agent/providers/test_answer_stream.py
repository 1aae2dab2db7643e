"""Streams of answers in any chunks: the cuts between chunks change nothing, and a cut stream is an error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.agent.providers.model import (
    Finished,
    ToolCallBroken,
    ToolCallReady,
)
from hermes_trio.state.tables.session_entry import Usage
from hermes_trio.testing.model_replies import Reply, Wire, events
from hermes_trio.testing.model_server import lines_of
from tests.agent.providers.conftest import bounded
from tests.agent.providers.folding import outcome

REPLIES = [
    Reply(piece=3).thinks("Hm ♥ hm").says("Zwölf Boxkämpfer").calls("ls", {"ä": "♥"}).calls("pwd").uses(3, 4),
    Reply(piece=1, line_end="\r\n", comments=True).says("A\nb").calls("x", '{"cut').finishes("length"),
    Reply().says("Hel").fails("overloaded_error", "Overloaded"),
    Reply().says("Hel").sends(b"data: {nonsense}\n\n"),
    Reply().says("Hel").finishes("", done=False),
    Reply().says("Hel").finishes().sends(b"data: {nonsense}\n\n"),
]


@bounded
@given(reply=st.sampled_from(REPLIES), wire=st.sampled_from(["openai", "anthropic"]), data=st.data())
async def test_a_stream_in_any_chunks_folds_to_the_same_items(
    reply: Reply, wire: Wire, data: st.DataObject
) -> None:
    stream = b"".join(lines_of(event, reply) for event in events(reply, wire, 1))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=40))
    assert await outcome(wire, stream, cuts) == await outcome(wire, stream, [])


async def test_bytes_after_the_end_are_not_read(wire: Wire) -> None:
    reply = REPLIES[-1]
    stream = b"".join(lines_of(event, reply) for event in events(reply, wire, 1))
    items, error = await outcome(wire, stream, [])
    assert (items[-1], error) == (Finished("stop"), "")


@bounded
@given(reply=st.sampled_from(REPLIES[:2]), wire=st.sampled_from(["openai", "anthropic"]), data=st.data())
async def test_a_stream_cut_anywhere_never_counts_as_complete(
    reply: Reply, wire: Wire, data: st.DataObject
) -> None:
    stream = b"".join(lines_of(event, reply) for event in events(reply, wire, 1))
    end = data.draw(st.integers(0, len(stream)))
    whole, _ = await outcome(wire, stream, [])
    items, error = await outcome(wire, stream[:end], [])
    if error:
        assert not any(isinstance(item, ToolCallReady | ToolCallBroken | Finished) for item in items)
        assert items == whole[: len(items)]
    else:  # only the usage and the end marker may be missing
        assert [item for item in items if not isinstance(item, Usage)] == [
            item for item in whole if not isinstance(item, Usage)
        ]


@bounded
@given(st.binary(max_size=300), st.sampled_from(["openai", "anthropic"]))
async def test_any_bytes_make_an_answer_or_an_error(stream: bytes, wire: Wire) -> None:
    items, error = await outcome(wire, b"data: " + stream + b"\n\n", [])
    assert items or error


NAMES = (  # noqa: SIM905
    "choices delta content tool_calls function name arguments index id type usage finish_reason error "
    "content_block message text code stop_reason reasoning_details"
).split()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["stop", "x", "tool_use", "text_delta", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=20,
)


@bounded
@given(st.lists(JSON, max_size=5), st.sampled_from(["openai", "anthropic"]))
async def test_any_json_makes_an_answer_or_an_error(sent: list[Any], wire: Wire) -> None:
    stream = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in sent)
    items, error = await outcome(wire, stream, [])
    assert items or error
