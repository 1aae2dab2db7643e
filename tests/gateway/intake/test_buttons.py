"""Buttons below what is asked: a press is an answer, if whoever presses may give it; what is answered or over
loses its buttons, whatever ended it."""

from __future__ import annotations

import shutil

import msgspec
import pytest
import trio

from hermes_trio.config.schema import ApprovalsConfig
from hermes_trio.gateway.outbound import texts
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.platform.contract import NotSent, Traits
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.shown_chats import ShownChat
from tests.stage import Agent, Stage


class Asking(Agent):
    """Asks, and says what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.got: list[str | None] = []

    async def __call__(self, turn: TurnContext) -> str:
        await turn.requesting()
        said = turn.said[0].text if turn.said else "resumed"
        if said == "may I":
            self.got.append(await turn.may("rm -rf /tmp/x"))
        elif said == "which":
            self.got.append(await turn.ask("Which colour?", ["red", "blue", "a colour " * 20]))
        elif said == "long":
            self.got.append(await turn.ask("Which? " + "word " * 2000, ["red", "blue"]))
        else:
            return "Nothing to ask."
        return f"It was {self.got[-1]}."


class AlwaysAsking(Asking):
    """Asks for a yes, whatever is said."""

    async def __call__(self, turn: TurnContext) -> str:
        await turn.requesting()
        self.got.append(await turn.may("rm -rf /tmp/x"))
        return f"It was {self.got[-1]}."


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.platform = MemoryPlatform(traits=Traits(edits=True, buttons=True))
    stage.agent = Asking()
    return stage


def got(stage: Stage) -> list[str | None]:
    assert isinstance(stage.agent, Asking)
    return stage.agent.got


def labels(chat: ShownChat) -> list[str]:
    return [button.label for message in chat.messages for button in message.buttons]


async def settled() -> None:
    await trio.sleep(1)


async def test_a_press_answers_a_question_and_the_buttons_are_gone(stage: Stage) -> None:
    chat = stage.platform.chat("42")
    async with stage.life():
        await stage.says("which")
        await settled()
        assert labels(chat)[:2] == ["red", "blue"]
        assert len(labels(chat)[2]) <= 60
        await stage.platform.presses("blue")
        await settled()
    assert got(stage) == ["blue"]
    assert chat.messages[0].text.endswith("→ blue")
    assert labels(chat) == []
    assert chat.last == "It was blue."


@pytest.mark.parametrize(
    ("label", "means"),
    [("✅ Yes", "once"), ("✅ For this session", "session"), ("✅ Always", "always"), ("❌ No", None)],
)
async def test_an_approval_has_a_button_for_each_answer(stage: Stage, label: str, means: str | None) -> None:
    async with stage.life():
        await stage.says("may I")
        await settled()
        await stage.platform.presses(label)
        await settled()
    assert got(stage) == [means]
    assert labels(stage.platform.chat("42")) == []


async def test_the_values_fit_where_platforms_have_little_room(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await settled()
        [question] = stage.platform.chat("42").messages
        long_id = "0" * 32  # as the real ids are
        ours = question.buttons[0].value.split(":")[1]
        assert all(len(one.value.replace(ours, long_id).encode()) <= 64 for one in question.buttons)


async def test_words_answer_as_before_and_take_the_buttons_away_too(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await settled()
        await stage.says("2")
        await settled()
    assert (got(stage), labels(stage.platform.chat("42"))) == (["blue"], [])


async def test_a_second_press_is_told_that_it_is_over_and_starts_nothing(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await settled()
        late = stage.platform.press("red")
        await stage.platform.presses("blue")
        await settled()
        await stage.platform.deliver(late).wait()
        await settled()
    assert got(stage) == ["blue"]
    assert stage.platform.chat("42").last == texts.pressed_in_vain()
    assert len(stage.turns()) == 1
    assert stage.pending() == []


async def test_a_press_that_is_told_twice_counts_once(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await settled()
        press = stage.platform.press("blue")
        for _ in range(2):
            await stage.platform.deliver(press).wait()
        await settled()
    assert stage.platform.chat("42").last == "It was blue."


async def test_of_what_was_asked_of_somebody_only_he_can_press(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which", chat="-1", chat_type="group", user="7")
        await settled()
        await stage.platform.presses("red", chat="-1", chat_type="group", user="8")
        await settled()
        assert got(stage) == []
        assert stage.platform.chat("-1").last == texts.pressed_in_vain()
        await stage.platform.presses("blue", chat="-1", chat_type="group", user="7")
        await settled()
    assert got(stage) == ["blue"]


async def test_only_who_may_approve_can_press_yes(stage: Stage) -> None:
    stage.allow(allow_admin_from=("9",))
    async with stage.life():
        await stage.says("may I", chat="-1", chat_type="group", user="7")
        await settled()
        for user, answers in (("7", []), ("8", []), ("9", ["once"])):
            await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user=user)
            await settled()
            assert got(stage) == answers


async def test_in_an_open_group_nobody_who_is_not_named_approves_anything(stage: Stage) -> None:
    stage.allow(allow_from="all")
    group = stage.platform.chat("-1")
    async with stage.life() as gateway:
        await stage.says("may I", chat="-1", chat_type="group", user="7")
        await settled()
        for user in ("7", "8"):
            await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user=user)
            await settled()
            assert group.last == texts.may_not_approve("memory")
        for user in ("8", "7"):  # to the agent plain words are a message, which interrupts the turn of 7
            for said in ("yes", "/approve", "/approve always", "/deny always", "/restart"):
                await stage.says(said, chat="-1", chat_type="group", user=user)
                await settled()
        assert got(stage) == []
        assert gateway.control.current is None


async def test_where_people_are_listed_and_no_admins_each_answers_for_the_own_turn_alone(
    stage: Stage,
) -> None:
    stage.allow(allow_from=("7", "8"))
    group = stage.platform.chat("-1")
    async with stage.life():
        await stage.says("may I", chat="-1", chat_type="group", user="7")
        await settled()
        await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user="8")
        await settled()
        assert (got(stage), group.last) == ([], texts.may_not_approve("memory"))
        await stage.says("/approve", chat="-1", chat_type="group", user="8")
        await settled()
        assert (got(stage), group.last) == ([], texts.may_not_approve("memory"))
        await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user="7")
        await settled()
        assert got(stage) == ["once"]


async def test_in_a_shared_session_only_the_person_whose_turn_asks_answers(stage: Stage) -> None:
    stage.agent = AlwaysAsking()
    stage.config = msgspec.structs.replace(stage.config, group_sessions_per_user=False)
    stage.allow(allow_from=("7", "8"))
    async with stage.life():
        await stage.says("may I", chat="-1", chat_type="group", user="7")
        await settled()
        await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user="8")
        await settled()
        assert got(stage) == []
        await stage.platform.presses("❌ No", chat="-1", chat_type="group", user="7")
        await settled()
        assert got(stage) == [None]


async def test_after_a_cut_the_person_whose_session_it_is_answers(stage: Stage) -> None:
    stage.agent = AlwaysAsking()
    stage.allow(allow_from=("7", "8"))
    async with stage.life():
        await stage.says("may I", chat="-1", chat_type="group", user="7")
        await settled()
    async with stage.life():
        await settled()
        for user, answers in (("8", []), ("7", ["once"])):
            await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user=user)
            await settled()
            assert got(stage) == answers


async def test_a_stranger_presses_in_vain(stage: Stage) -> None:
    stage.allow(allow_from=("7",))
    async with stage.life():
        await stage.says("which", chat="-1", chat_type="group", user="7")
        await settled()
        await stage.platform.presses("red", chat="-1", chat_type="group", user="8")
        await settled()
        assert got(stage) == []


async def test_what_nobody_answered_in_time_loses_its_buttons(stage: Stage) -> None:
    stage.config = msgspec.structs.replace(stage.config, approvals=ApprovalsConfig(timeout=20))
    async with stage.life():
        await stage.says("may I")
        await trio.sleep(30)
    chat = stage.platform.chat("42")
    assert (got(stage), labels(chat)) == ([None], [])
    assert chat.messages[0].text.endswith(texts.not_answered())


async def test_who_stops_the_turn_stops_its_question_too(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await settled()
        await stage.says("/stop")
        await settled()
        assert labels(stage.platform.chat("42")) == []


async def test_what_a_life_left_open_loses_its_buttons_in_the_next(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await settled()
        before = stage.platform.press("blue")
        stage.platform.fails("edit", NotSent("gone"))
    async with stage.life():
        await stage.platform.deliver(before).wait()
        await trio.sleep(600)
    assert labels(stage.platform.chat("42")) == []
    assert got(stage) == []


async def test_what_a_killed_life_left_open_loses_its_buttons_in_the_next(stage: Stage) -> None:
    as_killed = stage.home.with_name("as-killed")
    async with stage.life():
        await stage.says("which")
        await settled()
        shutil.copytree(stage.home, as_killed)  # what is on the disk in the moment of a kill
    stage.home = as_killed
    stage.platform.history.clear()
    async with stage.life():
        await settled()
    edits = [one.text or "" for one in stage.platform.history if one.what == "edit"]
    assert [text.endswith(texts.not_answered()) for text in edits] == [True]


async def test_a_question_that_does_not_fit_has_its_buttons_at_the_end(stage: Stage) -> None:
    async with stage.life():
        await stage.says("long")
        await settled()
        chat = stage.platform.chat("42")
        assert [len(one.buttons) for one in chat.messages] == [0, 0, 2]
        await stage.platform.presses("red")
        await settled()
        assert (got(stage), labels(chat)) == (["red"], [])


async def test_where_there_are_no_buttons_nobody_gets_one(stage: Stage) -> None:
    stage.platform = MemoryPlatform(traits=Traits(edits=True))
    async with stage.life():
        await stage.says("which")
        await settled()
        await stage.says("blue")
        await settled()
    assert stage.platform.chat("42").texts[-1] == "It was blue."
    assert not any(one.what == "edit" and "→" in (one.text or "") for one in stage.platform.history)


async def test_buttons_that_cannot_be_taken_away_stay_and_hold_nothing_up(stage: Stage) -> None:
    stage.platform = MemoryPlatform(traits=Traits(buttons=True))
    chat = stage.platform.chat("42")
    async with stage.life():
        await stage.says("which")
        await settled()
        await stage.says("red")
        await settled()
        assert (got(stage), chat.texts[-1]) == (["red"], "It was red.")
