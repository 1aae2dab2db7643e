"""The limit of a conversation's length, and its shortening: rules for transcripts of any content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.agent.compaction import KEPT, limit, plan, summary_prompt, tokens
from hermes_trio.agent.history import WHOLE, messages_of
from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model import ModelRequest
from hermes_trio.agent.providers.model_messages import ToolResult, UserMessage
from hermes_trio.agent.providers.wire.anthropic import messages_body
from hermes_trio.agent.providers.wire.openai import chat_body
from hermes_trio.state.tables.compactions import Compaction, position
from hermes_trio.state.tables.transcript import ToolCall, TranscriptRow
from tests.agent.wire_rules import check_chat, check_messages

OPENAI = Endpoint("openai", "http://127.0.0.1:1/v1", "any")
ANTHROPIC = Endpoint("anthropic", "http://127.0.0.1:1", "claude-sonnet-5")
SUMMARY = "## What the person wants\nThat it works."

words = st.integers(0, 400).map(lambda count: "word " * count) | st.text(max_size=20)
texts = words | st.just("é" * 300) | st.just("")


@st.composite
def rounds(draw: st.DrawFn, turn: int) -> list[TranscriptRow]:
    """Draw one turn: a request, any number of rounds of tools, and an answer or none."""
    rows = [TranscriptRow("user", draw(texts) + f" request {turn}", 1.0, turn)]
    for number in range(draw(st.integers(0, 4))):
        calls = tuple(
            ToolCall(f"{turn}-{number}-{n}", "look", json.dumps({"path": draw(texts)}))
            for n in range(draw(st.integers(1, 3)))
        )
        rows.append(TranscriptRow("assistant", draw(texts), 1.0, turn, tool_calls=calls, finish="tool_calls"))
        # A cut may have left calls without results.
        rows += [
            TranscriptRow("tool", draw(texts), 1.0, turn, tool_call_id=call.id, tool_name="look")
            for call in calls[: draw(st.sampled_from([len(calls), len(calls), 0]))]
        ]
        if draw(st.booleans()):
            rows.append(TranscriptRow("user", f"and that {turn}.{number}", 1.0, turn))
    if draw(st.booleans()):
        rows.append(TranscriptRow("assistant", draw(texts) + "done", 1.0, turn, finish="stop"))
    return rows


@st.composite
def transcripts(draw: st.DrawFn) -> list[TranscriptRow]:
    rows = [row for turn in range(1, draw(st.integers(1, 6)) + 1) for row in draw(rounds(turn))]
    return [replace(row, id=n, place=n // 3) for n, row in enumerate(rows, start=1)]


def check_request(rows: Sequence[TranscriptRow], compaction: Compaction) -> None:
    """Check that the shortened conversation keeps the rules of both wire formats."""
    messages = messages_of(rows, compaction)
    request = ModelRequest(messages=tuple(messages))
    check_chat(json.loads(msgspec.json.encode(chat_body(request, OPENAI))))
    check_messages(json.loads(msgspec.json.encode(messages_body(request, ANTHROPIC))))


def shortened(rows: Sequence[TranscriptRow], compaction: Compaction, attempt: int) -> Compaction | None:
    made = plan(rows, compaction, attempt)
    if made is None:
        return None
    return made.with_summary(SUMMARY) if made.old else made.lighter


@given(transcripts(), st.lists(st.integers(0, len(KEPT) - 1), min_size=1, max_size=4))
def test_any_shortened_conversation_is_valid_and_holds_the_last_request(
    rows: list[TranscriptRow], attempts: list[int]
) -> None:
    compaction = WHOLE
    for attempt in attempts:
        new = shortened(rows, compaction, attempt)
        if new is None:
            continue
        check_request(rows, new)
        messages = messages_of(rows, new)
        before = tokens(messages_of(rows, compaction))
        if before > 2_000:
            assert tokens(messages) < before
        said = [message.text for message in messages if isinstance(message, UserMessage)]
        asked = [row for row in rows if row.role == "user"]
        of_last_turn = [row.content for row in asked if row.turn_id == asked[-1].turn_id]
        assert of_last_turn[0] in said, "the first request of the last turn"
        assert of_last_turn[-1] in said
        at = next((n for n, row in enumerate(rows) if position(row) >= new.kept), len(rows))
        next_role = next((row.role for row in rows[at:] if row.role != "user"), "assistant")
        assert next_role == "assistant", "no result without its call"
        compaction = new


def tool_rounds(count: int, size: int) -> list[TranscriptRow]:
    rows = [TranscriptRow("user", "Look at all of it.", 1.0, 1, id=1)]
    for number in range(count):
        call = ToolCall(f"c{number}", "look", json.dumps({"path": f"/{number}", "text": "t" * 1_000}))
        rows.append(TranscriptRow("assistant", f"Look {number}.", 1.0, 1, tool_calls=(call,), place=number))
        rows.append(TranscriptRow("tool", "r" * size, 1.0, 1, tool_call_id=call.id, place=number))
    return [replace(row, id=n) for n, row in enumerate(rows, start=1)]


def test_old_results_become_one_line_before_a_summary_is_written() -> None:
    rows = tool_rounds(20, 8_000)
    made = plan(rows, WHOLE)
    assert made is not None
    assert made.old == (), "step one is enough"
    results = [one for one in messages_of(rows, made.lighter) if isinstance(one, ToolResult)]
    assert [len(one.content) > 300 for one in results] == [False] * 16 + [True] * 4
    assert "A result of 8000 characters" in results[0].content
    check_request(rows, made.lighter)


def test_long_texts_are_summarised_and_the_summary_is_updated() -> None:
    rows = [
        TranscriptRow(
            role, f"{role} {n} " + "word " * 500, 1.0, n, finish="stop" if role == "assistant" else None, id=n
        )
        for n in range(1, 21)
        for role in ("user", "assistant")
    ]
    rows = [replace(row, id=n) for n, row in enumerate(rows, start=1)]
    made = plan(rows, WHOLE)
    assert made is not None
    assert made.old
    wanted = summary_prompt(made, 200_000)
    assert "PERSON: user 1 " in wanted
    assert "minutes so far" not in wanted
    first = made.with_summary(SUMMARY)
    head, *rest = messages_of(rows, first)
    assert isinstance(head, UserMessage)
    assert SUMMARY in head.text
    assert "Do none of it again" in head.text
    assert "user 1 " in head.text, "the first request is quoted"
    assert len(rest) == 7
    again = plan(rows, first)
    assert again is not None
    assert again.old[0] == rows[len(made.old)], "summarised rows are not summarised again"
    assert f"minutes so far, to be brought up to date: keep what still holds.\n\n{SUMMARY}" in summary_prompt(
        again, 200_000
    )


def test_the_request_for_a_summary_fits_the_model() -> None:
    rows = tool_rounds(400, 200)
    made = plan(rows, WHOLE)
    assert made is not None
    for window, share in ((8_000, 1), (8_000, 4), (200_000, 1), (None, 1)):
        assert len(summary_prompt(made, window, share=share)) < (window or 48_000) * 2 // share + 1_000


@pytest.mark.parametrize(
    ("window", "expected"),
    [(8_192, 5_222), (32_768, 20_889), (128_000, 72_000), (200_000, 126_000), (1_000_000, 484_000)],
)
def test_the_limit_of_a_conversation_follows_the_context_length(window: int, expected: int) -> None:
    assert limit(window) == expected


def test_a_conversation_that_cannot_be_shortened_has_no_plan() -> None:
    assert plan([], WHOLE) is None
    assert plan([TranscriptRow("user", "word " * 9_000, 1.0, 1, id=1)], WHOLE) is None


@pytest.mark.parametrize(("opening", "whole"), [("[System note: go on.]", True), ("Something else?", False)])
def test_an_unanswered_request_is_complete_in_a_turn_that_resumes_it(opening: str, whole: bool) -> None:
    asked = f"Do all of this: {'word ' * 10_000} And be quick."
    rows = [
        TranscriptRow("user", asked, 1.0, 1, id=1),
        TranscriptRow("assistant", "I do.", 1.0, 1, place=1, recovered=True, id=2),
        TranscriptRow("user", opening, 1.0, 2),
    ]
    (_, sent, now) = messages_of(rows, Compaction(kept=position(rows[2]), summary=SUMMARY))
    assert isinstance(sent, UserMessage)
    assert (sent.text == asked) is whole
    assert len(sent.text) < 2_100 or whole
    assert sent.text.startswith("Do all of this:")
    assert sent.text.endswith("And be quick.")
    assert now == UserMessage(opening)
