"""Two gateways share a store: each chat has one owner, whoever is lost is taken over, and who was taken over
does nothing any more."""

from __future__ import annotations

import pytest
import trio

from hermes_trio.base.errors import NodeNameTaken, gateway_errors
from hermes_trio.gateway.ending.endings_table import Cause
from hermes_trio.gateway.nodes.lease import Node
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script
from tests.stage import Stage, settled

from .shared_store import LEASE, TAKEN_OVER, shared_store


async def test_a_message_is_answered_by_the_gateway_that_owns_its_chat(stage: Stage) -> None:
    async with shared_store(stage) as store:
        first, second = await store.start("first"), await store.start("second")
        await trio.sleep(5)
        await stage.says("hello")
        assert store.owner() == "first", "the first one receives, and the chat was nobody's"
        assert await first.give("42", second)
        await stage.says("again")
        await trio.sleep(3)
        assert stage.platform.chat("42").texts == ["You said: hello", "You said: again"]
        assert [[said for said, _ in life.agent.began] for life in (first, second)] == [["hello"], ["again"]]


async def test_a_command_reaches_the_turn_of_the_owner(stage: Stage) -> None:
    stage.agent.on("long", Script().takes(600).says("late"))
    async with shared_store(stage) as store:
        first, second = await store.start("first"), await store.start("second")
        await stage.says("hello")
        await first.give("42", second)
        await stage.says("long")
        await trio.sleep(10)
        await stage.says("/stop")
        await trio.sleep(3)
        assert [how for _, how, _ in second.agent.left] == ["cancelled"]
        assert stage.outcomes() == ["answered", "stopped"]
        with stage.looking() as db:
            assert db.execute("SELECT count(*) FROM told").fetchone() == (0,)


async def test_an_answer_reaches_the_question_of_the_owner(stage: Stage) -> None:
    async def asks(turn: TurnContext) -> str:
        return f"You want {await turn.ask('Which one?', ['this', 'that'], within=600)}."

    stage.agent.does("ask", asks)
    async with shared_store(stage) as store:
        first, second = await store.start("first"), await store.start("second")
        await stage.says("hello")
        await first.give("42", second)
        await stage.says("ask")
        await trio.sleep(10)
        await stage.says("that")
        await trio.sleep(3)
        assert stage.platform.chat("42").texts[-1] == "You want that."
        assert [said for said, _ in second.agent.began] == ["ask"], "the answer began no turn"


@pytest.mark.parametrize(("said", "meant"), [("yes", "once"), ("no", "None")])
async def test_an_approval_is_answered_through_the_gateway_that_receives(
    stage: Stage, said: str, meant: str
) -> None:
    async def asks(turn: TurnContext) -> str:
        return f"Allowed: {await turn.may('rm -rf build')}."

    stage.agent.does("clean", asks)
    async with shared_store(stage) as store:
        first, second = await store.start("first"), await store.start("second")
        await stage.says("hello")
        assert await first.give("42", second)
        await stage.says("clean")
        await trio.sleep(3)
        assert "rm -rf build" in stage.platform.chat("42").texts[-1]
        await stage.says(said)
        await trio.sleep(3)
        assert stage.platform.chat("42").texts[-1] == f"Allowed: {meant}."
        assert [one for one, _ in second.agent.began] == ["clean"]


async def test_an_owner_that_is_killed_in_a_turn_is_taken_over_and_the_turn_resumed(stage: Stage) -> None:
    stage.agent.on("long", Script().says("half of it ", seconds=5).takes(60).says("and the rest"))
    async with shared_store(stage) as store:
        first, second = await store.start("first"), await store.start("second")
        await stage.says("long")
        await trio.sleep(30)
        first.kill()
        killed_at = trio.current_time()
        await second.works()
        assert LEASE * 0.8 <= trio.current_time() - killed_at <= TAKEN_OVER
        assert store.living() == {"second"}
        await trio.sleep(100)
        assert stage.outcomes() == ["cut", "answered"]
        assert stage.platform.chat("42").texts[-1] == "half of it and the rest"
        await stage.says("again")
        assert stage.platform.chat("42").texts[-1] == "You said: again", "it receives now, too"


async def test_an_owner_that_is_paused_for_long_does_nothing_when_it_goes_on(stage: Stage) -> None:
    stage.agent.on("long", Script().takes(8).says("the answer"))
    async with shared_store(stage) as store:
        first, second = await store.start("first"), await store.start("second")
        await stage.says("long")
        await trio.sleep(5)
        first.pause()
        await trio.sleep(4 * LEASE)
        shown = list(stage.platform.chat("42").texts)
        assert shown == ["the answer"]
        first.continue_()
        await first.over.wait()
        assert first.gateway is not None
        assert first.gateway.control.current is not None
        assert first.gateway.control.current.cause is Cause.LIFE_OVER
        assert stage.platform.chat("42").texts == shown
        assert stage.outcomes() == ["cut", "answered"]
        assert second.agent.left[0][1] == "answered"


async def test_a_gateway_that_stops_leaves_its_chats_to_the_others_at_once(stage: Stage) -> None:
    stage.agent.on("long", Script().takes(60).says("the answer"))
    async with shared_store(stage) as store:
        first, second = await store.start("first"), await store.start("second")
        await stage.says("long")
        await trio.sleep(5)
        first.stop()
        await first.over.wait()
        stopped_at = trio.current_time()
        await second.works()
        assert trio.current_time() - stopped_at <= 3
        await trio.sleep(100)
        assert stage.platform.chat("42").texts[-1] == "the answer"


async def test_a_home_that_starts_again_does_not_wait_for_the_lease(stage: Stage) -> None:
    stage.agent.on("long", Script().takes(60).says("the answer"))
    async with shared_store(stage) as store:
        first = await store.start("first")
        await store.start("second")
        await stage.says("long")
        await trio.sleep(5)
        first.kill()
        await first.over.wait()
        killed_at = trio.current_time()
        await store.start("first")
        assert stage.outcomes() == ["cut"]
        await trio.sleep(3)
        assert stage.outcomes() == ["cut", None]
        assert trio.current_time() - killed_at < LEASE / 2


async def test_a_chat_is_not_given_away_during_a_turn_or_by_who_does_not_own_it(stage: Stage) -> None:
    stage.agent.on("long", Script().takes(60).says("the answer"))
    async with shared_store(stage) as store:
        first, second = await store.start("first"), await store.start("second")
        await stage.says("long")
        assert not await first.give("42", second)
        assert not await second.give("42", first)
        await trio.sleep(61)
        await settled()
        assert await first.give("42", second)
        assert store.owner() == "second"


async def test_a_chat_is_not_given_to_a_life_that_is_over(stage: Stage) -> None:
    async with shared_store(stage) as store:
        first, second = await store.start("first"), await store.start("second")
        await stage.says("hello")
        second.stop()
        await second.over.wait()
        assert not await first.give("42", second)
        assert store.owner() == "first"


async def test_a_reader_whose_store_answers_again_takes_nobody_over_too_early(stage: Stage) -> None:
    """The looks of a gateway that was paused itself say nothing about the others."""
    async with shared_store(stage) as store:
        first, second = await store.start("first"), await store.start("second")
        await stage.says("hello")
        first.pause()
        second.pause()
        await trio.sleep(LEASE * 0.7)
        second.continue_()
        await trio.sleep(LEASE * 0.7)
        assert store.living() == {"first", "second"}
        first.continue_()
        await trio.sleep(TAKEN_OVER)
        assert store.living() == {"second"}, "the lease of the first one was over before it went on"


async def test_a_home_with_the_name_of_a_living_one_is_refused_and_that_one_works_on(stage: Stage) -> None:
    async with shared_store(stage) as store:
        first = await store.start("first")
        with pytest.raises(ExceptionGroup) as refused:
            await store.start("copy", Node("first", LEASE, home="of the copy"))
        [error] = gateway_errors(refused.value)
        assert isinstance(error, NodeNameTaken)
        assert "database.node: the gateway of another home has the name first" in str(error)
        assert trio.current_time() < LEASE / 2
        await trio.sleep(TAKEN_OVER)
        await stage.says("hello")
        assert stage.platform.chat("42").texts == ["You said: hello"]
        assert not first.over.is_set()


async def test_a_home_takes_the_name_of_one_whose_machine_is_lost_after_a_lease(stage: Stage) -> None:
    stage.agent.on("long", Script().takes(60).says("the answer"))
    async with shared_store(stage) as store:
        first = await store.start("first")
        await stage.says("long")
        await trio.sleep(5)
        first.kill()
        await first.over.wait()
        killed_at = trio.current_time()
        await store.start("new home", Node("first", LEASE, home="of the new machine"))
        assert LEASE <= trio.current_time() - killed_at <= TAKEN_OVER
        await trio.sleep(100)
        assert stage.outcomes() == ["cut", "answered"]


async def test_a_home_with_another_name_ends_its_former_life_at_once(stage: Stage) -> None:
    async with shared_store(stage) as store:
        first = await store.start("first", Node("old", LEASE, home="the home"))
        first.kill()
        await first.over.wait()
        await store.start("first", Node("new", LEASE, home="the home"))
        assert store.living() == {"new"}
