"""A link to a Slack server: connections that are replaced, events that come twice, calls that are limited."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from hermes_platforms.slack.adapter import SlackAdapter
from hermes_platforms.slack.testing import SlackServer
from hermes_trio.platform import (
    Attachment,
    CredentialsRefused,
    Link,
    LinkLost,
    MessageEvent,
    OutcomeUnknown,
    Outgoing,
    Refused,
)
from hermes_trio.testing.laws.receiving import receiving
from hermes_trio.testing.laws.subject import message
from tests.platforms.platform_life import heard_while


async def test_a_new_connection_is_open_before_the_old_one_is_left(
    slack: SlackServer, slack_app: SlackAdapter
) -> None:
    heard: list[MessageEvent] = []
    async with slack_app.connect() as link, trio.open_nursery() as nursery:
        events = link.receive()
        slack.post("on the old one")
        heard.append(await anext(events))
        await slack.refreshes()
        await slack.until(lambda: len(slack.sockets) == 2)
        slack.post("on the new one")
        heard.append(await anext(events))  # acknowledges the first one where it came, on the old connection
        await slack.until(lambda: len(slack.waiting) == 1)
        await slack.closes_old()
        await slack.until(lambda: len(slack.sockets) == 1)
        nursery.start_soon(anext, events)
        await slack.until(lambda: not slack.waiting)
        nursery.cancel_scope.cancel()
    assert [one.text for one in heard] == ["on the old one", "on the new one"]
    assert slack.opened == 2


async def test_a_connection_that_breaks_is_replaced_within_the_link(
    slack: SlackServer, slack_app: SlackAdapter
) -> None:
    def breaks() -> None:
        slack.drop()
        slack.post("after")

    assert await heard_while(slack_app, breaks, slack, "after") == ["before", "after"]
    assert slack.opened == 2


@pytest.mark.parametrize("sent", [1, 60, 200, 600, 1200])
async def test_a_connection_that_breaks_again_within_an_envelope_loses_nothing(
    slack: SlackServer, slack_app: SlackAdapter, sent: int
) -> None:
    def breaks() -> None:
        slack.drop()
        for number in range(5):
            slack.post(f"number {number}")
        slack.cuts_after(sent=sent)

    heard = await heard_while(slack_app, breaks, slack, "number 4")
    assert list(dict.fromkeys(heard)) == ["before", *(f"number {number}" for number in range(5))]


async def test_an_event_that_slack_delivers_twice_is_one_message_and_both_are_acknowledged(
    slack: SlackServer, slack_app: SlackAdapter
) -> None:
    slack.says_it_again = True
    heard: list[MessageEvent] = []
    async with slack_app.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await slack.says("hello")
        await slack.until(lambda: len(slack.acknowledged) == 2)
        nursery.cancel_scope.cancel()
    assert {one.message_key for one in heard} == {"id:1"}


async def test_tokens_that_are_refused_later_end_the_link_for_good(
    slack: SlackServer, slack_app: SlackAdapter
) -> None:
    async with slack_app.connect() as link:
        slack.refuses()
        slack.drop()
        with pytest.raises(CredentialsRefused, match="app_token"):
            await anext(link.receive())
    with pytest.raises(CredentialsRefused):
        async with slack_app.connect():
            pass


async def test_a_call_with_a_token_that_is_refused_ends_the_link(
    slack: SlackServer, slack_app: SlackAdapter
) -> None:
    async with slack_app.connect() as link:
        slack.refuses()
        with pytest.raises(LinkLost):
            await link.edit("42", "1", "text")
        with pytest.raises(LinkLost):
            await anext(link.receive())


async def test_a_server_that_is_away_for_long_is_a_lost_link(
    slack: SlackServer, slack_app: SlackAdapter
) -> None:
    async with slack.away():
        with pytest.raises(LinkLost, match="cannot be reached"):
            async with slack_app.connect():
                pass


async def test_a_send_that_is_cut_at_any_byte_is_found_or_sent_again_and_shown_once(
    slack: SlackServer, slack_app: SlackAdapter
) -> None:
    async def send_until_it_arrives(link: Link, key: str) -> None:
        while True:
            try:
                await link.send(message(key, key=key))
                return
            except OutcomeUnknown:
                if await link.find("42", key) is not None:
                    return

    cuts = range(0, 500, 20)
    async with slack_app.connect() as link:
        for count in cuts:
            slack.cuts_after(sent=count)
            await send_until_it_arrives(link, f"key-{count}")
            slack.cuts_after()
    assert slack.chat("42").texts == [f"key-{count}" for count in cuts]


async def test_a_message_is_found_behind_a_thousand_others(
    slack: SlackServer, slack_app: SlackAdapter
) -> None:
    async with slack_app.connect() as link:
        first = await link.send(message("first", key="the first"))
        for number in range(1100):
            slack.sent["42"].append(f"key-{number}")
            await slack.send(message(f"number {number}", key=f"key-{number}"))
        assert await link.find("42", "the first") == first


async def test_a_file_is_fetched_from_slack_only(slack: SlackServer, slack_app: SlackAdapter) -> None:
    slack.file_url = "http://127.0.0.1:1/secret"
    slack.files["7"] = b"data"
    async with slack_app.connect() as link:
        with pytest.raises(Refused, match="at no address of Slack"):
            await link.fetch("7", 100)


async def test_files_that_may_have_arrived_are_an_unknown_outcome(
    slack: SlackServer, slack_app: SlackAdapter, tmp_path: Path
) -> None:
    place = tmp_path / "a.txt"
    place.write_bytes(b"data")
    slack.loses_answer()
    files = (Attachment("document", path=str(place)),)
    async with slack_app.connect() as link:
        with pytest.raises(OutcomeUnknown):
            await link.send(Outgoing(chat_id="42", text="Here.", key="1", attachments=files))
    assert slack.chat("42").texts == ["Here."]
