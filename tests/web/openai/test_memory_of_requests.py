"""Memory that a request holds while its turn runs, and after it."""

from __future__ import annotations

import gc

import httpx
import pytest
import trio
from starlette.requests import Request

from hermes_trio.gateway.operations.conversation_entry import ConversationInput
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing.model_server import open_model_server
from hermes_trio.web.openai.completion_request import ChatCompletion
from tests.cyclic_garbage import cyclic_garbage
from tests.web.conftest import WebStage
from tests.web.openai.openai_client import HELLO, at_rest


async def ask(http: httpx.AsyncClient, *, stream: bool) -> str:
    asked = {"stream": stream, "messages": HELLO}
    answered = await http.post("/v1/chat/completions", json=asked)
    return answered.text


def requests() -> list[object]:
    """Return what is kept of requests in this process."""
    return [one for one in gc.get_objects() if isinstance(one, Request | ChatCompletion | ConversationInput)]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_is_not_kept_while_its_turn_runs(web_stage: WebStage, stream: bool) -> None:
    """A request may bring a conversation of megabytes, which is stored when its turn begins."""
    has_begun, may_end = trio.Event(), trio.Event()

    async def agent(turn: TurnContext) -> str:
        await turn.say("I begin.")
        has_begun.set()
        await may_end.wait()
        return "I begin."

    web_stage.agent = agent  # type: ignore[assignment]
    others = requests()  # of other tests
    async with web_stage.served() as (_, http), trio.open_nursery() as nursery:
        nursery.start_soon(lambda: ask(http, stream=stream))
        await has_begun.wait()
        assert [one for one in requests() if not any(one is other for other in others)] == []
        may_end.set()


@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_of_the_api_leaves_nothing_to_the_garbage_collector(
    web_stage: WebStage, stream: bool
) -> None:
    async with open_model_server() as server:
        web_stage.asks(server, {})
        async with web_stage.served() as (gateway, http):
            assert "Hello" in await ask(http, stream=stream)
            with cyclic_garbage() as garbage:
                await ask(http, stream=stream)
                await at_rest(web_stage, gateway)
            assert not garbage
