"""A chat in which a turn runs: what becomes of the next message, and of the one behind it."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import msgspec
import outcome
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hermes_trio.base.messages import Attachment
from hermes_trio.config.schema import AgentConfig, TurnLimits
from hermes_trio.gateway.outbound import texts as words
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.state.tables import inbox, transcript
from hermes_trio.testing import Script
from tests.stage import Busy, Stage, everyone


def outcomes(stage: Stage, chat: str = "42") -> list[str | None]:
    return [turn.outcome for turn in stage.turns(chat)]


def rows(stage: Stage, chat: str = "42") -> list[tuple[str, str]]:
    """The transcript of a chat: who, and what."""
    with closing(sqlite3.connect(stage.home / "gateway.db")) as db:
        return [(row.role, row.content) for row in transcript.load(db, stage.entry(chat).session_id)]


def busy(stage: Stage, mode: Busy, **agent: Any) -> None:
    stage.config = everyone(AgentConfig(**agent), busy=mode)


def limited(stage: Stage, most: int, mode: Busy = "queue") -> None:
    stage.config = msgspec.structs.replace(everyone(busy=mode), gateway=TurnLimits(max_running_turns=most))


def agent_is(stage: Stage, agent: Callable[[TurnContext], Awaitable[str]]) -> None:
    stage.opened_agent = nullcontext(agent)


# --- the three modes -----------------------------------------------------------------------------------


async def test_interrupt_cuts_the_turn_and_the_last_message_is_answered(
    stage: Stage, autojump_clock: MockClock
) -> None:
    busy(stage, "interrupt")
    for said in ("one", "two"):
        stage.agent.on(said, Script().says(f"On {said}.").hangs())
    async with stage.life():
        await stage.says("one", message_id="m1")
        await trio.sleep(10)
        await stage.says("two", message_id="m2")
        await trio.sleep(10)
        await stage.says("three", message_id="m3")
        await trio.sleep(5)
        assert stage.agent.left == [
            ("one", "cancelled", 10.0),
            ("two", "cancelled", 20.0),
            ("three", "answered", 20.0),
        ]
        assert outcomes(stage) == ["superseded", "superseded", "answered"]
        assert stage.pending() == []
        chat = stage.platform.chat("42")
        assert [(m.text, m.reply_to) for m in chat.messages] == [
            ("On one.\n\n(interrupted)", "m1"),
            (words.interrupting(), "m2"),  # and of the third nothing is said: that was ten seconds ago
            ("On two.\n\n(interrupted)", "m2"),
            ("You said: three", "m3"),
        ]
        assert rows(stage) == [
            ("user", "one"),
            ("assistant", "On one."),
            ("user", "two"),
            ("assistant", "On two."),
            ("user", "three"),
            ("assistant", "You said: three"),
        ]
    async with stage.life():
        await trio.sleep(5)
        assert len(stage.turns()) == 3, "what a message took the place of is not taken up again"


async def test_queue_answers_each_in_its_turn_and_says_so_once_in_a_while(
    stage: Stage, autojump_clock: MockClock
) -> None:
    busy(stage, "queue")
    stage.agent.on("one", Script().takes(60).says("First."))
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.says("two")
        await trio.sleep(29.9)
        await stage.says("three")
        await trio.sleep(0.1)
        await stage.says("four")
        assert stage.platform.chat("42").texts == [words.queued()] * 2, "at most one in thirty seconds"
        assert stage.pending() == ["two", "three", "four"]
        await trio.sleep(60)
        assert stage.platform.chat("42").texts[2:] == ["First.", "You said: two", "You said: three four"]
        assert outcomes(stage) == ["answered"] * 3
        assert stage.pending() == []


def steering(stage: Stage, *, takes: float, looks: bool = True) -> list[list[str]]:
    """Let the agent work for so long and then, if it `looks`, take what was said meanwhile."""
    taken: list[list[str]] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        await turn.say("Working. ")
        await trio.sleep(takes)
        if looks:
            taken.append(await turn.steered())
        return "Done: " + ", ".join([*(event.text for event in turn.said), *(taken[-1] if taken else [])])

    agent_is(stage, agent)
    return taken


async def test_steer_goes_into_the_turn_that_runs_and_is_of_it(
    stage: Stage, autojump_clock: MockClock
) -> None:
    busy(stage, "steer")
    taken = steering(stage, takes=20)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.says("two")
        await trio.sleep(5)
        await stage.says("three")
        assert stage.pending() == ["two", "three"], "until it is taken it waits"
        await trio.sleep(30)
        assert taken == [["two", "three"]]
        assert outcomes(stage) == ["answered"]
        assert stage.pending() == []
        assert rows(stage) == [
            ("user", "one"),
            ("user", "two"),
            ("user", "three"),
            ("assistant", "Done: one, two, three"),
        ]
        assert stage.platform.chat("42").texts == ["Done: one, two, three", words.steered()]
        with closing(sqlite3.connect(stage.home / "gateway.db")) as db:
            held = db.execute("SELECT state, turn_id FROM inbox").fetchall()
        assert held == [("done", stage.turns()[0].turn_id)] * 3


async def test_what_was_not_taken_begins_the_next_turn(stage: Stage, autojump_clock: MockClock) -> None:
    busy(stage, "steer")
    steering(stage, takes=20, looks=False)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.says("two")
        await trio.sleep(60)
        assert outcomes(stage) == ["answered", "answered"]
        assert [text for role, text in rows(stage) if role == "user"] == ["one", "two"]
        assert stage.platform.chat("42").last == "Done: two"


@pytest.mark.parametrize("taken", [False, True])
async def test_a_cut_between_steering_and_taking_loses_nothing(
    stage: Stage, autojump_clock: MockClock, *, taken: bool
) -> None:
    busy(stage, "steer")
    prompts = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        prompts.append([event.text for event in turn.said] or [row.content for row in turn.history])
        await trio.sleep(20)
        if taken and turn.said and turn.said[0].text == "one":
            assert await turn.steered() == ["two"]
            await trio.sleep_forever()
        return "Done."

    agent_is(stage, agent)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.says("two")
        await trio.sleep(20 if taken else 5)
    async with stage.life():
        await trio.sleep(100)
        users = [text for role, text in rows(stage) if role == "user"]
        assert users == ["one", "two"], "neither is lost, and neither is there twice"
        if taken:
            assert outcomes(stage) == ["cut", "answered"]
            assert prompts[1] == ["one", "two"], "the turn that was taken up knows both"
        else:
            assert outcomes(stage) == ["cut", "answered", "answered"]
            assert prompts[2] == ["two"]
        assert stage.pending() == []


async def test_who_steers_a_picture_is_not_left_without_it(stage: Stage, autojump_clock: MockClock) -> None:
    """What goes behind a tool result is text."""
    busy(stage, "steer")
    taken = steering(stage, takes=20)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await photo(stage, "look")
        await trio.sleep(60)
        assert taken[0] == []
        assert stage.platform.chat("42").texts == ["Done: one", words.queued(), f"Done: look\n{NAMED}"]


# --- parts that must not be cut ------------------------------------------------------------------------


async def test_an_interruption_waits_while_a_part_must_not_be_cut(
    stage: Stage, autojump_clock: MockClock
) -> None:
    busy(stage, "interrupt")

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        if turn.said[0].text != "one":
            return "Done: " + turn.said[0].text
        with turn.not_now("two helpers work for me"):
            with turn.not_now("the history is being shortened"):
                await trio.sleep(10)
            await trio.sleep(10)
        await trio.sleep(20)
        return "Done: one"

    agent_is(stage, agent)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.says("two")
        await trio.sleep(10)
        await stage.says("three")
        chat = stage.platform.chat("42")
        assert chat.texts == [words.not_now("the history is being shortened")]
        assert "/stop" in chat.texts[0]
        assert outcomes(stage) == [None], "the inner part is over, the outer one is not"
        await trio.sleep(10)
        await stage.says("four")
        assert outcomes(stage) == ["superseded", "answered", "answered", "answered"]
        assert [text for role, text in rows(stage) if role == "user"] == ["one", "two", "three", "four"]


async def test_stop_does_not_wait_for_such_a_part(stage: Stage, autojump_clock: MockClock) -> None:
    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        with turn.not_now("something"):
            await trio.sleep_forever()
        raise AssertionError

    agent_is(stage, agent)
    async with stage.life():
        await stage.says("one")
        await stage.says("/stop")
        assert outcomes(stage) == ["stopped"]


# --- how many may wait ---------------------------------------------------------------------------------


async def test_thirty_two_may_wait_and_everybody_behind_them_is_told(
    stage: Stage, autojump_clock: MockClock
) -> None:
    busy(stage, "queue", gateway_timeout=0, gateway_notify_interval=0)
    stage.agent.on("work", Script().takes(300).says("Done."))
    async with stage.life():
        await stage.says("work")
        for number in range(34):
            await trio.sleep(2)
            await stage.says(f"m{number}")
        texts = stage.platform.chat("42").texts
        assert texts.count(words.crowded_out(32)) == 2, "each of the two, at whatever distance"
        assert stage.pending() == [f"m{number}" for number in range(32)]
        await trio.sleep(300)
        assert [turn.outcome for turn in stage.turns()] == ["answered"] * 33
        assert [said for said, _ in stage.agent.began[1:]] == [f"m{number}" for number in range(32)]
        await stage.says("now there is room")
        assert stage.platform.chat("42").last == "You said: now there is room"


async def test_an_answer_is_taken_however_many_wait(stage: Stage, autojump_clock: MockClock) -> None:
    busy(stage, "queue")
    got = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        if turn.said[0].text != "work":
            return "Done."
        await trio.sleep(100)
        got.append(await turn.ask("Which one?"))
        return "Done."

    agent_is(stage, agent)
    async with stage.life():
        await stage.says("work")
        for number in range(32):
            await trio.sleep(2)
            await stage.says(f"m{number}")
        await trio.sleep(40)
        await stage.says("blue")
        assert got == ["blue"]


# --- what belongs together -----------------------------------------------------------------------------


NAMED = "[Sent along: photo; not fetched: this platform hands out no files]"


async def photo(stage: Stage, text: str = "", chat: str = "42", **how: Any) -> None:
    event = stage.platform.event(text, chat=chat, **how)
    stage.platform.deliver(replace(event, attachments=(Attachment("photo", file_id=event.message_id),)))
    await trio.testing.wait_all_tasks_blocked()


async def test_an_album_is_one_turn_and_the_text_behind_it_joins(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async with stage.life():
        for _ in range(3):
            await photo(stage)
            await trio.sleep(0.8)
        await stage.says("what are these?")
        await trio.sleep(0.9)
        assert stage.agent.began == [], "more may come"
        await trio.sleep(0.2)
        [(said, at)] = stage.agent.began
        assert at == pytest.approx(3.4)
        assert said == f"{NAMED} {NAMED} {NAMED} what are these?"
        assert stage.agent.prompts == [f"{NAMED}\n\n{NAMED}\n\n{NAMED}\n\nwhat are these?"]
        assert outcomes(stage) == ["answered"]


async def test_a_stop_does_not_wait_for_the_rest_of_an_album(stage: Stage, autojump_clock: MockClock) -> None:
    async with stage.life() as gateway:
        await photo(stage, "look")
        await trio.sleep(0.5)
        gateway.stop(grace=60)
        await trio.sleep(10)
        assert stage.ended_at == 0.5
        assert stage.pending() == ["look"]


async def test_nobody_waits_longer_than_five_seconds_for_the_rest_of_an_album(
    stage: Stage, autojump_clock: MockClock
) -> None:
    busy(stage, "queue")
    async with stage.life():
        for number in range(10):
            await photo(stage, f"p{number}")
            await trio.sleep(0.9)
        await trio.sleep(10)
        assert [(said.replace(f"\n{NAMED}", ""), at) for said, at in stage.agent.began] == [
            ("p0 p1 p2 p3 p4 p5", 5.0),
            ("p6 p7 p8 p9", pytest.approx(9.1)),
        ]


async def test_plain_text_in_an_idle_chat_begins_at_once(stage: Stage, autojump_clock: MockClock) -> None:
    async with stage.life():
        await trio.sleep(7)
        await stage.says("hello")
        assert stage.agent.began == [("hello", 7.0)]


async def test_a_second_message_just_after_the_first_takes_its_place_without_a_word(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.agent.on("hello", Script().hangs())
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(3)
        await stage.says("I mean, good morning")
        await trio.sleep(1)
        assert stage.platform.chat("42").texts == ["You said: I mean, good morning"]
        assert [text for role, text in rows(stage) if role == "user"] == ["hello", "I mean, good morning"]


async def test_two_people_in_one_session_are_not_merged(stage: Stage, autojump_clock: MockClock) -> None:
    stage.config = msgspec.structs.replace(everyone(busy="queue"), group_sessions_per_user=False)
    stage.agent.on("[1] first", Script().takes(10).says("Done."))
    async with stage.life():
        for who, said in (("1", "first"), ("1", "kim a"), ("1", "kim b"), ("2", "lee"), ("1", "kim c")):
            await stage.says(said, chat="g", user=who, chat_type="group")
        await trio.sleep(20)
        assert [said for said, _ in stage.agent.began] == [
            "[1] first",
            "[1] kim a [1] kim b",
            "[2] lee",
            "[1] kim c",
        ]


async def test_a_message_from_inside_interrupts_nobody(stage: Stage, autojump_clock: MockClock) -> None:
    stage.agent.on("work", Script().takes(10).says("Done."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        stage.platform.deliver(replace(stage.platform.event("/stop"), kind="internal"))
        await trio.sleep(10)
        assert outcomes(stage) == ["answered", "answered"]
        assert stage.platform.chat("42").texts == ["Done.", "You said: /stop"]


# --- races: the moment in which a turn begins -----------------------------------------------------------


class LateReads:
    """A disk whose answers to the readers of the store come late: what they say is old by then. Commits
    take a little too."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self.reads = self.writes = 0.0

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        seconds = {"store-reader": lambda: self.reads, "store-writer": lambda: self.writes}.get(name)

        with inline_worker(name) as inline:
            if seconds is None:
                yield inline
                return
            give, take = trio.open_memory_channel[Any](1000)
            self._nursery.start_soon(self._work, take, seconds)

            def runner(job: Callable[[], Any], done: Callable[[outcome.Outcome[Any]], object]) -> None:
                give.send_nowait((job, done))

            with give:
                yield runner

    async def _work(self, jobs: trio.MemoryReceiveChannel[Any], seconds: Callable[[], float]) -> None:
        async for job, done in jobs:
            came = outcome.capture(job)
            await trio.sleep(seconds())
            done(came)


READS_AND_WRITES = [(0.5, 0.0), (0.0, 0.5), (0.5, 0.2), (0.2, 0.5)]


@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer"])
@pytest.mark.parametrize(("reads", "writes"), READS_AND_WRITES)
async def test_a_message_never_cuts_the_turn_that_it_begins(
    stage: Stage, autojump_clock: MockClock, mode: Busy, reads: float, writes: float
) -> None:
    busy(stage, mode)
    async with trio.open_nursery() as nursery:
        disk = LateReads(nursery)
        stage.worker = disk.worker
        async with stage.life():
            disk.reads, disk.writes = reads, writes
            await stage.platform.says("one")
            await trio.sleep(60)
            await stage.platform.says("two")
            await trio.sleep(60)
            assert stage.platform.chat("42").texts == ["You said: one", "You said: two"]
            disk.reads = disk.writes = 0
            await trio.sleep(5)
            assert outcomes(stage) == ["answered", "answered"]


@pytest.mark.parametrize("tenths", range(1, 40, 2))
@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer"])
async def test_a_second_message_at_any_moment_of_the_begin_is_answered_and_nothing_is_lost(
    stage: Stage, autojump_clock: MockClock, tenths: int, mode: Busy
) -> None:
    """Each commit and each look into the database takes half a second, the turn itself takes a minute."""
    busy(stage, mode)
    stage.agent.on("one", Script().takes(60).says("First."))
    async with trio.open_nursery() as nursery:
        disk = LateReads(nursery)
        stage.worker = disk.worker
        async with stage.life():
            disk.reads = disk.writes = 0.5
            stage.platform.post("one")
            await trio.sleep(tenths / 10)
            stage.platform.post("two")
            await trio.sleep(30)
            early = stage.platform.chat("42").last
            await trio.sleep(120)
            disk.reads = disk.writes = 0
            await trio.sleep(5)
            assert stage.pending() == []
            assert [text for role, text in rows(stage) if role == "user"] == ["one", "two"]
            if mode == "interrupt":
                assert early in ("You said: two", "You said: one two"), "it does not wait for the minute"
            else:
                assert "answered" in outcomes(stage)
                assert "superseded" not in outcomes(stage)


@pytest.mark.parametrize("tenths", range(1, 40, 2))
@pytest.mark.parametrize("command", ["/stop", "/new", "/undo"])
async def test_a_command_at_any_moment_of_the_begin_ends_it(
    stage: Stage, autojump_clock: MockClock, tenths: int, command: str
) -> None:
    stage.agent.on("one", Script().takes(60).says("First."))
    async with trio.open_nursery() as nursery:
        disk = LateReads(nursery)
        stage.worker = disk.worker
        async with stage.life():
            disk.reads = disk.writes = 0.5
            stage.platform.post("one")
            await trio.sleep(tenths / 10)
            stage.platform.post(command)
            await trio.sleep(150)
            disk.reads = disk.writes = 0
            await trio.sleep(5)
            assert "First." not in stage.platform.chat("42").texts
            assert "answered" not in {how for _, how, _ in stage.agent.left}
            assert stage.pending() == []
            assert not stage.gateway or not stage.gateway.work.running
            await stage.says("two")
            assert stage.platform.chat("42").last == "You said: two"
            if command == "/undo":
                assert [text for role, text in rows(stage) if role == "user"] == ["two"]


async def test_who_is_woken_in_the_moment_in_which_an_idle_session_leaves_is_answered(
    stage: Stage, autojump_clock: MockClock
) -> None:
    """Which of the two comes first within that moment is chance, so it is tried some times."""
    async with stage.life() as gateway:
        await stage.says("hello")
        key = gateway.home.store.key_of(stage.platform.event("").source)
        for number in range(12):
            leaves_at = trio.current_time() + 300
            await trio.sleep_until(leaves_at - 1)
            event = stage.platform.event(f"again {number}")
            await gateway.home.database.write(
                inbox.store, event, session_key=key, own_key="", at=gateway.home.world.time()
            )
            await trio.sleep_until(leaves_at)
            gateway.work.sessions.wake(key)
            await trio.testing.wait_all_tasks_blocked()
            assert stage.platform.chat("42").last == f"You said: again {number}"


async def test_a_turn_that_takes_long_to_end_was_stopped_by_who_came_first(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.agent.on("work", Script().hangs(resists=5))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(1)
        await stage.says("/stop")
        await stage.says("hello")
        await trio.sleep(10)
        assert outcomes(stage) == ["stopped", "answered"]


# --- how many turns may run ----------------------------------------------------------------------------


async def test_who_waits_for_room_is_told_and_comes_in_order(stage: Stage, autojump_clock: MockClock) -> None:
    limited(stage, 1)
    for chat in "1234":
        stage.agent.on(f"work {chat}", Script().takes(10).says("Done."))
    async with stage.life():
        for chat in "1234":
            await stage.says(f"work {chat}", chat=chat)
            await trio.sleep(1)
        assert [stage.platform.chat(chat).texts for chat in "1234"] == [[]] + [[words.waits_for_room(1)]] * 3
        await stage.says("and more", chat="2")
        await trio.sleep(60)
        assert stage.agent.began == [
            ("work 1", 0.0),
            ("work 2", 10.0),
            ("work 3", 20.0),
            ("work 4", 30.0),
            ("and more", 40.0),
        ]
        assert stage.platform.chat("2").texts.count(words.waits_for_room(1)) == 1, "told once"


@pytest.mark.parametrize("grace", [0, 5, 60])
async def test_a_stop_does_not_hang_on_who_waits_for_room(
    stage: Stage, autojump_clock: MockClock, grace: float
) -> None:
    limited(stage, 1)
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work", chat="1")
        await stage.says("hello", chat="2")
        await stage.says("hello", chat="3")
        gateway.stop(grace=grace)
        await trio.sleep(100)
        assert stage.ended_at == min(grace, 20)
    for chat in "23":
        assert stage.pending(chat) == ["hello"]
    async with stage.life():
        await trio.sleep(60)
        for chat in "23":
            assert stage.platform.chat(chat).last == "You said: hello"


async def test_a_turn_that_is_taken_up_needs_room_too(stage: Stage, autojump_clock: MockClock) -> None:
    for chat in "123":
        stage.agent.on(f"work {chat}", Script().takes(10).says("Done."))
    async with stage.life():
        for chat in "123":
            await stage.says(f"work {chat}", chat=chat)
    limited(stage, 2)
    async with stage.life() as gateway:
        most = 0
        for _ in range(100):
            await trio.sleep(0.5)
            most = max(most, len(gateway.work.running))
        assert most == 2
        assert [stage.platform.chat(chat).last for chat in "123"] == ["Done."] * 3


async def test_stop_new_undo_and_retry_of_somebody_who_waits_for_room(
    stage: Stage, autojump_clock: MockClock
) -> None:
    limited(stage, 1)
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life():
        await stage.says("work", chat="1")
        for chat, command in (("2", "/stop"), ("3", "/new"), ("4", "/undo"), ("5", "/retry")):
            await stage.says("hello", chat=chat)
            await stage.says(command, chat=chat)
        assert [stage.platform.chat(chat).last for chat in "2345"] == [
            words.stopped(was_running=False, dropped=1),
            words.new_session(1),
            words.taken_back("hello"),
            words.waits_still(),
        ]
        await trio.sleep(60)
        assert [said for said, _ in stage.agent.began] == ["work", "hello"]
        assert stage.platform.chat("5").last == "You said: hello"
        for chat in "234":
            await stage.says("good morning", chat=chat)
            assert stage.platform.chat(chat).last == "You said: good morning"


async def test_what_waits_is_kept_when_the_gateway_is_killed(stage: Stage, autojump_clock: MockClock) -> None:
    busy(stage, "queue")
    stage.agent.on("one", Script().takes(20).says("First."))
    async with stage.life():
        await stage.says("one")
        for said in ("two", "three"):
            await trio.sleep(2)
            await stage.says(said)
    async with stage.life():
        await trio.sleep(60)
        texts = stage.platform.chat("42").texts
        assert texts[-3:] == ["First.", "You said: two", "You said: three"]


async def test_a_message_whose_turn_was_cut_before_it_began_is_said_once(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.agent.before_asking = 10
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
    async with stage.life():
        await trio.sleep(60)
        assert outcomes(stage) == ["unstarted", "answered"]
        assert rows(stage) == [("user", "one"), ("assistant", "You said: one")]
        await stage.says("/undo")
        assert rows(stage) == []


# --- what waits for its place --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer"])
async def test_a_message_that_comes_while_a_resume_waits_for_its_place_comes_after_it(
    stage: Stage, autojump_clock: MockClock, mode: Busy
) -> None:
    stage.config = msgspec.structs.replace(everyone(busy=mode), gateway=TurnLimits(resume_at_once=1))
    for said in ("one", "two"):
        stage.agent.on(said, Script().says("I begin. ").hangs())
    async with stage.life():
        await stage.says("one", chat="41")
        await stage.says("two")
        await trio.sleep(5)
    stage.agent.on("one", Script().takes(10).says("One is done."))
    stage.agent.on("two", Script().takes(10).says("Two is done."))
    async with stage.life():
        await trio.sleep(5)
        await stage.says("and then")
        await trio.sleep(60)
        assert outcomes(stage) == ["cut", "answered", "answered"]
        texts = stage.platform.chat("42").texts
        assert texts.index("Two is done.") < texts.index("You said: and then")
        assert stage.pending() == []


@pytest.mark.parametrize("held", [False, True])
async def test_no_turn_begins_that_gets_its_place_after_the_sessions_are_closed(
    stage: Stage, autojump_clock: MockClock, *, held: bool
) -> None:
    limited(stage, 1)
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work", chat="41")
        await stage.says("hello")
        await trio.sleep(10)
        if held:
            gateway.control.hold(True)
        else:
            gateway.stop(grace=100)
        await trio.sleep(15)
        assert stage.platform.chat("41").texts[-1] == "Done."
        assert [said for said, _ in stage.agent.began] == ["work"]
        assert stage.pending() == ["hello"]
        if held:
            gateway.control.hold(False)
        else:
            assert stage.ended_at == 20, "nobody waits for a turn that does not begin"
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "You said: hello"
        assert outcomes(stage) == ["answered"]
