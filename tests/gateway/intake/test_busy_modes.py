"""The next message in a chat whose turn runs: the three modes, parts that must not be cut, and the limit of
waiting messages."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import trio

from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.outbound import texts as words
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script
from tests.stage import PHOTO_NOT_FETCHED, Stage, everyone

# --- the three modes -----------------------------------------------------------------------------------


async def test_interrupt_cuts_the_turn_and_the_last_message_is_answered(stage: Stage) -> None:
    stage.config = everyone(busy="interrupt")
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
        assert stage.outcomes() == ["superseded", "superseded", "answered"]
        assert stage.pending() == []
        chat = stage.platform.chat("42")
        assert [(m.text, m.reply_to) for m in chat.messages] == [
            ("On one.\n\n(interrupted)", "m1"),
            (words.interrupting(), "m2"),  # no second notice: the first was ten seconds before
            ("On two.\n\n(interrupted)", "m2"),
            ("You said: three", "m3"),
        ]
        assert stage.transcript() == [
            ("user", "one"),
            ("assistant", "On one."),
            ("user", "two"),
            ("assistant", "On two."),
            ("user", "three"),
            ("assistant", "You said: three"),
        ]
    async with stage.life():
        await trio.sleep(5)
        assert len(stage.turns()) == 3, "a superseded turn is not resumed"


async def test_queue_answers_the_messages_in_order_with_few_notices(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    stage.agent.on("one", Script().takes(60).says("First."))
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.says("two")
        await trio.sleep(29.9)
        await stage.says("three")
        await trio.sleep(0.1)
        await stage.says("four")
        assert stage.platform.chat("42").texts == [words.queued()] * 2, "at most one notice in thirty seconds"
        assert stage.pending() == ["two", "three", "four"]
        await trio.sleep(60)
        assert stage.platform.chat("42").texts[2:] == ["First.", "You said: two", "You said: three four"]
        assert stage.outcomes() == ["answered"] * 3
        assert stage.pending() == []


def steering(stage: Stage, *, takes: float, looks: bool = True) -> list[list[str]]:
    """Let the agent work for `takes` seconds and then, if it `looks`, take the messages of that time."""
    taken: list[list[str]] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        await turn.say("Working. ")
        await trio.sleep(takes)
        if looks:
            taken.append(await turn.steered())
        return "Done: " + ", ".join([*(event.text for event in turn.said), *(taken[-1] if taken else [])])

    stage.opened_agent = nullcontext(agent)
    return taken


async def test_steered_messages_become_part_of_the_running_turn(stage: Stage) -> None:
    stage.config = everyone(busy="steer")
    taken = steering(stage, takes=20)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.says("two")
        await trio.sleep(5)
        await stage.says("three")
        assert stage.pending() == ["two", "three"], "a message waits until the turn takes it"
        await trio.sleep(30)
        assert taken == [["two", "three"]]
        assert stage.outcomes() == ["answered"]
        assert stage.pending() == []
        assert stage.transcript() == [
            ("user", "one"),
            ("user", "two"),
            ("user", "three"),
            ("assistant", "Done: one, two, three"),
        ]
        assert stage.platform.chat("42").texts == ["Done: one, two, three", words.steered()]
        with stage.looking() as db:
            held = db.execute("SELECT state, turn_id FROM inbox").fetchall()
        assert held == [("done", stage.turns()[0].turn_id)] * 3


async def test_a_steered_message_that_was_not_taken_begins_the_next_turn(stage: Stage) -> None:
    stage.config = everyone(busy="steer")
    steering(stage, takes=20, looks=False)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.says("two")
        await trio.sleep(60)
        assert stage.outcomes() == ["answered", "answered"]
        assert [text for role, text in stage.transcript() if role == "user"] == ["one", "two"]
        assert stage.platform.chat("42").last == "Done: two"


@pytest.mark.parametrize("taken", [False, True])
async def test_a_cut_between_steering_and_taking_loses_nothing(stage: Stage, *, taken: bool) -> None:
    stage.config = everyone(busy="steer")
    prompts = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        prompts.append([event.text for event in turn.said] or [row.content for row in turn.history])
        await trio.sleep(20)
        if taken and turn.said and turn.said[0].text == "one":
            assert await turn.steered() == ["two"]
            await trio.sleep_forever()
        return "Done."

    stage.opened_agent = nullcontext(agent)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.says("two")
        await trio.sleep(20 if taken else 5)
    async with stage.life():
        await trio.sleep(100)
        users = [text for role, text in stage.transcript() if role == "user"]
        assert users == ["one", "two"], "each message is there exactly once"
        if taken:
            assert stage.outcomes() == ["cut", "answered"]
            assert prompts[1] == ["one", "two"], "the resumed turn knows both messages"
        else:
            assert stage.outcomes() == ["cut", "answered", "answered"]
            assert prompts[2] == ["two"]
        assert stage.pending() == []


async def test_a_steered_photo_begins_the_next_turn(stage: Stage) -> None:
    """Only text can follow a tool result, so the photo waits for its own turn."""
    stage.config = everyone(busy="steer")
    taken = steering(stage, takes=20)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.sends_photo("look")
        await trio.sleep(60)
        assert taken[0] == []
        assert stage.platform.chat("42").texts == [
            "Done: one",
            words.queued(),
            f"Done: look\n{PHOTO_NOT_FETCHED}",
        ]


# --- parts that must not be cut ------------------------------------------------------------------------


async def test_an_interruption_waits_for_a_part_that_must_not_be_cut(stage: Stage) -> None:
    stage.config = everyone(busy="interrupt")

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

    stage.opened_agent = nullcontext(agent)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        await stage.says("two")
        await trio.sleep(10)
        await stage.says("three")
        chat = stage.platform.chat("42")
        assert chat.texts == [words.not_now("the history is being shortened")]
        assert "/stop" in chat.texts[0]
        assert stage.outcomes() == [None], "the inner part has ended, the outer one has not"
        await trio.sleep(10)
        await stage.says("four")
        assert stage.outcomes() == ["superseded", "answered", "answered", "answered"]
        assert [text for role, text in stage.transcript() if role == "user"] == [
            "one",
            "two",
            "three",
            "four",
        ]


async def test_stop_does_not_wait_for_a_part_that_must_not_be_cut(stage: Stage) -> None:
    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        with turn.not_now("something"):
            await trio.sleep_forever()
        raise AssertionError

    stage.opened_agent = nullcontext(agent)
    async with stage.life():
        await stage.says("one")
        await stage.says("/stop")
        assert stage.outcomes() == ["stopped"]


# --- the limit of waiting messages ---------------------------------------------------------------------


async def test_thirty_two_messages_may_wait_and_each_further_one_is_refused(stage: Stage) -> None:
    stage.config = everyone(AgentConfig(gateway_timeout=0, gateway_notify_interval=0), busy="queue")
    stage.agent.on("work", Script().takes(300).says("Done."))
    async with stage.life():
        await stage.says("work")
        for number in range(34):
            await trio.sleep(2)
            await stage.says(f"m{number}")
        texts = stage.platform.chat("42").texts
        assert texts.count(words.crowded_out(32)) == 2, "each refused message gets a notice"
        assert stage.pending() == [f"m{number}" for number in range(32)]
        await trio.sleep(300)
        assert [turn.outcome for turn in stage.turns()] == ["answered"] * 33
        assert [said for said, _ in stage.agent.began[1:]] == [f"m{number}" for number in range(32)]
        await stage.says("now there is room")
        assert stage.platform.chat("42").last == "You said: now there is room"


async def test_an_answer_is_accepted_however_many_messages_wait(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    got = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        if turn.said[0].text != "work":
            return "Done."
        await trio.sleep(100)
        got.append(await turn.ask("Which one?"))
        return "Done."

    stage.opened_agent = nullcontext(agent)
    async with stage.life():
        await stage.says("work")
        for number in range(32):
            await trio.sleep(2)
            await stage.says(f"m{number}")
        await trio.sleep(40)
        await stage.says("blue")
        assert got == ["blue"]
