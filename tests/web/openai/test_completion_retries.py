"""The same completion requested twice, and clients that go away before the answer."""

from __future__ import annotations

from functools import partial

import pytest
import trio

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script
from tests.web.conftest import WebStage
from tests.web.openai.openai_client import HELLO, at_rest, complete, left, official, said

# The official client leaves its generators to the collector, on Trio too.
pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


async def test_the_same_request_with_an_idempotency_key_is_answered_once(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        answers = []
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                answers.append(await complete(http, ("user", "hello"), Idempotency_Key="k"))

            for _ in range(3):
                nursery.start_soon(ask)
    async with web_stage.served() as (_, http):
        answers.append(await complete(http, ("user", "hello"), Idempotency_Key="k"))
        other = await complete(http, ("user", "other"), Idempotency_Key="k")
        assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")
        assert said(await complete(http, ("user", "hello"), Idempotency_Key="k2")) == "You said: hello"
    assert {said(one) for one in answers} == {"You said: hello"}
    assert len({one.json()["id"] for one in answers}) == 1
    assert [one[0] for one in web_stage.agent.began] == ["hello", "hello"]


async def test_a_client_with_an_idempotency_key_can_come_back_for_the_answer(web_stage: WebStage) -> None:
    go_on = trio.Event()

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        began.set()
        await go_on.wait()
        return "Done."

    began = trio.Event()
    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(complete, http, ("user", "hello"), Idempotency_Key="k"))
            await began.wait()
            nursery.cancel_scope.cancel()
        await web_stage.until(lambda: not web_stage.web.callers)  # type: ignore[union-attr]
        go_on.set()
        assert said(await complete(http, ("user", "hello"), Idempotency_Key="k")) == "Done."


async def test_a_client_without_an_idempotency_key_that_leaves_stops_its_turn(web_stage: WebStage) -> None:
    web_stage.agent.on("hello", Script().hangs())
    async with web_stage.served() as (gateway, http):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(complete, http, ("user", "hello"))
            await web_stage.until(lambda: len(web_stage.agent.began) == 1)
            nursery.cancel_scope.cancel()
        await at_rest(web_stage, gateway)
        assert left(web_stage) == [("hello", "cancelled")]


async def test_a_turn_with_two_waiting_clients_goes_on_when_the_first_leaves(web_stage: WebStage) -> None:
    go_on = trio.Event()

    async def agent(turn: TurnContext) -> str:
        await turn.say("I begin.")
        await go_on.wait()
        return "I begin."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served(), official(web_stage) as client:
        keyed = {"Idempotency-Key": "k"}
        create = client.chat.completions.create
        one = await create(model="x", messages=HELLO, stream=True, extra_headers=keyed)
        other = await create(model="x", messages=HELLO, stream=True, extra_headers=keyed)
        async for chunk in one:
            if chunk.choices[0].delta.content:
                break
        await web_stage.until(lambda: list(web_stage.web.callers.values()) == [2])  # type: ignore[union-attr]
        await one.close()
        await web_stage.until(lambda: list(web_stage.web.callers.values()) == [1])  # type: ignore[union-attr]
        go_on.set()
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in other]) == "I begin."
