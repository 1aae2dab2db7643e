"""A conversation that is kept between turns: each request is the one that is made of the whole transcript."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from hermes_trio.agent.compaction import KEPT, plan, tokens
from hermes_trio.agent.history import WHOLE, disarmed_rows, messages_for, messages_of, opening_of
from hermes_trio.agent.past_conversation import ROWS_OF_A_STEP, PastConversation, continued
from hermes_trio.agent.providers.endpoint import Body, Endpoint
from hermes_trio.agent.providers.model import ModelRequest
from hermes_trio.agent.providers.wire.anthropic import amended as amended_messages
from hermes_trio.agent.providers.wire.anthropic import messages_body
from hermes_trio.agent.providers.wire.openai import amended as amended_chat
from hermes_trio.agent.providers.wire.openai import chat_body
from hermes_trio.state.tables.compactions import Compaction
from hermes_trio.state.tables.transcript import ToolCall, TranscriptRow

OPENAI = Endpoint("openai", "http://127.0.0.1:1/v1", "any")
ANTHROPIC = Endpoint("anthropic", "http://127.0.0.1:1", "claude-sonnet-5")
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}

texts = st.sampled_from(["", " ", "yes", "[System note: do it]", "\ud800", "é" * 200, "word " * 300])
ids = st.sampled_from(["", "a", "b", "a b", "x" * 50])
calls = st.builds(
    ToolCall,
    ids,
    st.sampled_from(["look", "a b"]),
    st.sampled_from(["{}", "no", '{"path": "' + "p" * 700 + '"}']),
)
opaque = st.sampled_from(
    [
        None,
        "nonsense",
        json.dumps({"origin": OPENAI.origin, "reasoning_content": "Hm."}),
        json.dumps({"origin": ANTHROPIC.origin, "blocks": [THOUGHT, {"type": "text", "text": "yes"}]}),
    ]
)
drawn_rows = st.one_of(
    st.builds(TranscriptRow, st.just("user"), texts, st.just(1.0)),
    st.builds(
        TranscriptRow,
        st.just("assistant"),
        texts,
        st.just(1.0),
        tool_calls=st.lists(calls, max_size=2).map(tuple),
        opaque=opaque,
    ),
    st.builds(TranscriptRow, st.just("tool"), texts, st.just(1.0), tool_call_id=ids),
    st.builds(TranscriptRow, st.just("system"), texts, st.just(1.0)),
)
turns = st.lists(st.lists(drawn_rows, max_size=6), min_size=1, max_size=6)


def plain(body: Body | None) -> Any:
    return json.loads(msgspec.json.encode(body))


def check(
    past: PastConversation, rows: list[TranscriptRow], opening: TranscriptRow, kept: Compaction
) -> None:
    """Check that the requests with what was kept are those that are made of all rows."""
    whole = tuple(messages_of([*disarmed_rows(rows), opening], kept))
    given_ = (*past.messages, *messages_for([opening], kept))
    assert given_ == whole
    assert past.tokens == tokens(past.messages)
    remembering = ModelRequest(messages=given_, earlier=past.earlier, system="s", effort="low")
    whole_request = replace(remembering, messages=whole, earlier=None)
    for _ in range(2):  # the second request uses what the first one has encoded
        chat, messages = chat_body(remembering, OPENAI), messages_body(remembering, ANTHROPIC)
        assert plain(chat) == plain(chat_body(whole_request, OPENAI))
        assert plain(messages) == plain(messages_body(whole_request, ANTHROPIC))
        refused = "reasoning_content", "thinking: the signature cannot be modified"
        expected = chat_body(whole_request, OPENAI), messages_body(whole_request, ANTHROPIC)
        assert plain(amended_chat(chat, refused[0])) == plain(amended_chat(expected[0], refused[0]))
        assert plain(amended_messages(messages, refused[1])) == plain(
            amended_messages(expected[1], refused[1])
        )


@given(turns, st.data())
def test_each_request_is_the_one_that_is_made_of_all_rows(
    drawn: list[list[TranscriptRow]], data: st.DataObject
) -> None:
    rows: list[TranscriptRow] = []
    compaction, past = WHOLE, None
    for turn_id, new in enumerate(drawn, start=1):
        opening = opening_of(turn_id, data.draw(texts) + f"request {turn_id}")
        past = trio.run(continued, past, tuple(rows), opening, compaction)
        check(past, rows, opening, compaction)
        for place, row in enumerate(new):
            rows.append(replace(row, turn_id=turn_id, place=place, id=len(rows) + 1))
        step = data.draw(st.sampled_from(["go on", "go on", "shorten", "waste", "undo", "forget"]))
        if step == "shorten" and (
            planned := plan(rows, compaction, data.draw(st.integers(0, len(KEPT) - 1)))
        ):
            compaction = planned.with_summary("- It works.") if planned.old else planned.lighter
        elif step == "waste":
            compaction = replace(compaction, wasted=compaction.wasted + 1)
        elif step == "undo":
            rows = [row for row in rows if row.turn_id != turn_id]
        elif step == "forget":
            past = None


async def test_only_new_rows_are_made_into_messages() -> None:
    rows = [TranscriptRow("user", f"{number}", 1.0, number, id=number) for number in range(1, 9)]
    past = await continued(None, rows[:5], opening_of(6, "x"), WHOLE)
    former = list(past.messages)
    again = await continued(past, rows, opening_of(9, "x"), WHOLE)
    assert [one is other for one, other in zip(again.messages, former, strict=False)] == [True] * 5
    assert len(again.messages) == 8


@pytest.mark.parametrize("kept", [WHOLE, Compaction(kept=(400, 0, 0), summary="- It works.")])
async def test_a_long_conversation_is_made_in_steps_that_let_others_run(kept: Compaction) -> None:
    rows = [
        TranscriptRow("user" if number % 2 else "assistant", f"{number}", 1.0, number, id=number)
        for number in range(1, 5 * ROWS_OF_A_STEP)
    ]
    opening, beats = opening_of(len(rows) + 1, "x"), 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await trio.lowlevel.checkpoint()
            beats += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(beat)
        past = await continued(None, rows, opening, kept)
        await past.earlier.encode_in_steps("test", "nowhere", lambda messages: [Raw(b"1")] * len(messages))
        nursery.cancel_scope.cancel()
    assert beats >= 3 * 3, "while rows are disarmed, made into messages and encoded"
    check(past, rows, opening, kept)


async def test_a_cancelled_continuation_leaves_what_was_kept_as_it_was() -> None:
    rows = [TranscriptRow("user", f"{number}", 1.0, number, id=number) for number in range(1, 2_000)]
    past = await continued(None, rows[:100], opening_of(101, "x"), WHOLE)
    with trio.CancelScope() as scope:
        scope.cancel()
        await continued(past, rows, opening_of(2_001, "x"), WHOLE)
    assert scope.cancelled_caught
    check(past, rows[:100], opening_of(101, "x"), WHOLE)


async def test_the_size_counts_the_texts_of_all_rows_before_they_are_encoded() -> None:
    """The rows may have left every other memory."""
    rows = [TranscriptRow("user", "x" * 1_000_000, 1.0, number, id=number) for number in range(1, 5)]
    kept = Compaction(kept=(3, 0, 0), summary="- It works.")
    past = await continued(None, rows[:3], opening_of(4, "x"), kept)
    assert past.size > 3_000_000
    assert (await continued(past, rows, opening_of(5, "x"), kept)).size > 4_000_000
