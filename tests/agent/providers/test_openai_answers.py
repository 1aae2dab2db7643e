"""Answers in OpenAI's format, folded into items: the dialects of servers, one by one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

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
    StreamCut,
)
from hermes_trio.state.tables.session_entry import Usage
from tests.agent.providers.folding import STOP, delta, folded, part

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
def test_two_calls_are_read_in_every_dialect(accent: str, finish: Mapping[str, Any]) -> None:
    items = folded("openai", [*CALLS[accent], finish, "[DONE]"])
    calls = [item.call for item in items if isinstance(item, ToolCallReady)]
    assert [(call.id, call.name, json.loads(call.arguments)) for call in calls] == [
        ("x", "a", {"k": 1}),
        ("y", "b", {}),
    ]
    assert [item.id for item in items if isinstance(item, ToolCallStarted)] == ["x", "y"]
    assert items[-1] == Finished("tool_calls")


@pytest.mark.parametrize("index", [{"index": 0}, {}])
def test_calls_without_ids_get_generated_ones(index: dict[str, int]) -> None:
    items = folded("openai", [part("a", "{}", **index), part("a", '{"k": 1}', **index), STOP])
    calls = [item.call for item in items if isinstance(item, ToolCallReady)]
    assert [(call.id, call.name, call.arguments) for call in calls] == [
        ("call_1", "a", "{}"),
        ("call_2", "a", '{"k": 1}'),
    ]


def test_an_empty_piece_after_a_complete_call_is_no_second_call() -> None:
    items = folded("openai", [part("rm", '{"path": "/"}', index=0), part("rm", "", index=0), STOP])
    assert len([item for item in items if isinstance(item, ToolCallReady)]) == 1


def test_a_repeated_call_id_is_made_unique() -> None:
    items = folded("openai", [part("a", "{}", index=0, id="x"), part("b", "{}", index=1, id="x"), STOP])
    assert [item.call.id for item in items if isinstance(item, ToolCallReady)] == ["x", "x_2"]


def test_a_call_without_a_name_is_broken() -> None:
    items = folded("openai", [part(None, "{}", index=0, id="x"), STOP])
    assert [item for item in items if isinstance(item, ToolCallBroken)] == [
        ToolCallBroken("x", "", "{}", "It names no tool.")
    ]


@pytest.mark.parametrize("arguments", [["/"], True, 1, "[]", '"{}"'])
def test_arguments_that_are_no_object_run_nothing(arguments: Any) -> None:
    items = folded("openai", [part("rm", arguments, index=0, id="x"), delta("tool_calls")])
    assert [type(item) for item in items] == [ToolCallStarted, ToolCallBroken, Finished]


def test_an_answer_needs_a_finish_reason_or_an_end_marker() -> None:
    sent = [delta("", content="Hel"), delta(None, content="lo"), "[DONE]"]
    assert folded("openai", sent) == [TextDelta("Hel"), TextDelta("lo"), Finished("stop")]
    with pytest.raises(StreamCut):
        folded("openai", sent[:-1])
    with pytest.raises(StreamCut):
        folded("openai", ["[DONE]"])
    with pytest.raises(StreamCut):
        folded("openai", [])


def test_chunks_without_a_choice_are_skipped() -> None:
    odd: list[Any] = [
        {"choices": []},
        {"choices": None},
        {},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
    ]
    assert folded("openai", [*odd, {"prompt_filter_results": []}, STOP]) == [Finished("stop")]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_read_under_either_name(field: str) -> None:
    items = folded("openai", [delta(**{field: "Hm."}), delta(content="Yes."), STOP])
    assert items[:2] == [ReasoningDelta("Hm."), TextDelta("Yes.")]
    assert isinstance(items[-1], Finished)
    assert json.loads(items[-1].opaque or "")[field] == "Hm."


def test_reasoning_under_both_names_is_shown_once() -> None:
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
def test_reasoning_inside_an_answer_is_separated_in_any_chunks(text: str, said: str, thought: str) -> None:
    for size in range(1, len(text) + 1):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        items = folded("openai", [*(delta(content=piece) for piece in pieces), STOP])
        assert said_and_thought(items) == (said, thought)
        assert items[-1] == Finished("stop")


def test_pieces_of_reasoning_from_openrouter_are_joined() -> None:
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


def test_content_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    assert folded("openai", [delta(content=parts), STOP])[0] == TextDelta("Hello")


def test_usage_counts_cached_tokens_separately() -> None:
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
