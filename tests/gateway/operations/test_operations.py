"""Operations on sessions and runs, called without HTTP."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from hermes_trio.base.messages import SessionSource
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.intake.requests import NoTurnsNow, Posted, StoredRequest
from hermes_trio.gateway.operations.api_sessions import (
    SessionUnreachable,
    find_or_create,
    new_session,
    reachable_origin,
    source_of,
    title_of,
)
from hermes_trio.gateway.operations.conversation_entry import (
    ConversationInput,
    Conversations,
    HistoryOfChat,
    IdempotencyKeyReused,
    RequestTarget,
)
from hermes_trio.gateway.operations.run_state import Runs
from hermes_trio.gateway.operations.session_removal import remove_session
from hermes_trio.gateway.turn.attachments import keep_upload
from hermes_trio.state.tables import sessions
from hermes_trio.state.tables.session_entry import SessionEntry
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.testing import Script
from tests.stage import Stage, settled

ANSWERED = (TranscriptRow("user", "one", 0), TranscriptRow("assistant", "You said: one", 0))
NO_NAMES = RequestTarget(None, None, "")


def conversations(gateway: RunningGateway, created: list[str]) -> Conversations:
    """The conversations of this gateway; their messages are stored and begin no turn."""

    async def deliver(request: StoredRequest, *, mode: str = "queue") -> Posted:
        await trio.lowlevel.checkpoint()
        return Posted(request.inbox_id, "run", "queued")

    return Conversations(
        gateway.home.database,
        gateway.home.config,
        gateway.home.world,
        gateway.control,
        {("api", "main"), *gateway.chats.connections},
        deliver,
        created.append,
        gateway.home.path,
        partial(keep_upload, gateway.home),
    )


async def test_removing_a_session_ends_its_turn_and_deletes_its_rows_and_journals(stage: Stage) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life() as gateway:
        await stage.says("hang")
        entry = stage.entry()
        assert (stage.home / "journal" / entry.session_id).exists()
        await remove_session(gateway.home, gateway.work, entry)
        assert [how for _, how, _ in stage.agent.left] == ["cancelled"]
        assert not (stage.home / "journal" / entry.session_id).exists()
        with stage.looking() as db:
            assert sessions.by_id(db, entry.session_id) is None


async def test_stopping_a_run_ends_its_turn_and_its_state_is_cancelled(stage: Stage) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life() as gateway:
        runs = Runs(gateway.home.database, gateway.home.world, gateway.home.journals, gateway.work.running)
        await stage.says("hang")
        [handle] = gateway.work.running.handles()
        run_id = handle.run_id
        state = await runs.state(run_id)
        assert state is not None
        assert (state.status, state.is_over) == ("running", False)
        await runs.stop(run_id)
        await settled()
        state = await runs.state(run_id)
        assert state is not None
        assert (state.status, state.is_over) == ("cancelled", True)
        assert await runs.state("unknown") is None
        await runs.stop("unknown")


async def test_a_request_enters_the_session_of_its_history_or_a_new_one(
    stage: Stage,
) -> None:
    created: list[str] = []
    async with stage.life() as gateway:
        entered = conversations(gateway, created)
        first = await entered.enter(ConversationInput("one", ()), NO_NAMES)
        assert first.is_ours
        beside = await entered.enter(ConversationInput("one", ()), NO_NAMES)
        assert created == [first.session, beside.session], "the first session is busy"
        named = RequestTarget("mine", None, "")
        again = await entered.enter(ConversationInput("two", None, "Be brief."), named)
        assert again.session == "mine"
        other = await entered.enter(ConversationInput("two", ANSWERED), named)
        assert other.session == "mine", "the name of the conversation stays"
        assert len(created) == 4, "the other history begins another session"
        await entered.enter(ConversationInput("three", ANSWERED), named)
        assert len(created) == 4, "the same history continues it"


async def test_an_idempotency_key_belongs_to_one_request(stage: Stage) -> None:
    async with stage.life() as gateway:
        entered = conversations(gateway, [])
        first = await entered.enter(ConversationInput("one"), RequestTarget(None, "key", "a"))
        gateway.control.hold(True)
        again = await entered.enter(ConversationInput("one"), RequestTarget(None, "key", "a"))
        assert (again.session, again.posted.inbox_id) == (first.session, first.posted.inbox_id)
        with pytest.raises(IdempotencyKeyReused):
            await entered.enter(ConversationInput("two"), RequestTarget(None, "key", "b"))
        with pytest.raises(NoTurnsNow):
            await entered.enter(ConversationInput("one"), RequestTarget(None, "another", "a"))


async def test_a_history_for_a_chat_session_is_refused(stage: Stage) -> None:
    async with stage.life() as gateway:
        await stage.says("hello")
        chat = RequestTarget(stage.entry().session_id, None, "")
        entered = await conversations(gateway, []).enter(ConversationInput("hi"), chat)
        assert not entered.is_ours
        with pytest.raises(HistoryOfChat):
            await conversations(gateway, []).enter(ConversationInput("hi", ()), chat)


async def test_a_session_is_created_once(stage: Stage) -> None:
    async with stage.life() as gateway:
        home = gateway.home
        first = new_session(home.config, home.world, "mine", "A title")
        entry, is_new = await home.database.write(find_or_create, first)
        assert (entry.session_id, entry.display_name, entry.origin, is_new) == (
            "mine",
            "A title",
            source_of("mine"),
            True,
        )
        second = new_session(home.config, home.world, "mine", "Another title")
        again, is_new = await home.database.write(find_or_create, second)
        assert (again.display_name, is_new) == ("A title", False)


def test_a_session_on_a_platform_that_is_not_connected_is_unreachable() -> None:
    entry = SessionEntry("key", "one", 0, 0, origin=SessionSource("memory", "42"))
    assert reachable_origin(entry, {("memory", "main")}) == entry.origin
    with pytest.raises(SessionUnreachable):
        reachable_origin(entry, {("memory", "other")})


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("\n  # Plan the **trip**\nmore", "Plan the **trip**"),
        ("> - `quoted`", "quoted`"),
        (" \n#\n", None),
        ("x" * 61, "x" * 59 + "…"),
    ],
)
def test_the_title_of_a_conversation_is_its_first_line_without_markdown(text: str, title: str | None) -> None:
    assert title_of(text) == title
