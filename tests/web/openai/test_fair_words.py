"""Words of a running answer go before turns that begin. Their order decides these tests, and no time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field

import trio

from hermes_trio.agent.model_agent import Agent
from hermes_trio.agent.providers.model import Finished, Item, Model, ModelRequest, TextDelta
from hermes_trio.agent.providers.model_messages import UserMessage
from hermes_trio.agent.toolset import Toolbox
from tests.web.conftest import WebStage
from tests.web.direct_request import complete_directly

CROWD = 90
"""Turns that begin in one moment: fewer than the limit of running turns admits."""


@dataclass
class BusyModel:
    """A model that tells one client two words, the second as soon as another client asks. It answers the
    others when the second word was shown."""

    is_told: trio.Event = field(default_factory=trio.Event)
    is_asked: trio.Event = field(default_factory=trio.Event)
    asked: list[str] = field(default_factory=list)
    """The texts of the other clients, in the order in which they were asked."""
    name: str = "busy"

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Item]]:
        said = request.messages[-1]
        assert isinstance(said, UserMessage)
        if said.text != "talk":
            self.asked.append(said.text)
            self.is_asked.set()
        yield _words(self.is_asked) if said.text == "talk" else _words(self.is_told)


async def _words(until: trio.Event) -> AsyncIterator[Item]:
    await trio.lowlevel.checkpoint()
    yield TextDelta("first")
    await until.wait()
    yield TextDelta("second")
    yield Finished("stop")


async def test_a_word_is_shown_before_most_turns_of_a_crowd_ask_their_model(web_stage: WebStage) -> None:
    model, begun, asked_before = BusyModel(), trio.Event(), list[int]()

    def open_model() -> nullcontext[Model]:
        return nullcontext(model)

    def read(data: bytes) -> None:
        if b"first" in data:
            begun.set()
        if b"second" in data:
            asked_before.append(len(model.asked))
            model.is_told.set()

    agent = Agent(open_model, Toolbox(open_model, {}), web_stage.world, window=None, most=5)
    web_stage.opened_agent = nullcontext(agent)
    async with web_stage.served(), trio.open_nursery() as clients:
        assert web_stage.web is not None
        clients.start_soon(complete_directly, web_stage.web, "running", "talk", read)
        await begun.wait()
        for number in range(CROWD):
            text = f"number {number}"
            clients.start_soon(complete_directly, web_stage.web, f"session-{number}", text, len)
    assert asked_before[0] <= CROWD // 3
    assert len(model.asked) == CROWD, "all of them get their answers"
