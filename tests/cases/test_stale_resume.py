"""Cases of work that must not be resumed: answered work, old work, and things that outlived their turn.

The original tells a late result from a current one by a generation number. Here a turn's things end with
the turn, so the cases about numbers assert what those protect.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import trio

from hermes_trio.gateway.outbound import texts as words
from hermes_trio.gateway.turn.system_notes import Situation, with_note
from hermes_trio.gateway.turn.transcript_tail import NOTE_OPENING, Tail, judge_tail
from hermes_trio.state.tables import sessions, transcript
from hermes_trio.state.tables.session_entry import Mark
from hermes_trio.state.tables.transcript import ToolCall, TranscriptRow
from hermes_trio.testing import Script
from tests.host.children.kinds import alive, soon, token
from tests.stage import KEY, Stage, everyone
from tests.tools.bench import Bench

posix = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")

ASKED = TranscriptRow("user", "Deploy it.", 0)
ANSWERED = TranscriptRow("assistant", "Done.", 0, finish="stop")
CALLED = TranscriptRow(
    "assistant", "", 0, tool_calls=(ToolCall("c1", "terminal", "{}"),), finish="tool_calls"
)


def test_stale_resume_pending_ignored_when_tail_is_completed_assistant() -> None:
    tail = judge_tail([ASKED, ANSWERED])
    said = with_note("Thanks!", Situation(tail, fresh=True, marked=True, mark_reason="restart_timeout"))
    assert said == "Thanks!"


def test_assistant_tool_call_tail_is_not_considered_completed() -> None:
    assert judge_tail([ASKED, CALLED]) is Tail.UNFINISHED


def left_behind(stage: Stage, *rows: TranscriptRow, marked_ago: float = 0.0, at: float = 0.0) -> None:
    """Leave a session with these rows and a resume mark, like a former life."""
    with stage.looking() as db:
        session_id = stage.entry().session_id
        db.execute("DELETE FROM messages WHERE session_id = ?", (session_id,))
        (turn_id,) = db.execute("SELECT max(turn_id) FROM turns").fetchone()
        for place, row in enumerate(rows):
            transcript.append(
                db,
                session_id,
                TranscriptRow(
                    row.role, row.content, stage.world.time() - at, turn_id, place=place,
                    tool_calls=row.tool_calls, finish=row.finish, tool_call_id=row.tool_call_id,
                    tool_name=row.tool_name, status=row.status,
                ),
            )  # fmt: skip
        db.execute("UPDATE turns SET outcome = 'cut', reason = 'restart_timeout', recovery = NULL")
        mark = Mark("resume_pending", "restart_timeout", stage.world.time() - marked_ago)
        sessions.set_mark(db, session_id, mark)


async def used_once(stage: Stage) -> None:
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(10)


async def test_startup_auto_resume_uses_transcript_timestamp_over_fresh_marker(stage: Stage) -> None:
    await used_once(stage)
    left_behind(stage, ASKED, CALLED, at=6 * 7 * 86400)
    async with stage.life():
        await trio.sleep(10)
        assert len(stage.agent.began) == 1, "six weeks old: only the first hello was run"
        assert stage.entry().mark is None


async def test_startup_auto_resume_clears_stale_marker_when_tail_already_answered(stage: Stage) -> None:
    await used_once(stage)
    left_behind(stage, ASKED, ANSWERED)
    async with stage.life():
        await trio.sleep(10)
        assert len(stage.agent.began) == 1
        assert stage.entry().mark is None


async def test_drain_timeout_clears_pre_mark_for_session_that_finished_during_drain(stage: Stage) -> None:
    stage.agent.on("quick", Script().takes(0.05).says("Done."))
    stage.agent.on("slow", Script().says("I begin.").hangs())
    async with stage.life() as gateway:
        await stage.says("quick", "1")
        await stage.says("slow", "2")
        gateway.stop(grace=0.3)
    assert stage.entry("1").mark is None
    assert stage.entry("2").resume_pending is True


async def test_recovery_note_tail_is_cleared_and_not_run(stage: Stage) -> None:
    await used_once(stage)
    left_behind(stage, TranscriptRow("user", f"{NOTE_OPENING} The previous turn was interrupted.]", 0))
    async with stage.life():
        await trio.sleep(10)
        assert len(stage.agent.began) == 1
        assert stage.entry().mark is None


async def test_clarify_tail_waits_for_the_person(stage: Stage) -> None:
    await used_once(stage)
    asked = TranscriptRow("assistant", "", 0, tool_calls=(ToolCall("q1", "clarify", "{}"),))
    left_behind(
        stage, ASKED, asked, TranscriptRow("tool", "no answer", 0, tool_call_id="q1", status="unanswered")
    )
    async with stage.life():
        await trio.sleep(10)
        assert len(stage.agent.began) == 1, "the question waits for the person"
        await stage.says("What is the weather?")
        await trio.sleep(10)
        assert stage.agent.prompts[-1] == "What is the weather?", "an unrelated message carries no note"


async def test_stored_transcript_times_decide_freshness(stage: Stage) -> None:
    await used_once(stage)
    left_behind(stage, ASKED, CALLED, marked_ago=0, at=3601)
    async with stage.life():
        await trio.sleep(10)
        assert len(stage.agent.began) == 1, "more than an hour ago, whatever the mark says"
    left_behind(stage, ASKED, CALLED, at=3600)
    async with stage.life():
        await trio.sleep(10)
        assert stage.agent.began[-1][0] == "Deploy it."


async def test_no_notice_from_an_outer_turn_after_a_follow_up(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    stage.agent.on("long", Script().takes(170).says("First."))
    stage.agent.on("short", Script().takes(100).says("Second."))
    async with stage.life():
        await stage.says("long")
        await stage.says("short")
        await trio.sleep(400)
        texts = stage.platform.chat("42").texts
        assert texts == [words.queued(), "First.", "Second."], "no turn ran for 180 s"


async def test_progress_helpers_end_with_their_turn(stage: Stage) -> None:
    stage.agent.on("work", Script().takes(200).says("Done."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(1000)
        chat = stage.platform.chat("42")
        assert max(chat.typing_at) <= 200
        assert [m.edited_at for m in chat.messages if "Worked" in m.text] == [200.0]


async def test_queued_messages_are_consumed_in_order_none_lost(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    stage.agent.on("long", Script().takes(60).says("First."))
    async with stage.life():
        await stage.says("long")
        for number in range(1, 6):
            await trio.sleep(2)
            await stage.says(f"message {number}")
        await trio.sleep(100)
        assert stage.platform.chat("42").texts == [
            words.queued(),
            "First.",
            *(f"You said: message {number}" for number in range(1, 6)),
        ]


# Matches of watches and ends of background processes, with real processes on the real clock.


@pytest.fixture
def mine() -> Iterator[str]:
    """Token in the command lines of this test; afterwards no process with it is alive."""
    yield (number := token())
    soon(lambda: not alive(number))


def waits_for_a_line(mine: str) -> dict[str, object]:
    """Return a background command that prints READY for each line of input."""
    command = f"while read x; do echo READY $x; done; exec sleep {mine}"
    return {"command": command, "background": True, "watch_patterns": ["READY"]}


async def say(bench: Bench, line: str, *, of: str = "42") -> None:
    """Write a line to the youngest process of a chat's session, and wait for its output."""
    gateway = bench.gateway
    assert gateway is not None
    entry = await gateway.home.store.get_session_entry(KEY.format(of))
    assert entry is not None
    process = gateway.work.background.of_session(entry.session_id)[-1].process
    assert process.stdin is not None
    await process.stdin.send_all(f"{line}\n".encode())
    await bench.until(lambda: f"READY {line}".encode() in process.output.tail)


@posix
async def test_match_carries_run_generation(real_stage: Stage, mine: str) -> None:
    """Our matches carry no number: a match goes to the turn that asked for it and to no other."""
    bench = Bench(real_stage)
    async with bench.life() as gateway:
        await bench.begin({"sleep": 300}, chat="43")
        await bench.until(lambda: gateway.work.running)
        await bench.begin(waits_for_a_line(mine), {"until": "READY"})
        await bench.until(lambda: alive_in(bench))
        await say(bench, "one")
        await bench.until(lambda: (real_stage.platform.chat("42").last or "").startswith("Made"))
        (match,) = bench.within
        assert match.startswith("Background process proc_")
        where = bench.rows("SELECT session_key FROM messages JOIN sessions USING (session_id) "
                           "WHERE content LIKE 'Background process%'")  # fmt: skip
        assert where == [(KEY.format("42"),)]


@posix
async def test_same_turn_watch_match_does_not_reenter_session(real_stage: Stage, mine: str) -> None:
    bench = Bench(real_stage)
    async with bench.life():
        await bench.begin(waits_for_a_line(mine), {"sleep": 1.5})
        await bench.until(lambda: alive_in(bench))
        await say(bench, "one")
        await bench.until(lambda: (real_stage.platform.chat("42").last or "").startswith("Made"))
        await trio.sleep(0.5)
        await bench.quiet()
        assert len(bench.within) == 1
        assert bench.heard == []
        assert len(bench.prompts) == 1


@posix
async def test_set_session_env_sets_contextvars(real_stage: Stage, mine: str) -> None:
    """The original tells a tool its run by a variable. Here a tool gets its workplace: two sessions that work
    at the same time never see each other's."""
    bench = Bench(real_stage)
    async with bench.life():
        for chat in ("42", "43"):
            cd: dict[str, object] = {"command": f"cd /{'usr' if chat == '42' else 'dev'}"}
            run = {"command": f"echo {chat}; exec sleep {mine}", "background": True}
            await bench.begin(cd, {"sleep": 0.5}, run, {"action": "list"}, chat=chat)
        await bench.until(lambda: len(bench.results) == 6)
        await bench.quiet()
        lists = [result.content for result in bench.results if "running, pid" in result.content]
        assert sorted("echo 42" in listed for listed in lists) == [False, True]
        assert all(len(listed.splitlines()) == 1 for listed in lists)
        for chat, cwd in (("42", "/usr"), ("43", "/dev")):
            (result,) = await bench.do({"command": "pwd"}, chat=chat)
            assert result.content.startswith(f"{cwd}\n")


@posix
async def test_stale_watch_match_generation_is_dropped(real_stage: Stage, mine: str) -> None:
    bench = Bench(real_stage)
    async with bench.life():
        await bench.do(waits_for_a_line(mine))
        await bench.do({"action": "list"})  # the next turn has begun; the watch belonged to the former one
        await say(bench, "late")
        await trio.sleep(0.5)
        await bench.quiet()
        assert bench.heard == []
        await bench.do({"sleep": 0.1})
        assert bench.within == [], "the match is not kept for later"


@posix
@pytest.mark.parametrize("has_ended", [False, True])
async def test_kill_consumes_the_completion(real_stage: Stage, mine: str, has_ended: bool) -> None:
    bench = Bench(real_stage)
    command = "true" if has_ended else f"exec sleep {mine}"
    async with bench.life():
        await bench.do(
            {"command": command, "background": True, "notify_on_complete": True},
            {"sleep": 0.5},
            {"action": "kill", "process_id": "last"},
        )
        await trio.sleep(0.5)
        await bench.quiet()
        assert bench.heard == []
    async with bench.life():
        await bench.do({"action": "list"})
        assert "[System note:" not in bench.prompts[-1], "the next life does not report it"


@posix
async def test_killed_notify_process_stays_silent(real_stage: Stage, mine: str) -> None:
    bench = Bench(real_stage)
    async with bench.life():
        await bench.do({"command": f"exec sleep {mine}", "background": True, "notify_on_complete": True})
        await bench.do({"action": "kill", "process_id": "last"})
        await trio.sleep(0.5)
        await bench.quiet()
        assert bench.heard == []
        texts = real_stage.platform.chat("42").texts
        assert texts == ["Made 1 calls.", "Made 2 calls."], "the person is not told either"


@posix
async def test_match_of_another_session_still_arrives(real_stage: Stage, mine: str) -> None:
    bench = Bench(real_stage)
    async with bench.life():
        await bench.do(waits_for_a_line(mine), chat="43")
        await bench.do(waits_for_a_line(mine))
        await bench.do({"action": "kill", "process_id": "last"})  # a new turn here ends the watch here
        await say(bench, "one", of="43")
        await bench.until(lambda: bench.heard)
        await bench.quiet()
        (heard,) = bench.heard
        assert heard.endswith("READY one")
        chat = real_stage.platform.chat("43")  # its answer is sent after the end of the turn
        await bench.until(lambda: (chat.last or "").startswith("Heard: Background process"))


def alive_in(bench: Bench) -> bool:
    """Return whether a background process runs."""
    return bool(bench.rows("SELECT 1 FROM processes WHERE background AND ended_at IS NULL"))
