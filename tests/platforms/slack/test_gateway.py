"""A whole gateway on Slack: the chats as people see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_platforms.slack.adapter import SlackAdapter
from hermes_platforms.slack.testing import SlackServer
from hermes_trio.platform import FloodWait
from hermes_trio.testing import Script
from tests.platforms.platform_life import Allows, life
from tests.stage import Agent


@pytest.fixture
def agent() -> Agent:
    return Agent()


async def test_an_answer_grows_in_one_message_of_the_thread_that_the_mention_begins(
    slack: SlackServer, slack_app: SlackAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = slack.chat("C1")
    agent.on("[person-42] hello", Script().says("**Hello**, you.\n\n- one\n- two", pieces=6, seconds=0.6))
    async with life(tmp_path / "home", slack_app, agent):
        mention = slack.post("@hermes_bot hello", chat="C1", chat_type="group", user="42")
        await slack.until(lambda: chat.last == "*Hello*, you.\n\n• one\n• two")
    assert [one.thread_id for one in chat.messages] == [mention.message_id]
    assert sum(one.what == "edit" for one in slack.history) > 1


async def test_a_thread_goes_on_without_a_mention_and_other_messages_are_left_alone(
    slack: SlackServer, slack_app: SlackAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = slack.chat("C1")
    async with life(tmp_path / "home", slack_app, agent):
        slack.post("not for the bot", chat="C1", chat_type="group", user="42")
        mention = slack.post("@hermes_bot one", chat="C1", chat_type="group", user="42")
        await slack.until(lambda: len(chat.messages) == 1)
        thread = str(mention.message_id)
        slack.post("two", chat="C1", chat_type="group", user="42", thread_id=thread)
        await slack.until(lambda: chat.last == "You said: [person-42] two")
    assert [(one.text, one.thread_id) for one in chat.messages] == [
        ("You said: [person-42] one", thread),
        ("You said: [person-42] two", thread),
    ]


async def test_an_approval_shows_the_exact_command_and_its_press_counts_in_the_thread(
    slack: SlackServer, slack_app: SlackAdapter, tmp_path: Path
) -> None:
    command, chat = "echo '*`ls`*' && rm -rf <!channel>", slack.chat("C1")
    async with life(tmp_path / "home", slack_app, Allows(command)):
        mention = slack.post("@hermes_bot go", chat="C1", chat_type="group", user="42")
        await slack.until(lambda: any(one.buttons for one in chat.messages))
        assert command in chat.messages[-1].exact
        await slack.presses("✅ Yes", chat="C1", chat_type="group", user="42")
        await slack.until(lambda: chat.last == "Done.")
    assert {one.thread_id for one in chat.messages} == {mention.message_id}
    assert not any(one.buttons for one in chat.messages)


@pytest.mark.parametrize("by", ["exclamation mark", "slash command"])
async def test_a_command_is_obeyed(
    slack: SlackServer, slack_app: SlackAdapter, agent: Agent, tmp_path: Path, by: str
) -> None:
    async with life(tmp_path / "home", slack_app, agent):
        if by == "slash command":
            slack.commands_given("/hermes", "whoami")
        else:
            slack.post("!whoami")
        await slack.until(lambda: bool(slack.chat("42").texts))
    assert "42" in str(slack.chat("42").last)
    assert not slack.waiting


async def test_a_message_between_two_lives_is_answered_once_and_none_comes_again(
    slack: SlackServer, slack_app: SlackAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = slack.chat("42")
    async with life(tmp_path / "home", slack_app, agent):
        first = await slack.says("one")
        await slack.until(lambda: chat.last == "You said: one")
    slack.deliver(first)  # Slack delivers it a second time
    slack.post("two")
    again = SlackAdapter(slack.token, slack.app_token, base_url=slack.base_url)
    async with life(tmp_path / "home", again, agent):
        await slack.until(lambda: chat.last == "You said: two")
    assert chat.texts == ["You said: one", "You said: two"]


async def test_an_answer_in_a_thread_whose_outcome_is_unknown_is_found_there_and_not_repeated(
    slack: SlackServer, slack_app: SlackAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = slack.chat("C1")
    slack.loses_answer()
    async with life(tmp_path / "home", slack_app, agent):
        slack.post("@hermes_bot hello", chat="C1", chat_type="group", user="42")
        await slack.until(lambda: any(call.method == "conversations.replies" for call in slack.asked))
        await slack.until(lambda: chat.last == "You said: [person-42] hello")
    assert chat.texts == ["You said: [person-42] hello"]
    assert sum(one.what == "send" for one in slack.history) == 1


async def test_a_flood_wait_holds_the_whole_chat_and_loses_nothing(
    slack: SlackServer, slack_app: SlackAdapter, agent: Agent, tmp_path: Path
) -> None:
    chat = slack.chat("42")
    slack.fails("send", FloodWait(1))
    async with life(tmp_path / "home", slack_app, agent):
        await slack.says("one")
        await slack.until(lambda: bool(slack.history) and slack.history[-1].what == "send")
        refused_at = slack.history[-1].at
        slack.post("two")
        await slack.until(lambda: len(chat.messages) == 2)
    assert chat.texts == ["You said: one", "You said: two"]
    assert all(one.at - refused_at >= 1 for one in chat.messages)
