"""However a turn ends, what the person said and what they were shown is kept, its journal says how it
ended, and nothing that merely stops is taken for an answer."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from hermes_trio.gateway.facade import Gateway
from hermes_trio.journal.reader import read_run
from hermes_trio.journal.session_reader import SessionSnapshot
from hermes_trio.state.tables.turns import Recovery
from hermes_trio.testing import Script
from tests.stage import Stage

SHOWN = "I begin."


async def read(gateway: Gateway, stage: Stage) -> SessionSnapshot:
    session = await gateway.home.reader.get_session(stage.entry().session_id)
    assert session is not None
    return session


@pytest.mark.parametrize(
    ("how", "outcome", "state"),
    [
        ("it answers", "answered", "completed"),
        ("it raises", "failed", "failed"),
        ("a person stops it", "stopped", "cancelled"),
        ("another message takes its place", "superseded", "cancelled"),
        ("a new session is begun", "reset", "cancelled"),
    ],
)
async def test_every_end_is_journaled_and_keeps_what_was_said_and_shown(
    stage: Stage, how: str, outcome: str, state: str
) -> None:
    script = Script().says(SHOWN)
    script = {"it answers": script, "it raises": script.raises(ValueError("no"))}.get(how, script.hangs())
    stage.agent.on("work", script)
    async with stage.life() as gateway:
        await stage.says("work")
        session_id = stage.entry().session_id
        await trio.sleep(2)
        if how == "a person stops it":
            await stage.says("/stop")
        elif how == "another message takes its place":
            await stage.says("something else")
        elif how == "a new session is begun":
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
    assert max(len(str(record.payload)) for record in reading.records) < 200, "events, not copies of sessions"


async def test_what_a_cut_turn_had_shown_is_recovered_with_a_marker_and_no_answer_is_invented(
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
        assert (card.name, card.done) == ("terminal", False), "whether it had an effect is unknown"
        assert marker.marker is Recovery.RECOVERED
        assert "shut down" in marker.content
