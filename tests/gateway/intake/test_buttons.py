"""Buttons below a question: a press is an answer if the person may give it, and a question that is answered
or over loses its buttons."""

from __future__ import annotations

import shutil

import msgspec
import pytest
import trio

from hermes_trio.config.schema import ApprovalsConfig
from hermes_trio.gateway.outbound import texts
from hermes_trio.platform.contract import NotSent, Traits
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.shown_chats import ShownChat
from tests.gateway.turns.asking import AlwaysAskingAgent, AskingAgent
from tests.stage import Stage


@pytest.fixture
def stage(stage: Stage) -> Stage:
    stage.platform = MemoryPlatform(traits=Traits(edits=True, buttons=True))
    stage.agent = AskingAgent()
    return stage


def answers_in(stage: Stage) -> list[str | None]:
    assert isinstance(stage.agent, AskingAgent)
    return stage.agent.got


def labels(chat: ShownChat) -> list[str]:
    return [button.label for message in chat.messages for button in message.buttons]


async def test_a_press_answers_a_question_and_removes_its_buttons(stage: Stage) -> None:
    chat = stage.platform.chat("42")
    async with stage.life():
        await stage.says("which")
        await trio.sleep(1)
        assert labels(chat)[:2] == ["red", "blue"]
        assert len(labels(chat)[2]) <= 60
        await stage.platform.presses("blue")
        await trio.sleep(1)
    assert answers_in(stage) == ["blue"]
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
        await trio.sleep(1)
        await stage.platform.presses(label)
        await trio.sleep(1)
    assert answers_in(stage) == [means]
    assert labels(stage.platform.chat("42")) == []


async def test_button_values_fit_into_64_bytes(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await trio.sleep(1)
        [question] = stage.platform.chat("42").messages
        long_id = "0" * 32  # as long as a real id
        ours = question.buttons[0].value.split(":")[1]
        assert all(len(one.value.replace(ours, long_id).encode()) <= 64 for one in question.buttons)


async def test_a_typed_answer_removes_the_buttons_too(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await trio.sleep(1)
        await stage.says("2")
        await trio.sleep(1)
    assert (answers_in(stage), labels(stage.platform.chat("42"))) == (["blue"], [])


async def test_a_second_press_gets_a_notice_and_begins_no_turn(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await trio.sleep(1)
        late = stage.platform.press("red")
        await stage.platform.presses("blue")
        await trio.sleep(1)
        await stage.platform.deliver(late).wait()
        await trio.sleep(1)
    assert answers_in(stage) == ["blue"]
    assert stage.platform.chat("42").last == texts.question_closed()
    assert len(stage.turns()) == 1
    assert stage.pending() == []


async def test_a_press_that_is_delivered_twice_counts_once(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await trio.sleep(1)
        press = stage.platform.press("blue")
        for _ in range(2):
            await stage.platform.deliver(press).wait()
        await trio.sleep(1)
    assert stage.platform.chat("42").last == "It was blue."


async def test_a_question_to_one_person_is_answered_by_that_person_only(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which", chat="-1", chat_type="group", user="7")
        await trio.sleep(1)
        await stage.platform.presses("red", chat="-1", chat_type="group", user="8")
        await trio.sleep(1)
        assert answers_in(stage) == []
        assert stage.platform.chat("-1").last == texts.question_closed()
        await stage.platform.presses("blue", chat="-1", chat_type="group", user="7")
        await trio.sleep(1)
    assert answers_in(stage) == ["blue"]


async def test_the_yes_button_works_only_for_approvers(stage: Stage) -> None:
    stage.allow(allow_admin_from=("9",))
    async with stage.life():
        await stage.says("may I", chat="-1", chat_type="group", user="7")
        await trio.sleep(1)
        for user, answers in (("7", []), ("8", []), ("9", ["once"])):
            await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user=user)
            await trio.sleep(1)
            assert answers_in(stage) == answers


async def test_an_open_group_has_no_approvers_beyond_the_named_ones(stage: Stage) -> None:
    stage.allow(allow_from="all")
    group = stage.platform.chat("-1")
    async with stage.life() as gateway:
        await stage.says("may I", chat="-1", chat_type="group", user="7")
        await trio.sleep(1)
        for user in ("7", "8"):
            await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user=user)
            await trio.sleep(1)
            assert group.last == texts.may_not_approve("memory")
        for user in ("8", "7"):  # the agent gets plain words as a message, which interrupts the turn of 7
            for said in ("yes", "/approve", "/approve always", "/deny always", "/restart"):
                await stage.says(said, chat="-1", chat_type="group", user=user)
                await trio.sleep(1)
        assert answers_in(stage) == []
        assert gateway.control.current is None


async def test_listed_people_approve_only_for_their_own_turns_without_admins(
    stage: Stage,
) -> None:
    stage.allow(allow_from=("7", "8"))
    group = stage.platform.chat("-1")
    async with stage.life():
        await stage.says("may I", chat="-1", chat_type="group", user="7")
        await trio.sleep(1)
        await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user="8")
        await trio.sleep(1)
        assert (answers_in(stage), group.last) == ([], texts.may_not_approve("memory"))
        await stage.says("/approve", chat="-1", chat_type="group", user="8")
        await trio.sleep(1)
        assert (answers_in(stage), group.last) == ([], texts.may_not_approve("memory"))
        await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user="7")
        await trio.sleep(1)
        assert answers_in(stage) == ["once"]


async def test_an_approval_in_a_shared_session_is_given_by_the_person_of_the_turn(stage: Stage) -> None:
    stage.agent = AlwaysAskingAgent()
    stage.config = msgspec.structs.replace(stage.config, group_sessions_per_user=False)
    stage.allow(allow_from=("7", "8"))
    async with stage.life():
        await stage.says("may I", chat="-1", chat_type="group", user="7")
        await trio.sleep(1)
        await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user="8")
        await trio.sleep(1)
        assert answers_in(stage) == []
        await stage.platform.presses("❌ No", chat="-1", chat_type="group", user="7")
        await trio.sleep(1)
        assert answers_in(stage) == [None]


async def test_an_approval_in_a_resumed_turn_is_given_by_the_person_of_the_session(stage: Stage) -> None:
    stage.agent = AlwaysAskingAgent()
    stage.allow(allow_from=("7", "8"))
    async with stage.life():
        await stage.says("may I", chat="-1", chat_type="group", user="7")
        await trio.sleep(1)
    async with stage.life():
        await trio.sleep(1)
        for user, answers in (("8", []), ("7", ["once"])):
            await stage.platform.presses("✅ Yes", chat="-1", chat_type="group", user=user)
            await trio.sleep(1)
            assert answers_in(stage) == answers


async def test_a_press_of_a_stranger_answers_nothing(stage: Stage) -> None:
    stage.allow(allow_from=("7",))
    async with stage.life():
        await stage.says("which", chat="-1", chat_type="group", user="7")
        await trio.sleep(1)
        await stage.platform.presses("red", chat="-1", chat_type="group", user="8")
        await trio.sleep(1)
        assert answers_in(stage) == []


async def test_an_expired_question_loses_its_buttons(stage: Stage) -> None:
    stage.config = msgspec.structs.replace(stage.config, approvals=ApprovalsConfig(timeout=20))
    async with stage.life():
        await stage.says("may I")
        await trio.sleep(30)
    chat = stage.platform.chat("42")
    assert (answers_in(stage), labels(chat)) == ([None], [])
    assert chat.messages[0].text.endswith(texts.not_answered())


async def test_stop_removes_the_buttons_of_an_open_question(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await trio.sleep(1)
        await stage.says("/stop")
        await trio.sleep(1)
        assert labels(stage.platform.chat("42")) == []


async def test_a_question_left_open_by_a_stop_loses_its_buttons_in_the_next_life(stage: Stage) -> None:
    async with stage.life():
        await stage.says("which")
        await trio.sleep(1)
        before = stage.platform.press("blue")
        stage.platform.fails("edit", NotSent("gone"))
    async with stage.life():
        await stage.platform.deliver(before).wait()
        await trio.sleep(600)
    assert labels(stage.platform.chat("42")) == []
    assert answers_in(stage) == []


@pytest.mark.sqlite
async def test_a_question_left_open_by_a_kill_loses_its_buttons_in_the_next_life(stage: Stage) -> None:
    as_killed = stage.home.with_name("as-killed")
    async with stage.life():
        await stage.says("which")
        await trio.sleep(1)
        shutil.copytree(stage.home, as_killed)  # the files at the moment of a kill
    stage.home = as_killed
    stage.platform.history.clear()
    async with stage.life():
        await trio.sleep(1)
    edits = [one.text or "" for one in stage.platform.history if one.what == "edit"]
    assert [text.endswith(texts.not_answered()) for text in edits] == [True]


async def test_a_question_in_several_messages_has_its_buttons_in_the_last(stage: Stage) -> None:
    async with stage.life():
        await stage.says("long")
        await trio.sleep(1)
        chat = stage.platform.chat("42")
        assert [len(one.buttons) for one in chat.messages] == [0, 0, 2]
        await stage.platform.presses("red")
        await trio.sleep(1)
        assert (answers_in(stage), labels(chat)) == (["red"], [])


async def test_a_platform_without_buttons_gets_none(stage: Stage) -> None:
    stage.platform = MemoryPlatform(traits=Traits(edits=True))
    async with stage.life():
        await stage.says("which")
        await trio.sleep(1)
        await stage.says("blue")
        await trio.sleep(1)
    assert stage.platform.chat("42").texts[-1] == "It was blue."
    assert not any(one.what == "edit" and "→" in (one.text or "") for one in stage.platform.history)


async def test_buttons_that_cannot_be_removed_stay_and_delay_nothing(stage: Stage) -> None:
    stage.platform = MemoryPlatform(traits=Traits(buttons=True))
    chat = stage.platform.chat("42")
    async with stage.life():
        await stage.says("which")
        await trio.sleep(1)
        await stage.says("red")
        await trio.sleep(1)
        assert (answers_in(stage), chat.texts[-1]) == (["red"], "It was red.")
