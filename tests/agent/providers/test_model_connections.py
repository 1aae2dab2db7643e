"""Connections to model servers: kept for the next request or turn, and closed when an answer is left or
cancelled. The `server` fixture checks that none is left open."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model_clients import MOST_IDLE, Http, open_http
from hermes_trio.agent.providers.open_models import open_model
from hermes_trio.base.world import World
from hermes_trio.testing.checkpoints import cancelled_at
from hermes_trio.testing.model_replies import Reply, Wire
from hermes_trio.testing.model_server import ModelServer
from tests.agent.providers.conftest import HELLO, KEY, OpenModel, answer, text_of


async def test_the_requests_of_a_turn_share_a_connection(server: ModelServer, models: OpenModel) -> None:
    async with models() as model:
        for _ in range(3):
            await answer(model)
        assert server.connections == server.open == 1


async def test_a_body_that_does_not_end_delays_a_finished_answer_only_briefly(
    server: ModelServer, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(replace(Reply().says("Done."), lingers=True))
    async with models() as model:
        assert text_of(await answer(model)) == "Done."
    assert trio.current_time() == pytest.approx(0.2)


LEAVE_AT = [
    Reply().hangs(),
    replace(Reply(), head_after=1e6),
    Reply().says("Hel").hangs(),
    Reply().thinks("Hm").calls("ls", "{").hangs(),
]


@pytest.mark.parametrize("reply", LEAVE_AT)
async def test_a_cancelled_answer_leaves_nothing(
    reply: Reply, server: ModelServer, models: OpenModel
) -> None:
    server.answers(reply)

    async def cut() -> None:
        await server.until(lambda: bool(server.requests))
        await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()

    async with models() as model:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut)
            await answer(model)
        await server.until(lambda: server.open == 0)
    gc.collect()  # an async generator that was left open becomes an error here


@pytest.mark.parametrize("count", [1, 2, 5])
async def test_an_answer_may_be_left_after_any_item(
    count: int, server: ModelServer, models: OpenModel
) -> None:
    server.answers(Reply(piece=1).says("abcdef").hangs())
    async with models() as model:
        async with model.stream(HELLO) as items:
            for _ in range(count):
                await anext(items)
        await server.until(lambda: server.open == 0)
        gc.collect()
        # The model can be asked again.
        assert text_of(await answer(model)) == "Hello."


async def test_leaving_an_answer_does_not_wait(
    server: ModelServer, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(Reply().says("Hel").hangs())
    async with models() as model, model.stream(HELLO) as items:
        await anext(items)
    assert trio.current_time() == 0


async def test_a_server_on_this_machine_is_asked_without_a_proxy(
    server: ModelServer, models: OpenModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with models() as model:
        assert text_of(await answer(model)) == "Hello."


async def test_an_exception_in_the_block_is_raised_unchanged(server: ModelServer, models: OpenModel) -> None:
    server.answers(Reply().says("Hel").hangs())

    async def turn() -> None:
        async with models() as model, model.stream(HELLO) as items:
            await anext(items)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await turn()
    await server.until(lambda: server.open == 0)
    gc.collect()


async def test_two_hundred_cancelled_answers_leave_nothing(server: ModelServer, models: OpenModel) -> None:
    server.otherwise = Reply().says("Hel").hangs()
    begun = 0

    async def turn() -> None:
        nonlocal begun
        async with models() as model, model.stream(HELLO) as items:
            await anext(items)
            begun += 1
            async for _ in items:
                pass

    tasks_before = trio.lowlevel.current_statistics().tasks_living
    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(turn)
        while begun < 200:
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert server.open == 200
        nursery.cancel_scope.cancel()
    await server.until(lambda: server.open == 0)
    await trio.testing.wait_all_tasks_blocked()
    assert trio.lowlevel.current_statistics().tasks_living == tasks_before
    gc.collect()


async def test_an_answer_cancelled_at_any_checkpoint_leaves_nothing(
    server: ModelServer, models: OpenModel
) -> None:
    async def turn() -> None:
        async with models() as model:
            await answer(model)

    for halt in range(1, 400):
        cancelled = await cancelled_at(halt, turn)
        await server.until(lambda: server.open == 0)
        if not cancelled:
            break
    assert 5 < halt < 399
    gc.collect()


async def test_a_connection_is_kept_for_the_next_turn(server: ModelServer, wire: Wire, world: World) -> None:
    url = server.openai_url if wire == "openai" else server.anthropic_url
    ours = Endpoint(wire, url, "m", KEY)
    other = replace(ours, base_url=url.replace("127.0.0.1", "localhost"))
    async with open_http() as http:
        for _ in range(3):
            async with open_model(http, [ours], world, retries=0) as model:
                await answer(model)
        assert server.connections == server.open == 1
        async with open_model(http, [other], world, retries=0) as model:
            await answer(model)
        assert server.connections == server.open == 2, "each address has its own connections"
        server.answers(Reply().says("Hel").hangs())
        with trio.move_on_after(0.2):
            async with open_model(http, [ours], world, retries=0) as model:
                await answer(model)
        async with open_model(http, [ours], world, retries=0) as model:
            assert text_of(await answer(model)) == "Hello.", "a cut connection is not used again"
        async with trio.open_nursery() as nursery:
            for _ in range(2 * MOST_IDLE):
                nursery.start_soon(one_turn, http, ours, world)
        await server.until(lambda: server.open <= MOST_IDLE)
    await server.until(lambda: server.open == 0)
    gc.collect()


async def one_turn(http: Http, endpoint: Endpoint, world: World) -> None:
    async with open_model(http, [endpoint], world, retries=0) as model:
        await answer(model)
