"""The exact number of commits, reads and journal jobs of a turn, with the agent of the gateway and a model
server on this machine, through the doors that people use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import msgspec
import pytest
import trio

from hermes_trio.agent.model_agent import open_agent
from hermes_trio.config.config_file import Loaded
from hermes_trio.config.schema import ModelConfig
from hermes_trio.platform import Traits
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import open_model_server
from tests.web.conftest import WebStage

from .job_counts import Cost, JobCounts

QUIET = 0.25
"""Seconds in which everything that follows from an answer has happened: each job is done at once."""


@asynccontextmanager
async def counted(stage: WebStage) -> AsyncIterator[tuple[httpx.AsyncClient, JobCounts]]:
    """Serve with a model that says hello, and count the jobs of the worker threads."""
    jobs = JobCounts()
    async with open_model_server() as server:
        model = ModelConfig(provider="openai", base_url=server.openai_url, name="test-model", api_key="k")
        stage.config = msgspec.structs.replace(stage.config, model=model)
        path = stage.home / "config.yaml"
        loaded = Loaded(stage.config, (), path, {"model.provider": "config.yaml"})
        stage.opened_agent = open_agent(loaded, {}, stage.world, tools={})
        server.otherwise = Reply().says("Hello there.").uses(100, 3)
        stage.worker = jobs.worker
        async with stage.served() as (_, http):
            await trio.sleep(QUIET)
            jobs.take()
            yield http, jobs


async def cost_of_completion(http: httpx.AsyncClient, jobs: JobCounts, *, stream: bool) -> Cost:
    """Return the cost of one chat completion."""
    asked = {"model": "x", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
    answered = await http.post("/v1/chat/completions", json=asked, headers={"X-Hermes-Session-Id": "one"})
    assert answered.status_code == 200
    assert "Hello there." in answered.text
    await trio.sleep(QUIET)
    return jobs.take()


@pytest.mark.parametrize("stream", [False, True])
async def test_an_api_turn_is_accepted_begun_and_ended_in_one_commit_each(
    web_stage: WebStage, stream: bool
) -> None:
    async with counted(web_stage) as (http, jobs):
        cold = await cost_of_completion(http, jobs, stream=stream)
        assert cold == Cost(commits=4, reads=2, journal=3), "the prompt of a new session is stored"
        for _ in range(3):
            warm = await cost_of_completion(http, jobs, stream=stream)
            assert warm == Cost(commits=3, reads=2, journal=3)


async def test_a_run_costs_no_more_than_a_chat_completion(web_stage: WebStage) -> None:
    async with counted(web_stage) as (http, jobs):
        for commits in (4, 3, 3):
            answered = await http.post("/v1/runs", json={"input": "hi", "session_id": "one"})
            assert answered.status_code == 202
            await trio.sleep(2 * QUIET)
            assert jobs.take() == Cost(commits=commits, reads=2, journal=3)


async def test_an_answer_in_a_chat_adds_its_attempt_and_its_receipt(web_stage: WebStage) -> None:
    async with counted(web_stage) as (_, jobs):
        for commits in (6, 5, 5):
            await web_stage.platform.says("hi")
            await trio.sleep(2 * QUIET)
            assert jobs.take() == Cost(commits, reads=4, journal=3)
        assert web_stage.platform.chat("42").texts == ["Hello there."] * 3


async def test_a_streamed_answer_adds_the_attempt_and_the_receipt_of_its_first_message(
    web_stage: WebStage,
) -> None:
    web_stage.platform = MemoryPlatform(traits=Traits(edits=True))
    async with counted(web_stage) as (_, jobs):
        for commits in (7, 6, 6):
            await web_stage.platform.says("hi")
            await trio.sleep(2 * QUIET)
            assert jobs.take() == Cost(commits, reads=4, journal=3)


async def test_the_sender_is_looked_for_once_in_each_connection(web_stage: WebStage) -> None:
    async with counted(web_stage) as (http, jobs):
        for looks in (1, 0, 0):
            await http.post("/v1/runs", json={"input": "hi", "session_id": "one"})
            assert jobs.looks() == looks
        async with httpx.AsyncClient(base_url=http.base_url, headers=http.headers) as other:
            await other.post("/v1/runs", json={"input": "hi", "session_id": "one"})
            assert jobs.looks() == 1
