"""The transcript: rows are ordered by turn and place, and read back unchanged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import transcript
from hermes_trio.state.tables.transcript import ToolCall, ToolCard, TranscriptRow
from hermes_trio.state.tables.turns import Outcome
from tests.logs import capture_logs
from tests.state.rows import NOON, session, texts, turn, undone

any_text = texts(30)
optional = st.none() | any_text
calls = st.lists(st.builds(ToolCall, any_text, any_text, any_text), max_size=2).map(tuple)
cards = st.lists(
    st.builds(
        ToolCard,
        any_text,
        any_text,
        any_text,
        any_text,
        st.dictionaries(any_text, any_text, max_size=2),
        st.booleans(),
        st.booleans(),
        st.none() | st.floats(0, 1e6),
    ),
    max_size=2,
).map(tuple)


@settings(max_examples=100)
@given(data=st.data())
def test_a_transcript_row_is_read_back_unchanged(shared_db: Db, data: st.DataObject) -> None:
    with undone(shared_db) as db:
        session(db)
        turn_id = data.draw(st.none() | st.just(turn(db, run="the run")))
        row = data.draw(
            st.builds(
                TranscriptRow,
                role=st.sampled_from(["user", "assistant", "tool", "system"]),
                content=any_text,
                created_at=st.floats(0, 4e9),
                turn_id=st.just(turn_id),
                run_id=st.just("the run" if turn_id else None),
                place=st.integers(0, 2**60),
                reasoning=optional,
                tool_calls=calls,
                finish=optional,
                tool_call_id=optional,
                tool_name=optional,
                status=optional,
                cards=cards,
                recovered=st.booleans(),
                id=st.none(),
                marker=st.none(),
            )
        )
        transcript.append(db, "s1", row)
        [stored] = transcript.load(db, "s1")
        assert stored == replace(row, id=stored.id)


def test_transcript_rows_are_ordered_by_turn_and_place_not_by_insertion(db: Db) -> None:
    session(db)
    session(db, "s2")
    first = turn(db, run="r1", ended=Outcome.CUT)
    second = turn(db, run="r2")
    written = [
        ("2: asked", second, 0),
        ("2: called", second, 7),
        ("2: result", second, 7),
        ("1: said", first, 3),
        ("1: asked", first, 0),
        ("1: found late", first, 2),
        ("before all turns", None, 0),
    ]
    for content, turn_id, place in written:
        transcript.append(db, "s1", TranscriptRow("user", content, NOON, turn_id, place=place))
    transcript.append(db, "s2", TranscriptRow("user", "elsewhere", NOON))
    assert [row.content for row in transcript.load(db, "s1")] == [
        "before all turns",
        "1: asked",
        "1: found late",
        "1: said",
        "2: asked",
        "2: called",
        "2: result",
    ]


def test_replacing_recovered_rows_is_idempotent_and_adds_new_ones(
    db: Db,
) -> None:
    session(db)
    turn_id, other = turn(db, run="r1", ended=Outcome.CUT), turn(db, run="r2", ended=Outcome.CUT)
    transcript.append(db, "s1", TranscriptRow("user", "asked", NOON, turn_id))
    transcript.append(
        db, "s1", TranscriptRow("assistant", "of another", NOON, other, place=1, recovered=True)
    )
    for found in (["half an"], ["half an"], ["half an", "answer"], ["half an", "answer"]):
        rows = [
            TranscriptRow("assistant", text, NOON, turn_id, place=place, recovered=True)
            for place, text in enumerate(found, start=1)
        ]
        transcript.replace_recovered(db, "s1", turn_id, rows)
        assert [row.content for row in transcript.load(db, "s1")] == ["asked", *found, "of another"]
        assert len(transcript.search(db, "half")) == 1, "the search finds no second copy"
    transcript.replace_recovered(db, "s1", turn_id, [])
    assert [row.content for row in transcript.load(db, "s1")] == ["asked", "of another"]
    assert transcript.search(db, "half") == []


@pytest.mark.parametrize(
    "bad", ["{", "17", "[{}]", '[{"id": 1, "name": "n", "arguments": "{}"}]', "[" * 10_000]
)
@pytest.mark.parametrize("column", ["tool_calls", "cards"])
def test_unreadable_tool_calls_are_dropped_and_logged(db: Db, column: str, bad: str) -> None:
    session(db)
    transcript.append(db, "s1", TranscriptRow("assistant", "I looked.", NOON))
    transcript.append(db, "s1", TranscriptRow("user", "And?", NOON))
    row_id = transcript.load(db, "s1")[0].id
    db.execute(f"UPDATE messages SET {column} = ? WHERE message_id = ?", (bad, row_id))  # noqa: S608
    with capture_logs() as logs:
        [said, asked] = transcript.load(db, "s1")
    assert (said.content, said.tool_calls, said.cards) == ("I looked.", (), ())
    assert asked.content == "And?"
    assert [(entry["message"], entry["column"]) for entry in logs] == [(row_id, column)]


@pytest.mark.parametrize("half", ["\ud83d", "\0"])
def test_a_bad_character_costs_itself_and_not_the_end_of_a_turn(db: Db, half: str) -> None:
    session(db)
    sign = "\N{REPLACEMENT CHARACTER}"
    row = TranscriptRow(
        "assistant",
        f"so {half}",
        NOON,
        reasoning=half,
        tool_calls=(ToolCall("c1", "terminal", half),),
        cards=(ToolCard("c1", half, args={"path": half}),),
        finish=half,
        tool_call_id=half,
        tool_name=half,
        status=half,
    )
    transcript.append(db, "s1", row)
    transcript.append(db, "s1", TranscriptRow("user", "\ud83d\ude00", NOON))
    [said, smile] = transcript.load(db, "s1")
    assert (said.content, said.reasoning, said.finish) == (f"so {sign}", sign, sign)
    assert (said.tool_call_id, said.tool_name, said.status) == (sign, sign, sign)
    stored = half if half == "\0" else sign  # JSON escapes a NUL
    assert said.tool_calls == (ToolCall("c1", "terminal", stored),)
    assert said.cards == (ToolCard("c1", stored, args={"path": stored}),)
    assert smile.content == "\N{GRINNING FACE}", "two surrogates are one character"
    assert transcript.search(db, half) == []


@pytest.mark.parametrize(
    ("row", "has_other"),
    [
        (TranscriptRow("user", "read_file", NOON), False),
        (TranscriptRow("assistant", "", NOON, tool_calls=(ToolCall("1", "read_file", "{}"),)), False),
        (TranscriptRow("tool", "done", NOON, tool_name="todo"), False),
        (TranscriptRow("tool", "a page", NOON, tool_name="web_fetch"), True),
        (TranscriptRow("tool", "a page", NOON), True),
        (TranscriptRow("assistant", "", NOON, cards=(ToolCard("1", "web_fetch"),), recovered=True), True),
    ],
)
def test_results_of_other_tools_are_found_in_their_session_alone(
    db: Db, row: TranscriptRow, has_other: bool
) -> None:
    for name in ("s1", "s2"):
        session(db, name)
    transcript.append(db, "s1", row)
    assert transcript.has_other_results(db, "s1", {"todo", "clarify"}) is has_other
    assert not transcript.has_other_results(db, "s2", {"todo", "clarify"})
