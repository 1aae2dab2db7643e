"""Turns during a stop: a turn that asks for a restart, a turn that ends at the moment of its cut, and
messages that come during the stop."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import trio

from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.ending.endings_table import Supervisor
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.home.markers import RESTART_PENDING
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.journal.reader import read_run
from hermes_trio.platform.contract import Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.disk import Disk
from tests.logs import capture_logs
from tests.stage import KEY, Stage, everyone

# --- a restart that a turn asks for --------------------------------------------------------------------


def asks_for_a_restart(stage: Stage, *, then_takes: float) -> list[float]:
    """Let the agent ask for a restart; return the list of the times at which it asked."""
    asked = []

    async def agent(turn: TurnContext) -> str:
        if not turn.said:
            return "It has restarted."
        await turn.requesting()
        assert stage.gateway is not None
        stage.gateway.stop(restart=True, asked_by="the agent")
        asked.append(trio.current_time())
        await trio.sleep(then_takes)
        return "I have asked for it."

    stage.opened_agent = nullcontext(agent)
    return asked


async def test_a_turn_that_asks_for_a_restart_continues_within_the_grace(stage: Stage) -> None:
    stage.config = everyone(AgentConfig(restart_drain_timeout=10))
    asked = asks_for_a_restart(stage, then_takes=3)
    async with stage.life() as gateway:
        await stage.says("restart yourself")
        await trio.sleep(60)
        assert asked == [0.0]
        assert stage.ended_at == 3
        assert gateway.control.current is not None
        assert gateway.control.current.kind == "restart"
    assert stage.platform.chat("42").last == "I have asked for it."
    assert [turn.outcome for turn in stage.turns()] == ["answered"]
    assert (stage.home / RESTART_PENDING).exists()
    async with stage.life():
        await trio.sleep(5)
        assert len(stage.turns()) == 1, "the next life does not restart again"


async def test_a_turn_that_asks_for_a_restart_without_grace_is_resumed_by_the_next_life(
    stage: Stage,
) -> None:
    asks_for_a_restart(stage, then_takes=3)
    async with stage.life():
        await stage.says("restart yourself")
        await trio.sleep(60)
        assert stage.ended_at == 0
    assert stage.entry().resume_reason == "restart_timeout"
    asks_for_a_restart(stage, then_takes=3)
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "It has restarted."
        assert [turn.outcome for turn in stage.turns()] == ["cut", "answered"]


async def test_a_chat_that_asks_for_a_restart_gets_the_answer_of_its_running_turn_first(
    stage: Stage,
) -> None:
    stage.config = everyone(AgentConfig(restart_drain_timeout=10))
    stage.supervised_by = Supervisor.OTHER
    stage.agent.on("work", Script().takes(4).says("Done."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(1)
        await stage.says("/restart")
        assert stage.platform.chat("42").texts[0].startswith("♻ Restarting"), (
            "the command is answered at once"
        )
        await trio.sleep(60)
        assert stage.ended_at == 4
    async with stage.life():
        await trio.sleep(5)
    texts = stage.platform.chat("42").texts
    assert [text.split()[0] for text in texts] == ["♻", "⚠", "Done.", "♻"]
    assert len(stage.turns()) == 1, "a command is never repeated"


# --- a deadline during the end of a turn ----------------------------------------------------------------


SLOW_ONES = ("store-writer", "journal-writer")


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("reports_late", [False, True])
@pytest.mark.parametrize("eighths", range(13))
async def test_a_deadline_during_the_end_of_a_turn_leaves_one_outcome(
    stage: Stage, eighths: int, *, reports_late: bool, streams: bool
) -> None:
    """Each commit of the end takes a quarter of a second; the deadline comes before, during and after it."""
    stage.platform = MemoryPlatform(traits=Traits(edits=streams))
    runs = []

    async def agent(turn: TurnContext) -> str:
        runs.append(turn.run_id)
        await turn.requesting()
        await trio.sleep_until(20)
        if streams and turn.said:
            await turn.say("Done.")
        return "Done."

    stage.opened_agent = nullcontext(agent)
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            disk = Disk(nursery, only=SLOW_ONES, reports_late=reports_late)
            stage.worker = disk.worker
            async with stage.life() as gateway:
                await stage.says("work")
                disk.seconds = 0.25
                await trio.sleep_until(10)
                gateway.stop(grace=10 + eighths / 8)
                await trio.sleep(60)
                assert stage.ended_at is not None
                assert stage.ended_at <= 25 + eighths / 8
        answered = one_outcome(stage, runs[0])
    assert [entry for entry in logs if entry["log_level"] == "error"] == []
    shown = [text for text in stage.platform.chat("42").texts if text.endswith("Done.")]
    assert shown == ["Done."] * answered, "an answer is shown before the gateway ends"

    stage.worker, stage.opened_agent = inline_worker, nullcontext(agent)
    for _ in range(2):
        async with stage.life():
            await trio.sleep(10)
    assert len(runs) == (1 if answered else 2)
    assert [text for text in stage.platform.chat("42").texts if text.endswith("Done.")] == ["Done."]
    assert one_outcome(stage, runs[-1])


ANSWERED = "done", None, "completed"
CUT = "of_turn", "resume_pending", "cut"
"""State of the message, mark and end in the journal."""


def one_outcome(stage: Stage, run_id: str) -> bool:
    """Return whether this turn was answered; check that all stored data agrees on that."""
    turn = next(turn for turn in stage.turns() if turn.run_id == run_id)
    reading = read_run(stage.home / "journal", turn.session_id, run_id)
    assert reading.complete
    assert [record.terminal for record in reading.records].count(True) == 1, "one end"
    answered = turn.outcome == "answered"
    inbox_is, mark, journal_says = (
        ("done", None, "completed") if answered else ("of_turn", "resume_pending", "cut")
    )
    entry = stage.entry()
    assert (entry.mark.kind if entry.mark else None) == mark
    assert reading.terminal is not None
    assert reading.terminal.terminal_state == journal_says
    with stage.looking() as db:
        assert {state for (state,) in db.execute("SELECT state FROM inbox")} == {inbox_is}
        owed = db.execute(
            "SELECT body FROM outbox WHERE NOT streamed AND body NOT LIKE '%only_closes%'"
        ).fetchall()
        assert len(owed) == answered, "the answer, if there is one"
        assert db.execute("SELECT count(*) FROM messages WHERE finish = 'stop'").fetchone() == (
            int(answered),
        )
    return answered


# --- messages during a stop ----------------------------------------------------------------------------


async def test_every_chat_is_told_once_and_every_message_is_answered_once_by_the_next_life(
    stage: Stage,
) -> None:
    """Messages come in a chat with a turn, in one with an idle session, and in a new one."""
    stage.agent.on("work", Script().takes(8).says("Done."))
    async with stage.life() as gateway:
        await stage.says("hello", chat="idle")
        await stage.says("work", chat="busy")
        gateway.stop(grace=10)
        for text in ("one", "two"):
            for chat in ("busy", "idle", "new"):
                await stage.says(f"{text} in {chat}", chat=chat)
            await trio.sleep(3)
        assert [said for said, _ in stage.agent.began] == ["hello", "work"], "no message begins a turn"
        await stage.says("one in another", chat="another")
        await trio.sleep(60)
        assert stage.ended_at == 8
    chats = ("busy", "idle", "new", "another")
    for chat in chats:
        assert sum("comes when it is back" in text for text in stage.platform.chat(chat).texts) == 1
    for _ in range(2):
        async with stage.life():
            await trio.sleep(30)
    for chat in chats:
        said = [f"{text} in {chat}" for text in (("one",) if chat == "another" else ("one", "two"))]
        answers = [text for text in stage.platform.chat(chat).texts if text.startswith("You said: ")]
        assert answers[-len(said) :] == [f"You said: {text}" for text in said]
        assert all(answers.count(f"You said: {text}") == 1 for text in said)
        assert stage.pending(chat) == []


async def test_a_message_that_was_not_stored_before_the_stop_comes_again(stage: Stage) -> None:
    """Its commit hangs until the end, so the platform never gets its acknowledgement."""
    async with trio.open_nursery() as nursery:
        disk = Disk(nursery, only=("store-writer",))
        stage.worker = disk.worker
        async with stage.life() as gateway:
            await stage.says("hello")
            await trio.sleep(5)
            disk.seconds = 3600
            stage.platform.post("and now")
            await trio.sleep(1)
            gateway.stop(grace=0)
            await trio.sleep(20)
            assert stage.ended_at is not None
            nursery.cancel_scope.cancel()
    stage.worker = inline_worker
    async with stage.life():
        await trio.sleep(10)
        assert stage.platform.chat("42").texts == ["You said: hello", "You said: and now"]


async def test_a_wait_for_the_end_of_a_turn_is_over_when_the_turn_is_cut(stage: Stage) -> None:
    """A request that deletes a session waits so; it must not hang until its door closes."""

    async def agent(turn: TurnContext) -> None:
        await turn.requesting()
        await trio.sleep_forever()

    stage.opened_agent = nullcontext(agent)
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(1)
        assert len(gateway.work.running) == 1
        with trio.fail_after(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(gateway.work.turn_ended, KEY.format(42))
                await trio.sleep(1)
                gateway.stop(grace=0)
        assert [turn.outcome for turn in stage.turns()] == ["cut"]
