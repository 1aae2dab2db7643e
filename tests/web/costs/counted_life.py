"""A life of the gateway with its own agent and a model server on this machine, whose jobs are counted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import msgspec
import trio
import trio.testing

from hermes_trio.agent.model_agent import open_agent
from hermes_trio.config.config_file import Loaded
from hermes_trio.config.schema import ModelConfig
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import ModelServer, open_model_server
from hermes_trio.tools.tool import Tool
from tests.disk import Disk
from tests.stage import Stage
from tests.web.conftest import WebStage

from .job_counts import Cost, JobCounts

IDLE = 0.05
"""Seconds in which no task ran: longer than data takes between two sockets of this machine."""


@dataclass
class CountedLife:
    """The model of a gateway, and the jobs of its worker threads."""

    model: ModelServer
    jobs: JobCounts

    async def cost(self) -> Cost:
        """Return the jobs since the last call, once nothing more happens: each job is done at once."""
        await trio.testing.wait_all_tasks_blocked(IDLE)
        return self.jobs.take()


@asynccontextmanager
async def counted(stage: Stage, tools: Sequence[Tool] = ()) -> AsyncIterator[CountedLife]:
    """Let the next lives of this stage have a model that says hello, these tools, and counted jobs."""
    async with open_model_server() as server, trio.open_nursery() as disk:
        server.otherwise = Reply().says("Hello there.").uses(100, 3)
        model = ModelConfig(provider="openai", base_url=server.openai_url, name="test-model", api_key="k")
        stage.config = msgspec.structs.replace(stage.config, model=model)
        loaded = Loaded(stage.config, (), stage.home / "config.yaml", {"model.provider": "config.yaml"})
        stage.opened_agent = open_agent(loaded, {}, stage.world, tools={tool.name: tool for tool in tools})
        # Not `inline_worker`: it wakes Trio's entry queue once more, perhaps between two tasks that write
        # at the same moment, which would then not share a commit.
        life = CountedLife(server, JobCounts(Disk(disk).worker))
        stage.worker = life.jobs.worker
        yield life


@asynccontextmanager
async def counted_web(
    stage: WebStage, tools: Sequence[Tool] = ()
) -> AsyncIterator[tuple[httpx.AsyncClient, CountedLife]]:
    """Serve HTTP with a counted life. What the start cost is not counted."""
    async with counted(stage, tools) as life, stage.served() as (_, http):
        await life.cost()
        yield http, life


async def complete(http: httpx.AsyncClient, *, stream: bool = False, session: str = "one") -> str:
    """Say hi through the completions route; return the body of the answer."""
    asked = {"model": "x", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
    answered = await http.post("/v1/chat/completions", json=asked, headers={"X-Hermes-Session-Id": session})
    assert answered.status_code == 200
    return answered.text
