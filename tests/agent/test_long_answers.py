"""A model that does not stop: its answer so far is kept, and the turn ends with an error that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_trio.agent.providers import model_errors
from hermes_trio.agent.providers.stream import LONGEST_CALLS, LONGEST_TEXT, LONGEST_THOUGHT
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing.model_replies import Reply, Wire
from hermes_trio.testing.model_server import ModelServer
from tests.agent.agent_scene import Provider, open_scene
from tests.agent.providers.conftest import OpenModel, endpoint, models, outcome, server, text_of, wire, world

__all__ = ["endpoint", "models", "server", "wire", "world"]

PIECE = 50_000
ENDLESS = "0123456789" * 3_000_000
"""Text without an end: the client must close the connection long before it has read it all."""


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_an_endless_answer_is_ended_and_its_beginning_kept(tmp_path: Path, provider: Provider) -> None:
    async with open_scene(tmp_path, provider=provider) as scene:
        scene.server.answers(Reply(piece=PIECE).says(ENDLESS).hangs())
        shown = await scene.says("go on for ever", until="grew longer than")
        assert (
            "the answer broke off: the answer grew longer than 500000 characters and was ended. Ask for less "
            "at a time" in shown
        )
        user, kept = await scene.rows()
        assert (user.role, kept.role) == ("user", "assistant")
        assert kept.content == ENDLESS[:LONGEST_TEXT]
        assert scene.gateway.work.outcomes[Outcome.FAILED] == 1
        assert len(scene.server.requests) == 1, "the request is not repeated"
        scene.server.answers(Reply().says("Yes."))
        await scene.says("are you there?", until="Yes.")


async def test_one_piece_that_is_too_long_is_cut(tmp_path: Path) -> None:
    async with open_scene(tmp_path) as scene:
        scene.server.answers(Reply().says("a" + "b" * LONGEST_TEXT))
        await scene.says("all at once", until="grew longer than")
        _, kept = await scene.rows()
        assert kept.content == "a" + "b" * (LONGEST_TEXT - 1)


async def test_an_answer_as_long_as_the_limit_is_complete(server: ModelServer, models: OpenModel) -> None:
    server.answers(Reply(piece=PIECE).says("x" * LONGEST_TEXT))
    async with models() as model:
        items, error = await outcome(model)
    assert error is None
    assert len(text_of(items)) == LONGEST_TEXT


async def test_endless_arguments_are_an_error_and_run_nothing(server: ModelServer, models: OpenModel) -> None:
    server.answers(Reply(piece=PIECE).calls("ls", '{"path": "' + ENDLESS).hangs())
    async with models(retries=3) as model:
        _, error = await outcome(model)
    assert isinstance(error, model_errors.AnswerTooLong)
    assert f"a tool call grew longer than {LONGEST_CALLS} characters" in str(error)
    assert len(server.requests) == 1


async def test_many_calls_share_one_length_limit(server: ModelServer, models: OpenModel) -> None:
    reply = Reply()
    for _ in range(5):
        reply = reply.calls("ls", '{"path": "' + "x" * (LONGEST_CALLS // 4) + '"}')
    server.answers(reply)
    async with models() as model:
        _, error = await outcome(model)
    assert isinstance(error, model_errors.AnswerTooLong)


async def test_endless_reasoning_is_ended(server: ModelServer, models: OpenModel, wire: Wire) -> None:
    server.answers(Reply(piece=PIECE).thinks(ENDLESS).hangs())
    async with models("other", retries=3) as model:
        items, error = await outcome(model)
    assert error is None
    assert text_of(items) == "Hello.", "the fallback model answers"
    assert [asked.body["model"] for asked in server.requests] == ["test-model", "other"]
    server.answers(Reply(piece=PIECE).thinks(ENDLESS).hangs())
    async with models() as model:
        _, error = await outcome(model)
    assert isinstance(error, model_errors.AnswerTooLong)
    assert f"the reasoning grew longer than {LONGEST_THOUGHT} characters" in str(error)
