"""Retries and the fallback model: conditions, number and pauses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.agent.providers import model_errors
from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model import (
    Finished,
    ModelReplaced,
    RetryScheduled,
    ToolCallBroken,
    ToolCallReady,
)
from hermes_trio.agent.providers.model_clients import Http
from hermes_trio.agent.providers.open_models import open_model
from hermes_trio.agent.providers.retry import RetryingModel, pause
from hermes_trio.base.world import World
from hermes_trio.testing.model_replies import Reply, Wire, refused
from hermes_trio.testing.model_server import ModelServer
from tests.agent.providers.conftest import HELLO, OpenModel, answer, outcome, text_of


async def test_a_request_to_a_busy_server_is_retried_after_growing_pauses(
    server: ModelServer, wire: Wire, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(*[refused(wire, 529, "overloaded_error", "Overloaded")] * 3)
    async with models(retries=3) as model:
        items = await answer(model)
    assert [item.seconds for item in items if isinstance(item, RetryScheduled)] == [2, 4, 8]
    assert text_of(items) == "Hello."
    assert trio.current_time() == 14


async def test_the_pause_is_the_one_that_the_server_asks_for(
    server: ModelServer, wire: Wire, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(refused(wire, 429, "rate_limit_error", "Slowly", retry_after="33"))
    async with models(retries=1) as model:
        assert text_of(await answer(model)) == "Hello."
    assert trio.current_time() == 33


async def test_a_wait_of_an_hour_is_an_error(
    server: ModelServer, wire: Wire, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(refused(wire, 429, "rate_limit_error", "Slowly", retry_after="3600"))
    async with models(retries=5) as model:
        with pytest.raises(model_errors.RateLimited) as caught:
            await answer(model)
    assert (caught.value.after, trio.current_time()) == (3600, 0)


async def test_retries_end_at_their_configured_number(
    server: ModelServer, wire: Wire, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.otherwise = refused(wire, 500, "api_error", "Oops")
    async with models(retries=2) as model:
        with pytest.raises(model_errors.ServerTrouble):
            await answer(model)
    assert len(server.requests) == 3


async def test_a_request_that_cannot_succeed_is_not_retried(
    server: ModelServer, wire: Wire, models: OpenModel
) -> None:
    server.otherwise = refused(wire, 401, "authentication_error", "No")
    async with models(retries=5) as model:
        with pytest.raises(model_errors.KeyRefused):
            await answer(model)
    assert len(server.requests) == 1


@pytest.mark.parametrize("trouble", [Reply().breaks(), Reply().fails("overloaded_error", "Overloaded")])
async def test_a_stream_that_breaks_before_its_first_text_is_retried(
    trouble: Reply, server: ModelServer, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(trouble)
    async with models(retries=1) as model:
        items = await answer(model)
    assert [type(item) for item in items[:1]] == [RetryScheduled]
    assert text_of(items) == "Hello."


async def test_a_pause_holds_no_connection(
    server: ModelServer, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(*[Reply().fails("overloaded_error").hangs()] * 2)
    async with models(retries=2) as model, model.stream(HELLO) as items:
        for _ in range(2):
            assert isinstance(await anext(items), RetryScheduled)
            await server.until(lambda: server.open == 0)
        assert text_of([item async for item in items]) == "Hello."


async def test_a_server_that_was_silent_for_long_is_replaced_without_a_retry(
    server: ModelServer, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(replace(Reply(), head_after=1e6))
    async with models("other", retries=3) as model, model.stream(HELLO) as items:
        assert isinstance(await anext(items), ModelReplaced)
        await server.until(lambda: server.open == 0)
        assert trio.current_time() == 900
        assert text_of([item async for item in items]) == "Hello."
    assert [asked.body["model"] for asked in server.requests] == ["test-model", "other"]


async def test_a_stream_that_breaks_after_its_first_text_is_not_retried(
    server: ModelServer, models: OpenModel
) -> None:
    server.answers(Reply().says("Hel").fails("overloaded_error", "Overloaded"))
    async with models("other", retries=5) as model:
        items, error = await outcome(model)
    assert text_of(items) == "Hel"
    assert isinstance(error, model_errors.Interrupted)
    assert isinstance(error.cause, model_errors.Overloaded)
    assert error.may_retry
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "trouble",
    [Reply().thinks("Hm.").breaks(), Reply().thinks("Hm.").calls("ls", '{"path"').fails("overloaded_error")],
)
async def test_a_failure_after_reasoning_or_a_begun_call_is_retried(
    trouble: Reply, server: ModelServer, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(trouble)
    async with models(retries=1) as model:
        items = await answer(model)
    assert text_of(items) == "Hello."
    assert isinstance(items[-1], Finished)
    assert sum(isinstance(item, RetryScheduled) for item in items) == 1
    assert not any(isinstance(item, ToolCallReady | ToolCallBroken) for item in items)


async def test_the_fallback_model_answers_for_the_rest_of_the_turn(
    server: ModelServer, wire: Wire, models: OpenModel
) -> None:
    server.answers(refused(wire, 404, "not_found_error", "model: test-model"))
    async with models("other", retries=3) as model:
        items = await answer(model)
        assert [item.model for item in items if isinstance(item, ModelReplaced)] == ["other"]
        assert (text_of(items), model.name) == ("Hello.", "other")
        await answer(model)
    assert [asked.body["model"] for asked in server.requests] == ["test-model", "other", "other"]


async def test_the_fallback_model_has_as_many_attempts(
    server: ModelServer, wire: Wire, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.answers(*[refused(wire, 500, "api_error", "Oops")] * 3)
    async with models("other", retries=1) as model:
        assert isinstance((await answer(model))[-1], Finished)
    assert [asked.body["model"] for asked in server.requests] == ["test-model"] * 2 + ["other"] * 2


async def test_a_conversation_that_is_too_long_goes_to_no_other_model(
    server: ModelServer, wire: Wire, models: OpenModel
) -> None:
    server.answers(refused(wire, 400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"))
    async with models("other") as model:
        with pytest.raises(model_errors.ContextTooLong):
            await answer(model)


async def test_a_pause_can_be_cancelled(
    server: ModelServer, wire: Wire, models: OpenModel, autojump_clock: MockClock
) -> None:
    server.otherwise = refused(wire, 429, "rate_limit_error", "Slowly", retry_after="500")
    async with models(retries=5) as model:
        with trio.move_on_after(7):
            await answer(model)
        assert trio.current_time() == 7


def test_pauses_double_up_to_a_maximum() -> None:
    endpoint = Endpoint("openai", "http://x/v1", "m")
    busy, odd = model_errors.Overloaded(endpoint), model_errors.StreamMalformed(endpoint)
    assert [pause(n, busy, 0.0) for n in range(1, 8)] == [2, 4, 8, 16, 32, 60, 60]
    assert [pause(n, odd, 0.0) for n in (1, 2, 6, 10_000)] == [5, 10, 120, 120]
    assert pause(1, busy, 1.0) == 3
    assert pause(1, model_errors.RateLimited(endpoint, after=7), 0.5) == 7.5


async def test_only_a_refused_connection_elsewhere_is_retried(
    wire: Wire, world: World, autojump_clock: MockClock
) -> None:
    """A server elsewhere may be starting up; a server on this machine has to be started by a person."""
    away = Endpoint(wire, "http://127.0.0.1:1/v1", "m")
    assert not model_errors.CannotConnect(away, refused=True).may_retry
    assert model_errors.CannotConnect(replace(away, base_url="http://example.org/v1"), refused=True).may_retry
    async with open_model(Http(), [away], world, retries=3) as model:
        assert isinstance(model, RetryingModel)
        with pytest.raises(model_errors.CannotConnect):
            await answer(model)
    assert trio.current_time() == 0
