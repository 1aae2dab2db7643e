"""What servers send, folded into items: their accents, one by one, and the promise that the way in which
bytes are cut into chunks changes nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model import (
    Finished,
    Item,
    ReasoningDelta,
    TextDelta,
    ToolCallBroken,
    ToolCallReady,
    ToolCallStarted,
)
from hermes_trio.agent.providers.model_errors import (
    ContextTooLong,
    ModelError,
    Overloaded,
    ServerTrouble,
    StreamCut,
    StreamMalformed,
)
from hermes_trio.agent.providers.sse import Decoder, SseEvent
from hermes_trio.agent.providers.stream import AnswerFold, AnswerStream
from hermes_trio.agent.providers.wire.anthropic_answer import MessagesFold
from hermes_trio.agent.providers.wire.openai_answer import ChatFold
from hermes_trio.state.tables.session_entry import Usage
from hermes_trio.testing.model_replies import Reply, Wire, events
from hermes_trio.testing.model_server import lines_of
from tests.agent.providers.conftest import bounded

ENDPOINT = Endpoint("openai", "http://127.0.0.1:1/v1", "m")


def fold(wire: Wire) -> AnswerFold:
    ids = iter(range(1, 100))
    return ChatFold(ENDPOINT, lambda: str(next(ids))) if wire == "openai" else MessagesFold(ENDPOINT)


def folded(wire: Wire, told: Sequence[Any]) -> list[Item]:
    folding = fold(wire)
    items: list[Item] = []
    for data in told:
        items += folding.feed(SseEvent(data if isinstance(data, str) else json.dumps(data)))
    return items + folding.end()


def delta(finish: str | None = None, **fields: Any) -> Mapping[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def part(name: str | None = None, arguments: Any = None, **more: Any) -> Mapping[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return delta(tool_calls=[{"function": function, **more}])


STOP = delta("stop")
CALLS = {
    "OpenAI's way": [part("a", "", index=0, id="x"), part(None, '{"k"', index=0), part(None, ": 1}", index=0),
                     part("b", "{}", index=1, id="y")],
    "all at index 0": [part("a", '{"k": 1}', index=0, id="x"), part("b", "{}", index=0, id="y")],
    "no index": [part("a", '{"k": 1}', id="x"), part("b", "{}", id="y")],
    "no index, the id in each": [part("a", '{"k"', id="x"), part("a", ": 1}", id="x"),
                                 part("b", "{}", id="y")],
    "no index, the id once": [part("a", '{"k"', id="x"), part(None, ": 1}"), part("b", "{}", id="y")],
    "arguments as an object": [part("a", {"k": 1}, index=0, id="x"), part("b", {}, index=1, id="y")],
    "no arguments at all": [part("a", '{"k": 1}', index=0, id="x"), part("b", index=1, id="y")],
    "arguments null": [part("a", '{"k": 1}', index=0, id="x"), part("b", "null", index=1, id="y")],
    "the name in each": [part("a", '{"k"', index=0, id="x"), part("a", ": 1}", index=0, id="x"),
                         part("b", "{}", index=1, id="y")],
    "the name late": [part("", "", index=0, id="x"), part("a", "", index=0),
                      part(None, '{"k": 1}', index=0), part("b", "{}", index=1, id="y")],
    "turn by turn": [part("a", '{"k"', index=0, id="x"), part("b", "{", index=1, id="y"),
                     part(None, ": 1}", index=0), part(None, "}", index=1)],
}  # fmt: skip


@pytest.mark.parametrize("accent", CALLS)
@pytest.mark.parametrize("finish", [STOP, delta("tool_calls"), delta("tool_call"), delta("function_call")])
def test_two_calls_in_every_accent(accent: str, finish: Mapping[str, Any]) -> None:
    items = folded("openai", [*CALLS[accent], finish, "[DONE]"])
    calls = [item.call for item in items if isinstance(item, ToolCallReady)]
    assert [(call.id, call.name, json.loads(call.arguments)) for call in calls] == [
        ("x", "a", {"k": 1}),
        ("y", "b", {}),
    ]
    assert [item.id for item in items if isinstance(item, ToolCallStarted)] == ["x", "y"]
    assert items[-1] == Finished("tool_calls")


@pytest.mark.parametrize("index", [{"index": 0}, {}])
def test_calls_without_ids_get_some(index: dict[str, int]) -> None:
    items = folded("openai", [part("a", "{}", **index), part("a", '{"k": 1}', **index), STOP])
    calls = [item.call for item in items if isinstance(item, ToolCallReady)]
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("call_1", "a", "{}"),
        ("call_2", "a", '{"k": 1}'),
    ]


def test_an_empty_piece_behind_a_whole_call_is_no_second_call() -> None:
    items = folded("openai", [part("rm", '{"path": "/"}', index=0), part("rm", "", index=0), STOP])
    assert len([item for item in items if isinstance(item, ToolCallReady)]) == 1


def test_one_id_for_two_calls_becomes_two() -> None:
    items = folded("openai", [part("a", "{}", index=0, id="x"), part("b", "{}", index=1, id="x"), STOP])
    assert [item.call.id for item in items if isinstance(item, ToolCallReady)] == ["x", "x_2"]


def test_a_call_without_a_name_is_broken() -> None:
    items = folded("openai", [part(None, "{}", index=0, id="x"), STOP])
    assert [item for item in items if isinstance(item, ToolCallBroken)] == [
        ToolCallBroken("x", "", "{}", "It names no tool.")
    ]


@pytest.mark.parametrize("arguments", [["/"], True, 1, "[]", '"{}"'])
def test_arguments_that_are_no_object_call_nothing(arguments: Any) -> None:
    items = folded("openai", [part("rm", arguments, index=0, id="x"), delta("tool_calls")])
    assert [type(item) for item in items] == [ToolCallStarted, ToolCallBroken, Finished]


def test_reasons_that_are_none_end_nothing() -> None:
    told = [delta("", content="Hel"), delta(None, content="lo"), "[DONE]"]
    assert folded("openai", told) == [TextDelta("Hel"), TextDelta("lo"), Finished("stop")]
    with pytest.raises(StreamCut):
        folded("openai", told[:-1])
    with pytest.raises(StreamCut):
        folded("openai", ["[DONE]"])
    with pytest.raises(StreamCut):
        folded("openai", [])


def test_chunks_without_a_choice_are_passed_over() -> None:
    odd: list[Any] = [
        {"choices": []},
        {"choices": None},
        {},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
    ]
    assert folded("openai", [*odd, {"prompt_filter_results": []}, STOP]) == [Finished("stop")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_under_either_name(field: str) -> None:
    items = folded("openai", [delta(**{field: "Hm."}), delta(content="Yes."), STOP])
    assert items[:2] == [ReasoningDelta("Hm."), TextDelta("Yes.")]
    assert isinstance(items[-1], Finished)
    assert json.loads(items[-1].opaque or "")[field] == "Hm."


def test_thoughts_under_both_names_are_shown_once() -> None:
    items = folded("openai", [delta(reasoning="Hm.", reasoning_content="Hm."), STOP])
    assert items[:-1] == [ReasoningDelta("Hm.")]


def said_and_thought(items: Sequence[Item]) -> tuple[str, str]:
    said = "".join(item.text for item in items if isinstance(item, TextDelta))
    return said, "".join(item.text for item in items if isinstance(item, ReasoningDelta))


@pytest.mark.parametrize(
    ("text", "said", "thought"),
    [
        ("<think>Hm </ hm.</think>\n\nYes.", "Yes.", "Hm </ hm."),
        ("\n<think>\nHm.\n</think>Yes </think>.", "Yes </think>.", "\nHm.\n"),
        ("<think></think>\nYes.", "Yes.", ""),
        ("<think>Hm.</thin", "", "Hm.</thin"),
        ("Write <think>so</think>.", "Write <think>so</think>.", ""),
        ("<thinner> is", "<thinner> is", ""),
        ("<thi", "<thi", ""),
        ("  indented", "  indented", ""),
    ],
)
def test_thoughts_in_an_answer_are_told_apart_however_it_is_cut(text: str, said: str, thought: str) -> None:
    for size in range(1, len(text) + 1):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        items = folded("openai", [*(delta(content=piece) for piece in pieces), STOP])
        assert said_and_thought(items) == (said, thought)
        assert items[-1] == Finished("stop")


def test_pieces_of_openrouters_reasoning_become_whole() -> None:
    pieces = [
        {"type": "reasoning.text", "index": 0, "text": "H", "signature": None},
        {"type": "reasoning.text", "index": 0, "text": "m.", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "zz"},
    ]
    finished = folded("openai", [*(delta(reasoning_details=[one]) for one in pieces), STOP])[-1]
    assert isinstance(finished, Finished)
    assert json.loads(finished.opaque or "")["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "Hm.", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "zz"},
    ]


def test_content_in_parts() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    assert folded("openai", [delta(content=parts), STOP])[0] == TextDelta("Hello")


def test_usage_counts_what_the_cache_had_apart() -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}}
    early = {"choices": [], "usage": {"prompt_tokens": 1}}
    items = folded("openai", [early, STOP, {"choices": [], "usage": {**usage, "cost": 0.25}}, "[DONE]"])
    assert items[0] == Usage(40, 7, 60, 0, 100, 0.25)
    for odd in (None, "0.1", -1, [1]):
        (used, _) = folded("openai", [STOP, {"usage": {"prompt_tokens": 9, "cost": odd}}])
        assert isinstance(used, Usage)
        assert used.cost_usd is None
    assert folded("openai", [STOP, {"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}}])[
        0
    ] == Usage(input_tokens=5, cache_read_tokens=4, last_prompt_tokens=9)
    assert folded("openai", [{**STOP, "usage": None}]) == [Finished("stop")]


def test_anthropics_counts_are_totals() -> None:
    start = {
        "input_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 10,
        "output_tokens": 1,
    }
    told = [
        {"type": "message_start", "message": {"usage": start}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 30}},
        {"type": "message_stop"},
    ]
    assert folded("anthropic", told)[0] == Usage(5, 30, 100, 10, 115)


def test_kinds_that_nobody_knew_are_passed_over() -> None:
    told = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "hologram", "x": 1}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "hologram_delta", "x": 2}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "surprise"},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ]
    assert folded("anthropic", told) == [TextDelta("Hi"), Finished("stop")]


@pytest.mark.parametrize("nothing", [None, {}, 0])
def test_a_text_may_begin_as_none(nothing: object) -> None:
    told = [
        {
            "type": "content_block_start",
            "index": index,
            "content_block": {"type": kind, kind: nothing, "signature": nothing},
        }
        for index, kind in enumerate(["thinking", "text", "text"])
    ]
    told += [
        {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: "Hi"}}
        for index, kind in enumerate(["thinking", "text"])
    ]
    *said, finished = folded(
        "anthropic", [*told, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}]
    )
    assert said == [ReasoningDelta("Hi"), TextDelta("Hi")]
    assert isinstance(finished, Finished)
    assert json.loads(finished.opaque or "")["blocks"] == [
        {"type": "thinking", "thinking": "Hi"},
        {"type": "text", "text": "Hi"},
    ]
    details = [
        delta(reasoning_details=[{"type": "reasoning.text", "text": text}]) for text in (nothing, "Hi")
    ]
    finished = folded("openai", [*details, STOP])[-1]
    assert isinstance(finished, Finished)
    assert json.loads(finished.opaque or "")["reasoning_details"][0]["text"] == "Hi"


def test_a_piece_of_a_call_that_never_began_makes_no_sense() -> None:
    piece = {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "input_json_delta", "partial_json": "{}"},
    }
    with pytest.raises(StreamMalformed):
        folded("anthropic", [piece])


TROUBLES: list[tuple[Any, type[ModelError]]] = [
    ({"error": {"message": "Compute error."}, "message": "Compute error."}, ServerTrouble),
    ({"error": "out of memory"}, ServerTrouble),
    ({"error": {"code": 502, "message": "Provider returned error"}}, ServerTrouble),
    ({"error": {"code": "rate_limit_exceeded", "message": "Overloaded, later"}}, Overloaded),
    ({"error_type": "context_length_exceeded", "error_message": "maximum is 163840"}, ContextTooLong),
    ({"object": "error", "message": "exceeds the available context size", "code": 400}, ContextTooLong),
    ({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, Overloaded),
]  # fmt: skip


@pytest.mark.parametrize(("told", "error"), TROUBLES)
def test_errors_in_the_middle_of_every_shape(told: Any, error: type[ModelError], wire: Wire) -> None:
    with pytest.raises(ModelError) as caught:
        folded(wire, [told])
    if error is not Overloaded:
        assert type(caught.value) is error


class _Chunks:
    """Bytes as a connection gives them."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._chunks:
            raise StopAsyncIteration
        return self._chunks.pop(0)


async def outcome(wire: Wire, stream: bytes, cuts: Sequence[int]) -> tuple[list[Item], str]:
    """The items, and the error behind them."""
    places = [0, *sorted(cuts), len(stream)]
    chunks = [stream[start:end] for start, end in pairwise(places) if end > start]
    answer = AnswerStream(_Chunks(chunks), Decoder(), fold(wire), ENDPOINT, 60)
    items: list[Item] = []
    try:
        async for item in answer:
            items.append(item)  # noqa: PERF401 - what came before an error counts
    except ModelError as error:
        return items, repr(error)
    return items, ""


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
async def test_any_cut_of_a_stream_folds_to_the_same_items(
    reply: Reply, wire: Wire, data: st.DataObject
) -> None:
    stream = b"".join(lines_of(event, reply) for event in events(reply, wire, 1))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=40))
    assert await outcome(wire, stream, cuts) == await outcome(wire, stream, [])


async def test_what_comes_behind_the_end_is_not_read(wire: Wire) -> None:
    reply = REPLIES[-1]
    stream = b"".join(lines_of(event, reply) for event in events(reply, wire, 1))
    items, error = await outcome(wire, stream, [])
    assert (items[-1], error) == (Finished("stop"), "")


@bounded
@given(reply=st.sampled_from(REPLIES[:2]), wire=st.sampled_from(["openai", "anthropic"]), data=st.data())
async def test_a_stream_that_ends_anywhere_is_never_taken_for_whole(
    reply: Reply, wire: Wire, data: st.DataObject
) -> None:
    stream = b"".join(lines_of(event, reply) for event in events(reply, wire, 1))
    end = data.draw(st.integers(0, len(stream)))
    whole, _ = await outcome(wire, stream, [])
    items, error = await outcome(wire, stream[:end], [])
    if error:
        assert not any(isinstance(item, ToolCallReady | ToolCallBroken | Finished) for item in items)
        assert items == whole[: len(items)]
    else:  # only what counts tokens, or says that this was all, may be missing
        assert [item for item in items if not isinstance(item, Usage)] == [
            item for item in whole if not isinstance(item, Usage)
        ]


@bounded
@given(st.binary(max_size=300), st.sampled_from(["openai", "anthropic"]))
async def test_any_bytes_are_an_answer_or_an_error(stream: bytes, wire: Wire) -> None:
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
async def test_any_json_is_an_answer_or_an_error(told: list[Any], wire: Wire) -> None:
    stream = b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in told)
    items, error = await outcome(wire, stream, [])
    assert items or error
