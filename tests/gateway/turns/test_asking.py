"""What a turn asks a person: who may answer, with what, for how long, and what waiting means."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.outbound import texts as words
from hermes_trio.gateway.turn.context import TurnContext
from tests.gateway.intake.test_busy import LateReads, busy, outcomes, rows
from tests.stage import Stage, everyone

Got = list[Any]


def asks(
    stage: Stage, question: Callable[[TurnContext], Awaitable[Any]], *, then_takes: float = 0
) -> list[tuple[Any, float]]:
    """Let the agent ask when somebody says `work`; what it is answered, and when."""
    got: list[tuple[Any, float]] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        if turn.said and turn.said[0].text != "work":
            return f"You said: {turn.said[0].text}"
        got.append((await question(turn), trio.current_time()))
        await trio.sleep(then_takes)
        return f"Then {got[-1][0]}."

    stage.opened_agent = nullcontext(agent)
    return got


async def which(turn: TurnContext) -> str | None:
    return await turn.ask("Which one?")


async def may(turn: TurnContext) -> str | None:
    return await turn.may("rm -rf build")


def requests(stage: Stage) -> list[tuple[str, str | None, str | None, bool]]:
    """What was asked: the kind, the answer, by whom, and whether it is closed."""
    with closing(sqlite3.connect(stage.home / "gateway.db")) as db:
        query = "SELECT kind, answer, answered_by, closed_at IS NOT NULL FROM approvals ORDER BY rowid"
        return [(*row[:3], bool(row[3])) for row in db.execute(query)]


# --- questions -------------------------------------------------------------------------------------------


async def test_a_question_is_answered_by_the_next_message(stage: Stage, autojump_clock: MockClock) -> None:
    got = asks(stage, which)
    async with stage.life():
        await stage.says("work")
        assert stage.platform.chat("42").texts == ["Which one?"]
        await trio.sleep(100)
        await stage.says("the blue one", message_id="m")
        assert got == [("the blue one", 100.0)]
        assert stage.platform.chat("42").texts == ["Which one?", "Then the blue one."]
        assert outcomes(stage) == ["answered"], "it was no message of its own"
        assert requests(stage) == [("question", "the blue one", "42", True)]
        assert stage.pending() == []
        await stage.says("hello")
        assert stage.platform.chat("42").last == "You said: hello"


@pytest.mark.parametrize(
    ("said", "meant"),
    [("2", "blue"), ("3", "3"), ("0", "0"), ("blue", "blue"), ("green", "green"), (" 1 ", "red")],
)
async def test_a_number_is_the_choice_that_has_it(
    stage: Stage, autojump_clock: MockClock, said: str, meant: str
) -> None:
    async def question(turn: TurnContext) -> str | None:
        return await turn.ask("Which one?", ["red", "blue"])

    got = asks(stage, question)
    async with stage.life():
        await stage.says("work")
        assert stage.platform.chat("42").texts == ["Which one?\n1. red\n2. blue"]
        await stage.says(said)
        assert [answer for answer, _ in got] == [meant]


async def test_a_pressed_button_arrives_as_text(stage: Stage, autojump_clock: MockClock) -> None:
    async def question(turn: TurnContext) -> str | None:
        return await turn.ask("Which one?", ["red", "blue"])

    got = asks(stage, question)
    async with stage.life():
        await stage.says("work")
        stage.platform.deliver(replace(stage.platform.event("blue"), kind="callback"))
        await trio.testing.wait_all_tasks_blocked()
        assert [answer for answer, _ in got] == ["blue"]


async def test_no_answer_in_time_is_none(stage: Stage, autojump_clock: MockClock) -> None:
    stage.config = everyone(AgentConfig(clarify_timeout=100))
    got = asks(stage, which)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(101)
        assert got == [(None, 100.0)]
        assert requests(stage) == [("question", None, None, True)]
        await stage.says("blue")
        assert stage.platform.chat("42").last == "You said: blue", "too late it is a message like any other"


async def test_commands_are_obeyed_while_a_question_is_open(stage: Stage, autojump_clock: MockClock) -> None:
    got = asks(stage, which)
    async with stage.life():
        await stage.says("work")
        await stage.says("/status")
        assert "waiting for your answer" in (stage.platform.chat("42").last or "")
        await stage.says("/queue later")
        assert got == []
        assert stage.pending() == ["later"]
        await stage.says("blue")
        await trio.sleep(1)
        assert stage.platform.chat("42").texts[-2:] == ["Then blue.", "You said: later"]


async def test_a_question_of_what_works_beside_is_answered_in_the_chat(
    stage: Stage, autojump_clock: MockClock
) -> None:
    got = asks(stage, which)
    async with stage.life():
        await stage.says("/background work")
        await stage.says("blue")
        assert [answer for answer, _ in got] == ["blue"]
        assert stage.platform.chat("42").last == "Then blue."


# --- approvals -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("yes", "once"),
        ("Yes!", "once"),
        (" OK ", "once"),
        ("👍", "once"),
        ("/approve", "once"),
        ("/approve@hermes_bot", "once"),
        ("session", "session"),
        ("/approve session", "session"),
        ("always", "always"),
        ("/approve all always", "always"),
        ("no", None),
        ("No.", None),
        ("👎", None),
        ("/deny", None),
        ("/deny it would take too long", None),
    ],
)
async def test_an_approval_is_a_plain_word_or_a_command(
    stage: Stage, autojump_clock: MockClock, said: str, meant: str | None
) -> None:
    got = asks(stage, may)
    async with stage.life():
        await stage.says("work")
        [asked] = stage.platform.chat("42").messages
        assert asked.exact == ("│ rm -rf build",)
        assert asked.text.startswith(words.may_i())
        assert asked.text.endswith(words.answer_yes_or_no(60))
        await trio.sleep(10)
        await stage.says(said)
        assert got == [(meant, 10.0)], "what is no yes is nothing that counts as one"
        answer = meant or "deny"
        assert requests(stage) == [("approval", answer, "42", True)]
        assert (words.decided(answer, 1) in stage.platform.chat("42").texts) is said.startswith("/")


async def test_whatever_else_is_said_is_for_the_agent(stage: Stage, autojump_clock: MockClock) -> None:
    busy(stage, "queue")
    got = asks(stage, may)
    async with stage.life():
        await stage.says("work")
        await stage.says("yes, but what does it do?")
        assert got == []
        assert stage.pending() == ["yes, but what does it do?"]
        await stage.says("no")
        assert [answer for answer, _ in got] == [None]
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "You said: yes, but what does it do?"


async def test_silence_is_no_yes_and_a_late_one_is_told_so(stage: Stage, autojump_clock: MockClock) -> None:
    got = asks(stage, may)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(61)
        assert got == [(None, 60.0)]
        await stage.says("/approve")
        assert stage.platform.chat("42").last == words.nothing_asked()
        assert requests(stage) == [("approval", None, None, True)]


async def test_only_who_may_can_answer_and_in_a_group_an_admin_answers_for_others(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.allow(allow_admin_from=["9"])
    got = asks(stage, may)
    group: dict[str, Any] = {"chat": "g", "chat_type": "group"}
    busy_config = msgspec.structs.replace(everyone(busy="queue"), platforms=stage.config.platforms)
    stage.config = busy_config
    async with stage.life():
        await stage.says("work", user="1", **group)
        await stage.says("yes", user="1", **group)
        assert stage.platform.chat("g").last == words.queued(), "to the agent it is a message"
        await stage.says("/approve", user="1", **group)
        assert stage.platform.chat("g").last == words.may_not_approve("memory")
        await stage.says("/approve", user="9", chat="9")
        assert stage.platform.chat("9").last == words.nothing_asked(), "not from another chat"
        assert got == []
        await trio.sleep(5)
        await stage.says("/approve", user="9", **group)
        assert got == [("once", 5.0)]
        assert requests(stage) == [("approval", "once", "9", True)]
        assert stage.platform.chat("g").last == "You said: yes"


async def two(turn: TurnContext) -> Got:
    got: Got = [None, None]

    async def one(number: int) -> None:
        got[number] = await turn.may(f"step {number}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, 0)
        await trio.sleep(1)
        nursery.start_soon(one, 1)
    return got


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["yes", "no"], ["once", None]),
        (["/deny", "/approve session"], [None, "session"]),
        (["/approve all"], ["once", "once"]),
        (["/approve session all"], ["session", "session"]),
        (["/deny all"], [None, None]),
    ],
)
async def test_of_two_approvals_the_oldest_is_answered_first(
    stage: Stage, autojump_clock: MockClock, given: list[str], meant: Got
) -> None:
    got = asks(stage, two)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        for said in given:
            await stage.says(said)
        assert got == [(meant, 5.0)]
        if len(given) == 1:
            decision = "deny" if "deny" in given[0] else (meant[0] or "")
            assert words.decided(decision, 2) in stage.platform.chat("42").texts


# --- the clock of inactivity -----------------------------------------------------------------------------


async def test_while_a_person_is_waited_for_nothing_counts_as_silence_and_afterwards_it_does(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.config = everyone(
        AgentConfig(
            gateway_timeout=100, gateway_timeout_warning=60, gateway_notify_interval=0, clarify_timeout=3600
        )
    )
    got = asks(stage, which, then_takes=1000)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(500)
        assert stage.platform.chat("42").texts == ["Which one?"]
        await stage.says("blue")
        assert got == [("blue", 500.0)]
        await trio.sleep(59)
        assert stage.platform.chat("42").texts == ["Which one?"]
        await trio.sleep(2)
        assert stage.platform.chat("42").last == words.silent(60, 100)
        await trio.sleep(38)
        assert outcomes(stage) == [None]
        await trio.sleep(2)
        assert outcomes(stage) == ["timed_out"]


async def test_while_a_person_is_waited_for_nobody_types_or_says_that_it_works(
    stage: Stage, autojump_clock: MockClock
) -> None:
    asks(stage, which, then_takes=100)
    stage.config = everyone(AgentConfig(gateway_notify_interval=50))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(130)
        chat = stage.platform.chat("42")
        assert chat.texts == ["Which one?"]
        assert max(chat.typing_at) == 0
        await stage.says("blue")
        await trio.sleep(21)
        assert max(chat.typing_at) == 150
        assert chat.texts == ["Which one?", words.still_working(150)]


async def test_one_answer_does_not_start_the_clock_while_another_is_waited_for(
    stage: Stage, autojump_clock: MockClock
) -> None:
    limits = AgentConfig(gateway_timeout=30, gateway_timeout_warning=0, gateway_notify_interval=0)
    stage.config = everyone(limits)
    got = asks(stage, two)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(10)
        await stage.says("yes")
        await trio.sleep(45)
        await stage.says("yes")
        assert got == [(["once", "once"], 55.0)]


# --- the end of the turn -----------------------------------------------------------------------------------


@pytest.mark.parametrize("question", [which, may])
async def test_stop_closes_what_is_asked(
    stage: Stage, autojump_clock: MockClock, question: Callable[[TurnContext], Awaitable[str | None]]
) -> None:
    got = asks(stage, question)
    async with stage.life():
        await stage.says("work")
        await stage.says("/stop")
        assert [(answer, closed) for _, answer, _, closed in requests(stage)] == [(None, True)]
        assert outcomes(stage) == ["stopped"]
        await stage.says("/approve")
        assert stage.platform.chat("42").last == words.nothing_asked()
        await stage.says("yes")
        assert stage.platform.chat("42").last == "You said: yes"
        assert got == []


@pytest.mark.parametrize("question", [which, may])
async def test_an_answer_counts_while_the_gateway_goes_down(
    stage: Stage, autojump_clock: MockClock, question: Callable[[TurnContext], Awaitable[str | None]]
) -> None:
    got = asks(stage, question)
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=30)
        await trio.sleep(5)
        await stage.says("yes")
        await trio.sleep(60)
        assert [at for _, at in got] == [5.0]
        assert stage.ended_at == 5
    assert outcomes(stage) == ["answered"]
    assert stage.pending() == []


@pytest.mark.parametrize("question", [which, may])
async def test_a_turn_that_is_taken_up_asks_again(
    stage: Stage, autojump_clock: MockClock, question: Callable[[TurnContext], Awaitable[str | None]]
) -> None:
    got = asks(stage, question)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
    assert [closed for *_, closed in requests(stage)] == [True]
    shown = stage.platform.chat("42").texts[0]
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").texts.count(shown) == 2
        assert [closed for *_, closed in requests(stage)] == [True, False]
        await stage.says("yes")
        assert len(got) == 1
        assert outcomes(stage) == ["cut", "answered"]
        assert [text for role, text in rows(stage) if role == "user"] == ["work"]


@pytest.mark.parametrize("eighths", range(-6, 14))
async def test_an_answer_in_the_moment_in_which_patience_ends_counts_or_is_a_message(
    stage: Stage, autojump_clock: MockClock, eighths: int
) -> None:
    """Each commit takes half a second; the answer comes before the end of patience, in it and behind it."""
    stage.config = everyone(AgentConfig(clarify_timeout=20), busy="queue")
    got = asks(stage, which)
    async with trio.open_nursery() as nursery:
        disk = LateReads(nursery)
        stage.worker = disk.worker
        async with stage.life():
            disk.writes = 0.5
            await stage.platform.says("work")
            await stage.platform.until(lambda: stage.platform.chat("42").texts == ["Which one?"])
            await trio.sleep_until(20 + eighths / 8)
            await stage.platform.says("blue")
            await trio.sleep(30)
            disk.writes = 0
            await trio.sleep(5)
            texts = stage.platform.chat("42").texts
            [(_, answer, _, closed)] = requests(stage)
            assert closed
            assert [said for said, _ in got] == [answer], "what is stored is what the agent is told"
            assert ("You said: blue" in texts) is (answer is None), "one of both, and never neither"
            assert stage.pending() == []
