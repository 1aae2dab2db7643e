"""The tool `clarify`: the question, and the effect of the answer. The tests of the gateway's questions cover
the conversation around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_trio.gateway.turn.transcript_tail import Tail, judge_tail
from hermes_trio.state.tables.transcript import ToolCall, TranscriptRow
from hermes_trio.tools.builtin.clarify import CLARIFY, NOBODY
from hermes_trio.tools.tool import ToolFailed
from tests.tools.desk import desk_in


@pytest.mark.parametrize(
    ("said", "result"), [("green", "green"), (" GREEN ", "green"), ("none of them", "none of them")]
)
async def test_the_answer_to_clarify_is_its_result(tmp_path: Path, said: str, result: str) -> None:
    desk = desk_in(tmp_path)
    desk.answer = said
    told = await desk.use(CLARIFY, question="Which?", choices=["red", "green", "red"])
    assert (told.content, told.status, told.is_error) == (result, "ok", False)
    assert desk.asked == [("Which?", ("red", "green"))]


async def test_an_unanswered_clarify_keeps_a_cut_turn_waiting(tmp_path: Path) -> None:
    desk = desk_in(tmp_path)
    told = await desk.use(CLARIFY, question="Which?")
    assert told.content == NOBODY
    asked = TranscriptRow("assistant", "", 0, tool_calls=(ToolCall("1", CLARIFY.name, "{}"),))
    result = TranscriptRow(
        "tool", told.content, 0, tool_call_id="1", tool_name=CLARIFY.name, status=told.status
    )
    assert judge_tail([TranscriptRow("user", "paint it", 0), asked, result]) is Tail.WAITING
    assert judge_tail([TranscriptRow("user", "paint it", 0), asked]) is Tail.WAITING


async def test_clarify_takes_at_most_four_choices(tmp_path: Path) -> None:
    desk = desk_in(tmp_path)
    for arguments in (
        {"question": "?", "choices": list("abcde")},
        {"question": ""},
        {"question": "?", "choices": [""]},
    ):
        with pytest.raises(ToolFailed, match="arguments of clarify"):
            await desk.use(CLARIFY, **arguments)
    assert desk.asked == []
    assert CLARIFY.within is None, "the tool has no time limit, because a person may take long"
