"""Folding: from the events of a cut run to the rows that its transcript lacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from hermes_trio.base.events import (
    MessageDelta,
    ReasoningAvailable,
    RunCompleted,
    RunFailed,
    ToolCompleted,
    ToolStarted,
)
from hermes_trio.journal.recovery import AlreadyStored, already_stored, fold
from hermes_trio.state.tables.transcript import ToolCall, ToolCard, TranscriptRow
from tests.journal.seams import TURN, Happened, records, rows


def said(found: Iterable[TranscriptRow]) -> list[tuple[str, ...]]:
    """Return each row as its text and the names of its tool calls."""
    return [(row.content, *(card.name for card in row.cards)) for row in found]


def say(text: str) -> MessageDelta:
    return MessageDelta(text)


def think(text: str) -> ReasoningAvailable:
    return ReasoningAvailable(text)


def test_text_deltas_are_one_row_with_the_time_of_the_first() -> None:
    [row] = rows(say("  Checking "), say("GitHub"), say("\n\n"), say("first. "))
    assert row == TranscriptRow(
        "assistant", "Checking GitHub\n\nfirst.", 1001, turn_id=7, run_id="run-1", place=4, recovered=True
    )
    assert isinstance(row.created_at, int)


def test_a_tool_call_separates_the_text_before_and_after_it() -> None:
    found = rows(
        say("Before."),
        ToolStarted("terminal", "call-1", preview="ls"),
        ToolCompleted("terminal", "call-1", duration=1.5, snippet="a b"),
        say("After."),
    )
    assert said(found) == [("Before.", "terminal"), ("After.",)]
    assert [row.place for row in found] == [3, 4], "the last event that each row covers"
    assert found[0].cards == (
        ToolCard("call-1", "terminal", preview="ls", snippet="a b", done=True, duration=1.5),
    )


def test_tool_calls_before_any_text_get_their_own_row() -> None:
    found = rows(ToolStarted("a", "call-1"), ToolStarted("b", "call-2"), say("After."), ToolStarted("c"))
    assert said(found) == [("", "a", "b"), ("After.", "c")]
    assert [row.place for row in found] == [2, 4]


def test_whitespace_is_kept_inside_a_text_and_is_no_text_alone() -> None:
    assert rows(say(" "), say("\n\n"), think(" \n")) == []
    assert said(rows(say(" \n"), say("a"), say(" "), say("b"), say("\n"))) == [("a b",)]
    assert said(rows(say("a"), ToolStarted("t", "1"), say("\n\n"), ToolStarted("u", "2"))) == [
        ("a", "t", "u")
    ]


def test_reasoning_is_in_the_row_of_the_text_after_it() -> None:
    found = rows(
        think("First"), think(" "), think("this"), think("\n"), think("then that."), say("Hello."),
        ToolStarted("t", "1"), think("Now this."), say("Bye."),
    )  # fmt: skip
    assert [(row.reasoning, row.content) for row in found] == [
        ("First this\nthen that.", "Hello."),
        ("Now this.", "Bye."),
    ]


def test_reasoning_alone_is_a_row_without_text() -> None:
    [row] = rows(think("Let me see."))
    assert (row.content, row.reasoning, row.place) == ("", "Let me see.", 1)
    found = rows(think("Let me see."), ToolStarted("t", "1"))
    assert [(row.content, row.reasoning, len(row.cards)) for row in found] == [("", "Let me see.", 1)]


def test_concurrent_calls_of_one_tool_are_matched_by_id() -> None:
    """Regression: the end of the first call closed the card of the second."""
    [row] = rows(
        ToolStarted("read", "call-1", preview="one"),
        ToolStarted("read", "call-2", preview="two"),
        ToolCompleted("read", "call-1", error=True, duration=1),
    )
    assert [(card.id, card.preview, card.done, card.is_error) for card in row.cards] == [
        ("call-1", "one", True, True),
        ("call-2", "two", False, False),
    ]


def test_a_call_that_ends_later_is_closed_in_its_first_row() -> None:
    """The end of a call does not split the text around it."""
    found = rows(ToolStarted("wait", "call-1"), say("Mean"), ToolCompleted("wait", "call-1"), say("while."))
    assert [(row.content, [card.done for card in row.cards]) for row in found] == [
        ("", [True]),
        ("Meanwhile.", []),
    ]
    assert [row.place for row in found] == [1, 4]


def test_without_ids_the_newest_open_call_of_the_tool_is_closed() -> None:
    [row] = rows(
        ToolStarted("read", preview="one"),
        ToolStarted("read", preview="two"),
        ToolStarted("write"),
        ToolCompleted("read"),
        ToolCompleted(),
    )
    assert [(card.id, card.name, card.done) for card in row.cards] == [
        ("journal-1", "read", False),
        ("journal-2", "read", True),
        ("journal-3", "write", True),
    ]


def test_the_end_of_a_call_without_its_start_is_a_card() -> None:
    """Regression: it was ignored, and the journal counted as useless."""
    [row] = rows(ToolCompleted("read", "call-9", preview="p", error=True), ToolCompleted())
    assert [(card.id, card.name, card.done, card.is_error) for card in row.cards] == [
        ("call-9", "read", True, True),
        ("journal-2", "tool", True, False),
    ]


def test_a_call_without_an_end_stays_open() -> None:
    """Nobody knows whether the call had an effect, so its card is not done."""
    [row] = rows(say("Deleting."), ToolStarted("terminal", "call-1"), RunFailed("cut", "interrupted"))
    assert [card.done for card in row.cards] == [False]


def test_a_card_shows_the_beginning_of_the_first_four_arguments() -> None:
    deep: Any = []
    for _ in range(50_000):
        deep = [deep]
    args = {"path": "ä" * 500, "lines": [1, {"a": None}], "deep": deep, "empty": "", "fifth": "is left out"}
    record = msgspec.structs.replace(
        records(ToolStarted("read", "call-1"))[0], payload={"tool": "read", "call_id": "call-1", "args": args}
    )
    [row] = fold([record], TURN, AlreadyStored())
    assert row.cards[0].args == {
        "path": "ä" * 120 + "...",
        "lines": '[1,{"a":null}]',
        "deep": "...",
        "empty": "",
    }


@pytest.mark.parametrize(
    "odd",
    [
        ("message.delta", {"delta": 5}),
        ("message.delta", {"delta": None}),
        ("message.delta", {}),
        ("message.delta", {"text": "wrong key"}),
        ("reasoning.available", {"text": ["a"]}),
        ("tool.started", {"tool": "t", "args": ["a"]}),
        ("tool.started", {"tool": 1}),
        ("tool.completed", {"tool": "t", "error": "yes"}),
        ("tool.completed", {"duration": "long"}),
        ("approval.request", {"command": "ls"}),
        ("metering", {"delta": "no text"}),
        ("tool.dreaming", {}),
    ],
    ids=str,
)
def test_an_event_of_an_unknown_shape_or_name_is_ignored_alone(odd: tuple[str, Any]) -> None:
    between: list[Happened] = [say("a"), say("b"), ToolStarted("t", "1"), ToolCompleted("t", "1"), say("c")]
    plain = rows(*between)
    with_odd = rows(odd, *(item for each in between for item in (each, odd)))
    assert said(with_odd) == said(plain) == [("ab", "t"), ("c",)]
    assert rows(odd) == []


# --- output that is stored already --------------------------------------------------------------------


def test_events_up_to_the_stored_place_give_no_rows() -> None:
    happened = [
        say("Told. "),
        ToolStarted("t", "call-1"),
        ToolCompleted("t", "call-1"),
        say("Told. "),
        say("New."),
    ]
    assert said(rows(*happened, stored=AlreadyStored(place=4))) == [("New.",)]
    assert rows(*happened, stored=AlreadyStored(place=5)) == []
    assert rows(*happened, stored=AlreadyStored(place=99)) == []


def test_a_stored_tool_call_gets_no_card() -> None:
    """Its row was stored with the model's request; the call began and ended after that."""
    happened = [
        say("Look."),
        ToolStarted("t", "call-1"),
        ToolStarted("u", "call-2"),
        ToolCompleted("t", "call-1"),
    ]
    found = rows(*happened, say("Seen."), stored=AlreadyStored(place=1, call_ids=frozenset({"call-1"})))
    assert said(found) == [("", "u"), ("Seen.",)]


def test_already_stored_collects_place_and_call_ids_of_the_turn() -> None:
    def row(turn_id: int | None, place: int, **other: Any) -> TranscriptRow:
        return TranscriptRow("assistant", "Yes.", 1.0, turn_id, place=place, **other)

    call = (ToolCall("call-1", "t", "{}"),)
    found = already_stored(
        [
            row(None, 50),
            row(6, 40, tool_calls=(ToolCall("call-0", "t", "{}"),)),
            row(7, 2, tool_calls=call),
            row(7, 3),
            row(7, 30, recovered=True),
            row(7, 20, marker="arriving"),
            row(8, 10),
        ],
        TURN,
    )
    assert (found.place, found.call_ids) == (3, frozenset({"call-1"}))
    assert already_stored([], TURN).place == 0


def test_an_answer_equal_to_an_older_one_is_recovered() -> None:
    """Texts are not compared: a short answer may equal an older one."""
    older = TranscriptRow("assistant", "Yes.", 1.0, turn_id=6, place=9)
    assert said(fold(records(say("Yes.")), TURN, already_stored([older], TURN))) == [("Yes.",)]


def test_a_terminal_event_gives_no_row() -> None:
    assert said(rows(say("a"), RunCompleted("a"))) == [("a",)]
    assert rows(RunFailed("no")) == []
