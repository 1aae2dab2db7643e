"""Questions and approvals of a turn: who may answer, with what, and for how long."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
import trio

from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.outbound import texts
from hermes_trio.gateway.turn.context import TurnContext
from tests.gateway.turns.asking import Got, ask_approval, ask_twice, ask_which, let_agent_ask, requests
from tests.stage import Stage, everyone

# --- questions -------------------------------------------------------------------------------------------


async def test_a_question_is_answered_by_the_next_message(stage: Stage) -> None:
    got = let_agent_ask(stage, ask_which)
    async with stage.life():
        await stage.says("work")
        assert stage.platform.chat("42").texts == ["Which one?"]
        await trio.sleep(100)
        await stage.says("the blue one", message_id="m")
        assert got == [("the blue one", 100.0)]
        assert stage.platform.chat("42").texts == ["Which one?", "Then the blue one."]
        assert stage.outcomes() == ["answered"], "the answer is not a message of its own"
        assert requests(stage) == [("question", "the blue one", "42", True)]
        assert stage.pending() == []
        await stage.says("hello")
        assert stage.platform.chat("42").last == "You said: hello"


@pytest.mark.parametrize(
    ("said", "meant"),
    [("2", "blue"), ("3", "3"), ("0", "0"), ("blue", "blue"), ("green", "green"), (" 1 ", "red")],
)
async def test_a_number_is_the_choice_that_has_it(stage: Stage, said: str, meant: str) -> None:
    async def question(turn: TurnContext) -> str | None:
        return await turn.ask("Which one?", ["red", "blue"])

    got = let_agent_ask(stage, question)
    async with stage.life():
        await stage.says("work")
        assert stage.platform.chat("42").texts == ["Which one?\n1. red\n2. blue"]
        await stage.says(said)
        assert [answer for answer, _ in got] == [meant]


async def test_a_pressed_button_arrives_as_text(stage: Stage) -> None:
    async def question(turn: TurnContext) -> str | None:
        return await turn.ask("Which one?", ["red", "blue"])

    got = let_agent_ask(stage, question)
    async with stage.life():
        await stage.says("work")
        await stage.delivers(replace(stage.platform.event("blue"), kind="callback"))
        assert [answer for answer, _ in got] == ["blue"]


async def test_no_answer_in_time_is_none(stage: Stage) -> None:
    stage.config = everyone(AgentConfig(clarify_timeout=100))
    got = let_agent_ask(stage, ask_which)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(101)
        assert got == [(None, 100.0)]
        assert requests(stage) == [("question", None, None, True)]
        await stage.says("blue")
        assert stage.platform.chat("42").last == "You said: blue", "a late answer is an ordinary message"


async def test_commands_are_obeyed_while_a_question_is_open(stage: Stage) -> None:
    got = let_agent_ask(stage, ask_which)
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


async def test_a_question_of_a_background_turn_is_answered_in_the_chat(stage: Stage) -> None:
    got = let_agent_ask(stage, ask_which)
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
async def test_an_approval_is_given_by_a_plain_word_or_a_command(
    stage: Stage, said: str, meant: str | None
) -> None:
    got = let_agent_ask(stage, ask_approval)
    async with stage.life():
        await stage.says("work")
        [asked] = stage.platform.chat("42").messages
        assert asked.exact == ("│ rm -rf build",)
        assert asked.text.startswith(texts.approval_question())
        assert asked.text.endswith(texts.answer_yes_or_no(300))
        await trio.sleep(10)
        await stage.says(said)
        assert got == [(meant, 10.0)], "only a clear yes counts as one"
        answer = meant or "deny"
        assert requests(stage) == [("approval", answer, "42", True)]
        assert (texts.decided(answer, 1) in stage.platform.chat("42").texts) is said.startswith("/")


async def test_other_messages_during_an_approval_are_for_the_agent(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    got = let_agent_ask(stage, ask_approval)
    async with stage.life():
        await stage.says("work")
        await stage.says("yes, but what does it do?")
        assert got == []
        assert stage.pending() == ["yes, but what does it do?"]
        await stage.says("no")
        assert [answer for answer, _ in got] == [None]
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "You said: yes, but what does it do?"


async def test_an_approval_expires_as_a_no_and_a_late_answer_gets_a_notice(stage: Stage) -> None:
    got = let_agent_ask(stage, ask_approval)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(301)
        assert got == [(None, 300.0)]
        assert texts.approval_expired(300) in stage.platform.chat("42").texts
        await stage.says("/approve")
        assert stage.platform.chat("42").last == texts.no_approval_open()
        assert requests(stage) == [("approval", None, None, True)]
        await stage.says("work")
        await stage.says("yes")
        assert [answer for answer, _ in got] == [None, "once"]


async def test_approvals_in_a_group_are_given_by_an_admin_in_that_group(stage: Stage) -> None:
    stage.allow(allow_admin_from=["9"])
    got = let_agent_ask(stage, ask_approval)
    group: dict[str, Any] = {"chat": "g", "chat_type": "group"}
    busy_config = msgspec.structs.replace(everyone(busy="queue"), platforms=stage.config.platforms)
    stage.config = busy_config
    async with stage.life():
        await stage.says("work", user="1", **group)
        await stage.says("yes", user="1", **group)
        assert stage.platform.chat("g").last == texts.queued(), (
            "yes from this person is a message for the agent"
        )
        await stage.says("/approve", user="1", **group)
        assert stage.platform.chat("g").last == texts.may_not_approve("memory")
        await stage.says("/approve", user="9", chat="9")
        assert stage.platform.chat("9").last == texts.no_approval_open(), (
            "an approval is not given from another chat"
        )
        assert got == []
        await trio.sleep(5)
        await stage.says("/approve", user="9", **group)
        assert got == [("once", 5.0)]
        assert requests(stage) == [("approval", "once", "9", True)]
        assert stage.platform.chat("g").last == "You said: yes"


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
    stage: Stage, given: list[str], meant: Got
) -> None:
    got = let_agent_ask(stage, ask_twice)
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        for said in given:
            await stage.says(said)
        assert got == [(meant, 5.0)]
        if len(given) == 1:
            decision = "deny" if "deny" in given[0] else (meant[0] or "")
            assert texts.decided(decision, 2) in stage.platform.chat("42").texts
