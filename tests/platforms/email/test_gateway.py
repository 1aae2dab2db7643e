"""A whole gateway on a mailbox: mails as people get them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from hermes_platforms.email.adapter import EmailAdapter
from hermes_platforms.email.parsing import parsed
from hermes_platforms.email.testing import MailServer, open_mail_server
from hermes_trio.platform import CredentialsRefused, LinkLost, OutcomeUnknown
from hermes_trio.testing.laws.subject import message
from tests.platforms.conftest import PATIENCE
from tests.platforms.platform_life import life
from tests.stage import Agent


@pytest.fixture
async def mails(state_home: Path) -> AsyncIterator[MailServer]:
    async with open_mail_server() as server:
        with trio.fail_after(PATIENCE):
            yield server


@pytest.fixture
def agent() -> Agent:
    return Agent()


async def test_an_answer_is_in_the_thread_of_the_question_also_in_the_next_life(
    mails: MailServer, agent: Agent, tmp_path: Path
) -> None:
    chat = mails.chat("42")
    async with life(tmp_path / "home", EmailAdapter(mails.settings), agent):
        first = await mails.says("one")
        await mails.until(lambda: chat.last == "You said: one")
    async with life(tmp_path / "home", EmailAdapter(mails.settings), agent) as gateway:
        await mails.until(lambda: bool(gateway.chats))
        second = await mails.says("two")
        await mails.until(lambda: chat.last == "You said: two")
    answers = [parsed(data)["in-reply-to"] for data in mails.sent]
    assert answers == [f"<{first.message_id}@people.test>", f"<{second.message_id}@people.test>"]


async def test_copies_of_answers_are_read_and_not_answered(
    mails: MailServer, agent: Agent, tmp_path: Path
) -> None:
    async with life(tmp_path / "home", EmailAdapter(mails.settings), agent):
        await mails.says("one")
        await mails.until(lambda: len(mails.mails) == 2 and all(one.is_read for one in mails.mails))
    assert mails.chat("42").texts == ["You said: one"]


async def test_an_answer_that_may_have_been_sent_is_found_by_its_copy_and_not_repeated(
    mails: MailServer, agent: Agent, tmp_path: Path
) -> None:
    mails.loses_answer()
    async with life(tmp_path / "home", EmailAdapter(mails.settings), agent):
        await mails.says("one")
        await mails.until(lambda: mails.chat("42").last == "You said: one")
        await mails.says("two")
        await mails.until(lambda: mails.chat("42").last == "You said: two")
    assert mails.chat("42").texts == ["You said: one", "You said: two"]


async def test_a_mailbox_that_is_lost_keeps_what_is_not_stored(mails: MailServer) -> None:
    mails.post("one")
    mails.post("two")
    adapter = EmailAdapter(mails.settings)
    async with adapter.connect() as link:
        events = link.receive()
        assert (await anext(events)).text == "one"
        assert (await anext(events)).text == "two"
        await mails.until(lambda: mails.mails[0].is_read)
        mails.drop()
        with pytest.raises(LinkLost, match="cannot be reached"):
            await anext(events)
    async with adapter.connect() as link:
        assert (await anext(link.receive())).text == "two"


async def test_a_password_that_is_refused_is_named(mails: MailServer) -> None:
    mails.refuses()
    with pytest.raises(CredentialsRefused, match="password"):
        async with EmailAdapter(mails.settings).connect():
            pass


async def test_a_mail_goes_out_once_whenever_its_connection_breaks(mails: MailServer) -> None:
    async with EmailAdapter(mails.settings).connect() as link:
        mails.loses_answer()
        with pytest.raises(OutcomeUnknown):
            await link.send(message(key="1"))
        assert await link.find("42", "1") == mails.chat("42").messages[0].message_id
        assert await link.find("42", "2") is None
