"""Errors of the model, as a client of completions sees them: it retries the temporary ones and no others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest

from hermes_trio.agent.model_agent import open_agent
from hermes_trio.config.config_file import Loaded
from hermes_trio.config.schema import AgentConfig, ModelConfig
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing.model_replies import Plain, Reply, refused
from hermes_trio.testing.model_server import ModelServer, open_model_server
from tests.web.conftest import WebStage
from tests.web.openai.openai_client import HELLO, official

pytestmark = pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")


@asynccontextmanager
async def with_a_model(stage: WebStage, home: Path) -> AsyncIterator[ModelServer]:
    """Run the block with the real agent, which sends one request to a model server."""
    async with open_model_server() as server:
        model = ModelConfig(
            provider="openai", base_url=server.openai_url, name="test-model", api_key="k" * 20
        )
        stage.config = msgspec.structs.replace(
            stage.config, model=model, agent=AgentConfig(api_max_retries=0)
        )
        loaded = Loaded(stage.config, (), home / "config.yaml", {"model.provider": "config.yaml"})
        stage.opened_agent = open_agent(loaded, {}, stage.world, tools={})
        yield server


@pytest.mark.parametrize(
    ("said", "status", "code"),
    [
        (refused("openai", 400, "invalid_request_error", "messages: no."), 400, "model_request_refused"),
        (refused("openai", 400, "x", "context_length_exceeded"), 400, "context_length_exceeded"),
        (refused("openai", 400, "content_policy_violation", "No."), 400, "content_filter"),
        (refused("openai", 401, "invalid_api_key", "Wrong key."), 424, "model_key_refused"),
        (refused("openai", 402, "billing", "Pay."), 424, "model_no_credit"),
        (refused("openai", 403, "permission_error", "Not you."), 424, "model_key_refused"),
        (refused("openai", 404, "not_found", "No such model."), 424, "model_unknown"),
        (Plain(302, "elsewhere"), 424, "not_a_model_server"),
    ],
)
async def test_a_permanent_model_error_is_not_retried_by_the_client(
    web_stage: WebStage, tmp_path: Path, said: Plain, status: int, code: str
) -> None:
    async with with_a_model(web_stage, tmp_path) as server:
        server.otherwise = said
        async with web_stage.served() as (gateway, _), official(web_stage, max_retries=2) as client:
            with pytest.raises(openai.APIStatusError) as refusal:
                await client.chat.completions.create(model="x", messages=HELLO)
            assert (refusal.value.status_code, refusal.value.code) == (status, code)
            assert "test-model" in refusal.value.message, "it names the model and the remedy"
            assert gateway.work.outcomes[Outcome.FAILED] == 1, "the client has sent one request"
            with pytest.raises(openai.APIError) as streamed:
                async for _ in await client.chat.completions.create(model="x", messages=HELLO, stream=True):
                    pass
            assert streamed.value.code == code


async def test_a_rate_limit_of_the_model_is_passed_on_to_the_client(
    web_stage: WebStage, tmp_path: Path
) -> None:
    async with (
        with_a_model(web_stage, tmp_path) as server,
        web_stage.served(),
        official(web_stage) as client,
        official(web_stage, max_retries=2) as patient,
    ):
        for said, waits in (("7", "7"), ("0.2", "1"), (None, None)):
            more: dict[str, Any] = {} if said is None else {"retry_after": said}
            server.answers(refused("openai", 429, "rate_limit_error", "Slowly.", **more))
            with pytest.raises(openai.RateLimitError) as limited:
                await client.chat.completions.create(model="x", messages=HELLO)
            assert limited.value.code == "rate_limit_exceeded"
            assert limited.value.response.headers.get("retry-after") == waits
        server.answers(refused("openai", 529, "overloaded_error", "Busy.", retry_after="3"))
        with pytest.raises(openai.InternalServerError) as busy:
            await client.chat.completions.create(model="x", messages=HELLO)
        assert (busy.value.status_code, busy.value.code) == (503, "model_overloaded")
        assert busy.value.response.headers["retry-after"] == "3"
        async with official(web_stage, max_retries=2) as patient:
            server.answers(
                refused("openai", 429, "rate_limit_error", "Slowly.", retry_after="1"),
                Reply().says("Now."),
            )
            answered = await patient.chat.completions.create(model="x", messages=HELLO)
            assert answered.choices[0].message.content == "Now."


async def test_a_temporary_model_error_may_be_retried_by_the_client(
    web_stage: WebStage, tmp_path: Path
) -> None:
    async with (
        with_a_model(web_stage, tmp_path) as server,
        web_stage.served(),
        official(web_stage, max_retries=1) as client,
    ):
        server.answers(refused("openai", 500, "server_error", "Oh."), Reply().says("Now."))
        answered = await client.chat.completions.create(model="x", messages=HELLO)
        assert answered.choices[0].message.content == "Now."
        server.answers(Reply().breaks(), Reply().breaks())
        with pytest.raises(openai.InternalServerError) as broken:
            await client.chat.completions.create(model="x", messages=HELLO)
        assert (broken.value.status_code, broken.value.code) == (502, "agent_incomplete")
