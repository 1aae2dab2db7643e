"""A silent model: the person is told when an attempt has failed, and the retries end."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
import trio

from hermes_trio.agent.model_agent import open_agent
from hermes_trio.config.config_file import Loaded
from hermes_trio.config.schema import AgentConfig, ModelConfig
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import ModelServer, open_model_server
from tests.stage import Stage


def silent(seconds: float) -> Reply:
    """Return a reply that sends nothing for this time and then closes the connection."""
    return replace(Reply().breaks(), head_after=seconds)


def use_real_agent(stage: Stage, server: ModelServer) -> None:
    """Give the stage the real agent, with this server as its model."""
    model = ModelConfig(provider="openai", base_url=server.openai_url, name="test-model", api_key="k" * 20)
    stage.config = msgspec.structs.replace(stage.config, model=model, agent=AgentConfig(gateway_timeout=0))
    loaded = Loaded(stage.config, (), stage.home / "config.yaml", {"model.provider": "config.yaml"})
    stage.opened_agent = open_agent(loaded, {}, stage.world, tools={})


async def test_a_person_is_told_of_a_retry_after_a_long_silence(stage: Stage) -> None:
    async with open_model_server() as server:
        server.answers(silent(70), silent(70), Reply().says("Here I am."))
        use_real_agent(stage, server)
        heard: list[tuple[float, str]] = []
        async with stage.life():
            began = trio.current_time()
            await stage.platform.says("hello")
            while "Here I am." not in stage.platform.chat("42").texts:
                await stage.platform.until(lambda: len(stage.platform.chat("42").texts) > len(heard))
                heard.append((trio.current_time() - began, stage.platform.chat("42").texts[len(heard)]))
    waits = "⏳ The model: the connection ended before the answer did; asking again in {} s."
    mentions = [(round(at), text) for at, text in heard if text.startswith("⏳ The model")]
    assert mentions == [(70, waits.format(2)), (142, waits.format(4))]


async def test_a_model_that_stays_silent_is_given_up(stage: Stage) -> None:
    async with open_model_server() as server:
        server.otherwise = silent(200)
        use_real_agent(stage, server)
        async with stage.life() as gateway:
            began = trio.current_time()
            await stage.platform.says("hello")
            await stage.platform.until(lambda: "Try again." in (stage.platform.chat("42").last or ""))
            assert trio.current_time() - began == pytest.approx(402, abs=2)
            assert gateway.work.outcomes[Outcome.FAILED] == 1
        assert len(server.requests) == 2


async def test_quick_failures_are_retried_as_often_as_configured(stage: Stage) -> None:
    async with open_model_server() as server:
        server.otherwise = Reply().breaks()
        use_real_agent(stage, server)
        async with stage.life():
            await stage.platform.says("hello")
            await stage.platform.until(lambda: "Try again." in (stage.platform.chat("42").last or ""))
            mentions = [text for text in stage.platform.chat("42").texts if text.startswith("⏳ The model")]
        assert len(server.requests) == 1 + stage.config.agent.api_max_retries
        assert len(mentions) == 1, "waits of two and four seconds are not mentioned"
