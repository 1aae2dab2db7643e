"""Answers in Anthropic's format, folded into items; and errors in the middle of either format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hermes_trio.agent.providers.model import (
    Finished,
    ReasoningDelta,
    TextDelta,
)
from hermes_trio.agent.providers.model_errors import (
    ContextTooLong,
    ModelError,
    Overloaded,
    ServerTrouble,
    StreamMalformed,
)
from hermes_trio.state.tables.session_entry import Usage
from hermes_trio.testing.model_replies import Wire
from tests.agent.providers.folding import STOP, delta, folded


def test_the_token_counts_of_anthropic_are_totals() -> None:
    start = {
        "input_tokens": 5,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 10,
        "output_tokens": 1,
    }
    sent = [
        {"type": "message_start", "message": {"usage": start}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 30}},
        {"type": "message_stop"},
    ]
    assert folded("anthropic", sent)[0] == Usage(5, 30, 100, 10, 115)


def test_blocks_and_events_of_unknown_types_are_skipped() -> None:
    sent = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "hologram", "x": 1}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "hologram_delta", "x": 2}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hi"}},
        {"type": "surprise"},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ]
    assert folded("anthropic", sent) == [TextDelta("Hi"), Finished("stop")]


@pytest.mark.parametrize("nothing", [None, {}, 0])
def test_a_block_may_begin_with_null_in_place_of_its_text(nothing: object) -> None:
    sent = [
        {
            "type": "content_block_start",
            "index": index,
            "content_block": {"type": kind, kind: nothing, "signature": nothing},
        }
        for index, kind in enumerate(["thinking", "text", "text"])
    ]
    sent += [
        {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: "Hi"}}
        for index, kind in enumerate(["thinking", "text"])
    ]
    *said, finished = folded(
        "anthropic", [*sent, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}]
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


def test_a_piece_of_a_call_that_never_began_is_an_error() -> None:
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


@pytest.mark.parametrize(("sent", "error"), TROUBLES)
def test_errors_of_every_shape_in_the_middle_of_a_stream_are_raised(
    sent: Any, error: type[ModelError], wire: Wire
) -> None:
    with pytest.raises(ModelError) as caught:
        folded(wire, [sent])
    if error is not Overloaded:
        assert type(caught.value) is error
