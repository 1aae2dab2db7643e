"""Memory that a request holds while its turn runs."""

from __future__ import annotations

import gc

import httpx
import pytest
import trio
from starlette.requests import Request

from hermes_trio.gateway.operations.conversation_entry import ConversationInput
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.web.openai.completion_request import ChatCompletion
from tests.web.conftest import WebStage
from tests.web.openai.openai_client import HELLO


async def ask(http: httpx.AsyncClient, *, stream: bool) -> str:
    asked = {"stream": stream, "messages": HELLO}
    answered = await http.post("/v1/chat/completions", json=asked)
    return answered.text


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
    async with web_stage.served() as (_, http), trio.open_nursery() as nursery:
        nursery.start_soon(lambda: ask(http, stream=stream))
        await has_begun.wait()
        kept = (Request, ChatCompletion, ConversationInput)
        assert [one for one in gc.get_objects() if isinstance(one, kept)] == []
        may_end.set()
