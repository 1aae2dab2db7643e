"""Rules for the automatic resume of cut turns."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.gateway.startup.resume_rules import Action, Marked, Verdict, may_resume
from hermes_trio.gateway.turn.transcript_tail import Tail, ends_in_tool_result, judge_tail, tail_time
from hermes_trio.state.tables.transcript import ToolCall, ToolCard, TranscriptRow

NOTE = "[System note: The previous turn was interrupted by a gateway restart.]"


def user(text: str = "please build it") -> TranscriptRow:
    return TranscriptRow("user", text, 1.0)


def assistant(text: str = "Done.", finish: str | None = "stop", **more: Any) -> TranscriptRow:
    return TranscriptRow("assistant", text, 2.0, finish=finish, **more)


def calls(*names: str, text: str = "") -> TranscriptRow:
    """Return a row in which the model calls tools; the id of a call is made from the name."""
    asked = tuple(ToolCall(f"call-{name}", name, "{}") for name in names)
    return assistant(text, "tool_calls", tool_calls=asked)


def result(name: str, status: str = "ok") -> TranscriptRow:
    return TranscriptRow("tool", "…", 3.0, tool_call_id=f"call-{name}", tool_name=name, status=status)


def recovered(text: str = "Half an ans", **more: Any) -> TranscriptRow:
    return assistant(text, None, recovered=True, **more)


SYSTEM = TranscriptRow("system", "You are an agent.", 0.0)
MARKER = assistant("(interrupted)", None, marker="arriving")


@pytest.mark.parametrize(
    ("rows", "tail"),
    [
        ([user(), assistant()], Tail.ANSWERED),
        ([user(), assistant(finish="end")], Tail.ANSWERED),
        ([user(), assistant(finish="end_turn")], Tail.ANSWERED),
        ([user(), assistant(finish="completed")], Tail.ANSWERED),
        ([user(), assistant(finish="stop_sequence")], Tail.ANSWERED),
        ([user(), assistant(finish="STOP")], Tail.ANSWERED),
        ([user(), calls("terminal"), result("terminal"), assistant()], Tail.ANSWERED),
        ([user(), calls("clarify"), result("clarify", "unanswered"), assistant()], Tail.ANSWERED),
        ([user(), assistant(), SYSTEM, MARKER], Tail.ANSWERED),
        #
        ([user()], Tail.UNFINISHED),
        ([user(), assistant(finish=None)], Tail.UNFINISHED),
        ([user(), assistant(finish="length")], Tail.UNFINISHED),
        ([user(), assistant(finish="content_filter")], Tail.UNFINISHED),
        ([user(), assistant("  ")], Tail.UNFINISHED),
        ([user(), recovered()], Tail.UNFINISHED),
        ([user(), assistant(recovered=True)], Tail.UNFINISHED),
        ([user(), calls("terminal")], Tail.UNFINISHED),
        ([user(), calls("terminal", text="I look.")], Tail.UNFINISHED),
        ([user(), replace(calls("terminal", text="I look."), finish="stop")], Tail.UNFINISHED),
        ([user(), calls("terminal"), result("terminal")], Tail.UNFINISHED),
        ([user(), calls("terminal"), result("terminal", "error")], Tail.UNFINISHED),
        ([user(), calls("terminal"), MARKER], Tail.UNFINISHED),
        ([user(), assistant(), user("and now?")], Tail.UNFINISHED),
        ([user(), calls("clarify"), result("clarify")], Tail.UNFINISHED),
        ([user(), calls("clarify"), user("the red one")], Tail.UNFINISHED),
        ([user(), calls("clarify"), result("clarify"), calls("terminal")], Tail.UNFINISHED),
        ([user(), recovered(cards=(ToolCard("1", "terminal"),))], Tail.UNFINISHED),
        ([user(), recovered(cards=(ToolCard("1", "clarify", done=True),))], Tail.UNFINISHED),
        #
        ([user(), calls("clarify")], Tail.WAITING),
        ([user(), calls("clarify"), result("clarify", "unanswered")], Tail.WAITING),
        ([user(), calls("clarify"), MARKER], Tail.WAITING),
        ([user(), calls("terminal", "clarify"), result("terminal")], Tail.WAITING),
        (
            [user(), calls("clarify", "terminal"), result("clarify", "unanswered"), result("terminal")],
            Tail.WAITING,
        ),
        ([result("clarify", "unanswered")], Tail.WAITING),
        ([user(), recovered("", cards=(ToolCard("1", "clarify"),))], Tail.WAITING),
        (
            [user(), recovered(cards=(ToolCard("1", "clarify", done=True, is_error=True),))],
            Tail.WAITING,
        ),
        #
        ([user(NOTE)], Tail.ONLY_NOTE),
        ([user(), calls("terminal"), result("terminal"), user(f"\n{NOTE} ")], Tail.ONLY_NOTE),
        ([user(f"{NOTE}\n\nplease go on")], Tail.UNFINISHED),
        ([user(f"{NOTE}\n\nsee [1]")], Tail.UNFINISHED),
        ([user(f"{NOTE} see [1]")], Tail.UNFINISHED),
        ([user(f"why do I read {NOTE}")], Tail.UNFINISHED),
        ([user("[a list]")], Tail.UNFINISHED),
        ([assistant(NOTE)], Tail.ANSWERED),
        #
        ([], Tail.EMPTY),
        ([SYSTEM, MARKER], Tail.EMPTY),
    ],
)
def test_the_tail_of_a_transcript_is_judged_by_its_last_rows(rows: list[TranscriptRow], tail: Tail) -> None:
    assert judge_tail(rows) is tail


names = st.sampled_from(["clarify", "terminal"])
ids = st.sampled_from(["1", "2"])
rows_of_all_kinds = st.lists(
    st.builds(
        TranscriptRow,
        role=st.sampled_from(["user", "assistant", "tool", "system"]),
        content=st.sampled_from(["", "hello", NOTE]),
        created_at=st.floats(0, 10),
        turn_id=st.none() | st.integers(1, 3),
        place=st.integers(0, 3),
        reasoning=st.none() | st.just("because"),
        tool_calls=st.lists(
            st.builds(ToolCall, id=ids, name=names, arguments=st.text(max_size=2)), max_size=2
        ).map(tuple),
        finish=st.sampled_from([None, "stop", "length", "tool_calls"]),
        tool_call_id=st.none() | ids,
        tool_name=st.none() | names,
        status=st.sampled_from([None, "ok", "error", "unanswered"]),
        cards=st.lists(
            st.builds(ToolCard, id=ids, name=names, preview=st.text(max_size=2), done=st.booleans()),
            max_size=1,
        ).map(tuple),
        recovered=st.booleans(),
        marker=st.sampled_from([None, None, None, "arriving"]),
    ),
    max_size=5,
)


def bare(row: TranscriptRow) -> TranscriptRow:
    """Return the row with only the fields that the rules may read."""
    return TranscriptRow(
        role=row.role,
        content=row.content,
        created_at=0.0,
        tool_calls=tuple(ToolCall(call.id, call.name, "") for call in row.tool_calls),
        finish=row.finish,
        tool_call_id=row.tool_call_id,
        status=row.status,
        cards=tuple(ToolCard(c.id, c.name, done=c.done, is_error=c.is_error) for c in row.cards),
        recovered=row.recovered,
    )


@given(rows_of_all_kinds)
def test_any_transcript_has_a_tail_that_depends_on_few_fields(
    rows: list[TranscriptRow],
) -> None:
    said = [bare(row) for row in rows if row.role != "system" and row.marker is None]
    assert judge_tail(rows) is judge_tail(said)


@given(rows_of_all_kinds, rows_of_all_kinds)
def test_the_tail_does_not_depend_on_earlier_turns(
    earlier: list[TranscriptRow], rows: list[TranscriptRow]
) -> None:
    assert judge_tail([*earlier, user(), *rows]) is judge_tail([user(), *rows])


@pytest.mark.parametrize(
    ("rows", "at", "tool_result"),
    [
        ([user(), calls("terminal"), result("terminal")], 3.0, True),
        ([user(), calls("terminal"), result("terminal"), SYSTEM, MARKER], 3.0, True),
        ([user(), calls("terminal")], 2.0, False),
        ([user()], 1.0, False),
        ([SYSTEM, MARKER], None, False),
        ([], None, False),
    ],
)
def test_the_time_of_the_tail_is_that_of_the_last_written_row(
    rows: list[TranscriptRow], at: float | None, tool_result: bool
) -> None:
    assert tail_time(rows) == at
    assert ends_in_tool_result(rows) is tool_result


# --- which sessions are resumed ---

NOW, WINDOW = 1_000_000.0, 3600.0
CUT = Marked(
    reason="restart_timeout",
    marked_at=NOW - 5,
    tail=Tail.UNFINISHED,
    tail_at=NOW - 10,
    suspended=False,
    has_origin=True,
    link_up=True,
    let_in=True,
    had_its_run=False,
    fruitless=False,
)
OLD = NOW - 6 * 7 * 86400


@pytest.mark.parametrize(
    ("session", "verdict", "action"),
    [
        (CUT, Verdict.UNFINISHED_WORK, Action.RUN),
        (replace(CUT, reason="shutdown_timeout"), Verdict.UNFINISHED_WORK, Action.RUN),
        (replace(CUT, reason="crash"), Verdict.UNFINISHED_WORK, Action.RUN),
        (replace(CUT, reason=None), Verdict.UNFINISHED_WORK, Action.RUN),
        (replace(CUT, marked_at=NOW - WINDOW), Verdict.UNFINISHED_WORK, Action.RUN),
        (replace(CUT, tail_at=NOW - WINDOW), Verdict.UNFINISHED_WORK, Action.RUN),
        (replace(CUT, marked_at=NOW + 9e9, tail_at=NOW + 9e9), Verdict.UNFINISHED_WORK, Action.RUN),
        (replace(CUT, marked_at=None), Verdict.UNFINISHED_WORK, Action.RUN),
        (replace(CUT, tail_at=None), Verdict.UNFINISHED_WORK, Action.RUN),
        #
        (replace(CUT, link_up=False), Verdict.LINK_DOWN, Action.WAIT),
        #
        (replace(CUT, reason="moon_phase"), Verdict.FOREIGN_REASON, Action.KEEP),
        (replace(CUT, had_its_run=True), Verdict.HAD_ITS_RUN, Action.KEEP),
        (replace(CUT, fruitless=True), Verdict.FRUITLESS, Action.KEEP),
        (replace(CUT, has_origin=False), Verdict.NO_ORIGIN, Action.KEEP),
        (replace(CUT, let_in=False), Verdict.NOT_LET_IN, Action.KEEP),
        (replace(CUT, tail=Tail.WAITING), Verdict.QUESTION_OPEN, Action.KEEP),
        #
        (replace(CUT, suspended=True), Verdict.SUSPENDED, Action.CLEAR),
        (replace(CUT, marked_at=NOW - WINDOW - 1), Verdict.STALE_MARK, Action.CLEAR),
        (replace(CUT, tail_at=NOW - WINDOW - 1), Verdict.STALE_TAIL, Action.CLEAR),
        (replace(CUT, marked_at=NOW, tail_at=OLD), Verdict.STALE_TAIL, Action.CLEAR),
        (replace(CUT, marked_at=OLD, tail_at=None), Verdict.STALE_MARK, Action.CLEAR),
        (replace(CUT, tail=Tail.ANSWERED), Verdict.ANSWERED, Action.CLEAR),
        (replace(CUT, tail=Tail.ONLY_NOTE), Verdict.ONLY_A_NOTE, Action.CLEAR),
        (replace(CUT, tail=Tail.EMPTY), Verdict.EMPTY, Action.CLEAR),
    ],
)
def test_one_reason_is_enough_not_to_resume(session: Marked, verdict: Verdict, action: Action) -> None:
    found = may_resume(session, now=NOW, window=WINDOW)
    assert found is verdict
    assert found.action is action


@pytest.mark.parametrize("window", [0.0, -1.0])
def test_nothing_is_too_old_without_a_window(window: float) -> None:
    old = replace(CUT, marked_at=OLD, tail_at=OLD)
    assert may_resume(old, now=NOW, window=window) is Verdict.UNFINISHED_WORK


@pytest.mark.parametrize(
    "session",
    [
        replace(CUT, tail=Tail.ANSWERED),
        replace(CUT, marked_at=OLD),
        replace(CUT, tail_at=OLD),
        replace(CUT, suspended=True),
    ],
)
def test_a_mark_that_is_over_is_cleared_although_its_platform_is_down(session: Marked) -> None:
    down = replace(session, link_up=False, let_in=False, has_origin=False, had_its_run=True)
    assert may_resume(down, now=NOW, window=WINDOW).action is Action.CLEAR


def test_a_session_waits_for_its_platform_only_if_it_lacks_nothing_else() -> None:
    for origin, let_in, had_run, fruitless in product([True, False], repeat=4):
        session = replace(
            CUT,
            link_up=False,
            has_origin=origin,
            let_in=let_in,
            had_its_run=had_run,
            fruitless=fruitless,
        )
        waits = may_resume(session, now=NOW, window=WINDOW).action is Action.WAIT
        assert waits == (origin and let_in and not had_run and not fruitless)


@pytest.mark.parametrize("verdict", Verdict)
def test_every_verdict_has_a_reason_of_its_own(verdict: Verdict) -> None:
    assert verdict.why
    assert [other for other in Verdict if other.why == verdict.why] == [verdict]
