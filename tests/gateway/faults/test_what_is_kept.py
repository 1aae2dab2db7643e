"""Data of an ended turn: its messages and its shown text are kept, its journal has the end, and interrupted
text is never taken for an answer."""

from __future__ import annotations

import pytest
import trio

from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.journal.reader import read_run
from hermes_trio.journal.session_reader import SessionSnapshot
from hermes_trio.state.tables.turns import Recovery
from hermes_trio.testing import Script
from tests.stage import Stage

SHOWN = "I begin."


async def read(gateway: RunningGateway, stage: Stage) -> SessionSnapshot:
    session = await gateway.home.reader.get_session(stage.entry().session_id)
    assert session is not None
    return session


@pytest.mark.parametrize(
    ("how", "outcome", "state"),
    [
        ("answer", "answered", "completed"),
        ("exception", "failed", "failed"),
        ("stop", "stopped", "cancelled"),
        ("new message", "superseded", "cancelled"),
        ("new session", "reset", "cancelled"),
    ],
)
async def test_every_end_is_journaled_and_the_message_and_shown_text_are_kept(
    stage: Stage, how: str, outcome: str, state: str
) -> None:
    script = Script().says(SHOWN)
    script = {"answer": script, "exception": script.raises(ValueError("no"))}.get(how, script.hangs())
    stage.agent.on("work", script)
    async with stage.life() as gateway:
        await stage.says("work")
        session_id = stage.entry().session_id
        await trio.sleep(2)
        if how == "stop":
            await stage.says("/stop")
        elif how == "new message":
            await stage.says("something else")
        elif how == "new session":
            await stage.says("/new")
        await trio.sleep(2)
        session = await gateway.home.reader.get_session(session_id)
        assert session is not None
        turn = session.turns[0]
        assert turn.outcome == outcome
        told = [(row.role, row.content) for row in session.rows if row.turn_id == turn.turn_id]
        assert told == [("user", "work"), ("assistant", SHOWN)]
    reading = read_run(stage.home / "journal", session_id, turn.run_id)
    assert reading.complete
    assert reading.terminal is reading.records[-1]
    assert reading.terminal.terminal_state == state
    assert max(len(str(record.payload)) for record in reading.records) < 200, (
        "a journal holds events, not copies of sessions"
    )


async def test_the_shown_text_of_a_cut_turn_is_recovered_with_a_marker_and_is_no_answer(
    stage: Stage,
) -> None:
    stage.agent.on("work", Script().says(SHOWN).calls("terminal", seconds=100, preview="make"))
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(2)
        gateway.stop(grace=0)
    stage.agent.on("work", Script().hangs())
    async with stage.life() as gateway:
        await trio.sleep(2)
        session = await read(gateway, stage)
        asked, shown, marker, *_ = session.messages
        assert (asked.content, shown.content, shown.recovered) == ("work", SHOWN, True)
        [card] = shown.cards
        assert (card.name, card.done) == ("terminal", False), "the effect of the call is unknown"
        assert marker.marker is Recovery.RECOVERED
        assert "shut down" in marker.content
