"""Reading a session heals it: with the real database and real journals."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from hermes_trio.base.events import (
    Event,
    MessageDelta,
    RunCancelled,
    RunCompleted,
    RunFailed,
    ToolCompleted,
    ToolStarted,
)
from hermes_trio.base.messages import SessionSource
from hermes_trio.journal.session_reader import SessionReader, SessionSnapshot
from hermes_trio.journal.writer import open_journals
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables import sessions, transcript
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Outcome, Recovery
from tests.disk import Disk
from tests.journal.seams import ASKED, CUT, append_events, begin_turn, cut_turn, shown_transcript, store_rows

if TYPE_CHECKING:
    from tests.conftest import Calendar, Home, OpenHome


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ([RunCompleted("Done.")], [ASKED, "Done."]),
        ([RunCancelled()], [ASKED, "Done.", "(Cancelled before)"]),
        ([RunFailed("It broke.")], [ASKED, "Done.", "(This turn)"]),
        ([CUT], [ASKED, "Done.", "(Response interrupted)"]),
        ([], [ASKED, "Done.", "(Response interrupted)"]),
    ],
)
async def test_the_first_turn_of_a_session_is_shown_by_its_recovery(
    home: Home, somebody: SessionSource, last: list[Event], expected: list[str]
) -> None:
    """Regression: a finished first turn got its answer and an "interrupted" marker after it."""
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("Done."), *last)
    await cut_turn(home, turn)
    assert shown_transcript(await home.read(turn.session_id)) == expected
    assert shown_transcript(await home.read(turn.session_id)) == expected


async def test_rows_without_a_turn_come_first(home: Home, somebody: SessionSource) -> None:
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("New."))
    await cut_turn(home, turn)
    await store_rows(home, turn, TranscriptRow("user", "Old?", 0.0), TranscriptRow("assistant", "Old.", 0.0))
    session = await home.read(turn.session_id)
    assert shown_transcript(session) == ["Old?", "Old.", ASKED, "New.", "(Response interrupted)"]


async def test_reading_a_healed_session_again_changes_no_row(
    home: Home, somebody: SessionSource, open_home: OpenHome
) -> None:
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("Half."), ToolStarted("t", "1"), MessageDelta("More."))
    await cut_turn(home, turn)
    first = await home.read(turn.session_id)
    assert [row.id for row in first.rows] == [1, 2, 3]
    for _ in range(3):
        assert (await home.read(turn.session_id)).rows == first.rows, "even the row ids are the same"


async def test_two_cut_turns_are_healed_independently(home: Home, somebody: SessionSource) -> None:
    """Regression: the older one waited for ever for the newer one, and for any later answer."""
    older = await begin_turn(home, somebody)
    await cut_turn(home, older)
    newer = await home.turn(older.session_id, "And now?")
    await append_events(home, newer, MessageDelta("Newer."))
    await cut_turn(home, newer)
    assert shown_transcript(await home.read(older.session_id)) == [
        ASKED, "(Response interrupted)", "And now?", "Newer.", "(Response interrupted)",
    ]  # fmt: skip
    answered = await home.turn(older.session_id, "Thanks.")
    await store_rows(
        home, answered, TranscriptRow("assistant", "You are welcome.", 0.0, answered.turn_id, place=1)
    )
    await home.database.write(settle.settle, answered.turn_id, Settlement(Outcome.ANSWERED), 0.0)

    await append_events(home, older, MessageDelta("Older."))
    session = await home.read(older.session_id)
    assert shown_transcript(session) == [
        ASKED, "Older.", "(Response interrupted)", "And now?", "Newer.", "(Response interrupted)",
        "Thanks.", "You are welcome.",
    ]  # fmt: skip
    assert [turn.recovery for turn in session.turns] == [Recovery.RECOVERED, Recovery.RECOVERED, None]


async def test_a_recovered_card_stays_with_its_answer_after_later_messages(
    home: Home, somebody: SessionSource
) -> None:
    """Regression: cards were linked by counting rows, and one appeared at the person's next message."""
    turn = await begin_turn(home, somebody)
    await cut_turn(home, turn)
    await home.read(turn.session_id)
    later = await home.turn(turn.session_id, "Hello?")
    await append_events(
        home, turn, MessageDelta("Looking."), ToolStarted("terminal", "1"), MessageDelta("Found.")
    )
    session = await home.read(turn.session_id)
    assert shown_transcript(session) == [ASKED, "Looking.", "Found.", "(Response interrupted)", "Hello?"]
    assert [(row.content, row.turn_id) for row in session.messages if row.cards] == [
        ("Looking.", turn.turn_id)
    ]
    assert later.turn_id != turn.turn_id


async def test_output_written_after_a_recovery_is_found_by_the_next_reader(
    home: Home, somebody: SessionSource
) -> None:
    """Regression: it was lost, because a recovered run was not read again."""
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("One "))
    await cut_turn(home, turn)
    assert shown_transcript(await home.read(turn.session_id))[1] == "One"
    await append_events(home, turn, MessageDelta("two "), ToolStarted("t", "1"))
    await append_events(home, turn, ToolCompleted("t", "1"), MessageDelta("Three."))
    session = await home.read(turn.session_id)
    assert shown_transcript(session) == [ASKED, "One two", "Three.", "(Response interrupted)"]
    await append_events(home, turn, RunCompleted("Three."))
    assert shown_transcript(await home.read(turn.session_id)) == [ASKED, "One two", "Three."]


async def test_only_output_missing_from_the_transcript_is_recovered(
    home: Home, somebody: SessionSource
) -> None:
    """Also if the same words occur again, and after a tool call whose rows are stored."""
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("Yes."), ToolStarted("t", "1"), ToolCompleted("t", "1"),
                  MessageDelta("Yes."))  # fmt: skip
    call = (transcript.ToolCall("1", "t", "{}"),)
    await store_rows(
        home,
        turn,
        TranscriptRow("assistant", "Yes.", 0.0, turn.turn_id, place=1, tool_calls=call, finish="tool_calls"),
        TranscriptRow("tool", "ok", 0.0, turn.turn_id, place=3, tool_call_id="1", tool_name="t", status="ok"),
    )
    await cut_turn(home, turn)
    session = await home.read(turn.session_id)
    assert shown_transcript(session) == [ASKED, "Yes.", "ok", "Yes.", "(Response interrupted)"]
    assert [row.recovered for row in session.rows] == [False, False, False, True]


async def test_healing_does_not_reorder_the_session_list(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("Half."))
    await cut_turn(home, turn)
    before = await home.database.read(sessions.by_id, turn.session_id)
    calendar.sleep(hours=2)
    healed = await home.read(turn.session_id)
    assert [row.recovered for row in healed.rows] == [False, True]
    assert healed.entry == before


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data.replace(b"One", b"\0ne"),
        lambda data: b"\0" * len(data),
        lambda data: data.replace(b"Three.", b"\0hree.") + b"junk\n",
        lambda data: b"\0" * (2 * len(data)),
    ],
    ids=["cut in half", "emptied", "one byte", "zeros", "one byte, and longer", "zeros, and longer"],
)
async def test_recovered_rows_survive_damage_of_the_journal(
    home: Home, somebody: SessionSource, root: Path, damage: Callable[[bytes], bytes]
) -> None:
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("One "), MessageDelta("two."), ToolStarted("t", "1"),
                  MessageDelta("Three."), RunCompleted())  # fmt: skip
    await cut_turn(home, turn)
    before = await home.read(turn.session_id)
    file = root / turn.session_id / f"{turn.run_id}.jsonl"
    os.truncate(file, 0) if (content := damage(file.read_bytes())) == b"" else file.write_bytes(content)
    for _ in range(3):
        assert (await home.read(turn.session_id)).messages == before.messages
    shutil.rmtree(root)
    assert (await home.read(turn.session_id)).messages == before.messages


async def test_a_slower_reader_with_an_older_result_changes_nothing(
    home: Home, somebody: SessionSource, root: Path, disk: Disk
) -> None:
    """Another process has read the journal earlier and stores its result later."""
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("One "))
    await cut_turn(home, turn)
    async with (
        open_journals(root, home.world, worker=disk.worker) as journals,
        trio.open_nursery() as nursery,
    ):
        slow = SessionReader(home.database, journals, home.world)
        answers: list[SessionSnapshot | None] = []

        async def look() -> None:
            answers.append(await slow.get_session(turn.session_id))

        disk.answers_late = True
        nursery.start_soon(look)
        await trio.testing.wait_all_tasks_blocked()
        disk.does_one()  # the size; now it reads the content
        await trio.testing.wait_all_tasks_blocked()

        await append_events(home, turn, MessageDelta("two."))
        healed = await home.read(turn.session_id)
        assert shown_transcript(healed)[1] == "One two."
        disk.recovers()
        await trio.testing.wait_all_tasks_blocked()
    [answer] = answers
    assert answer is not None
    assert "One two." in shown_transcript(await home.read(turn.session_id))
    assert (await home.read(turn.session_id)).rows == healed.rows


async def test_concurrent_readers_recover_one_copy(home: Home, somebody: SessionSource) -> None:
    turn = await begin_turn(home, somebody)
    await append_events(home, turn, MessageDelta("One."))
    await cut_turn(home, turn)
    others = [SessionReader(home.database, home.journals, home.world) for _ in range(5)]
    async with trio.open_nursery() as nursery:
        for reader in [home.reader, *others, home.reader]:
            nursery.start_soon(reader.get_session, turn.session_id)
    assert shown_transcript(await home.read(turn.session_id)) == [ASKED, "One.", "(Response interrupted)"]


async def test_a_clock_set_back_restarts_the_day_of_waiting(
    home: Home, somebody: SessionSource, calendar: Calendar
) -> None:
    turn = await begin_turn(home, somebody)
    await cut_turn(home, turn)
    calendar.sleep(days=-400)
    assert (await home.read(turn.session_id)).turns[0].recovery_since == calendar.time
    calendar.sleep(days=1)
    assert (await home.read(turn.session_id)).turns[0].recovery is Recovery.ARRIVING
    calendar.sleep(seconds=1)
    assert (await home.read(turn.session_id)).turns[0].recovery is Recovery.GIVEN_UP
