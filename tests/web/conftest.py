"""A gateway that serves HTTP on a port of this machine, and clients for it."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio

from hermes_trio.agent.model_agent import open_agent
from hermes_trio.base.world import World
from hermes_trio.config.config_file import Loaded
from hermes_trio.config.schema import ModelConfig, WebConfig
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.model_server import ModelServer
from hermes_trio.tools.tool import Tool
from hermes_trio.web.app import Web
from tests.stage import Agent, Stage, everyone

KEY = "a-key-for-tests-only"
PATIENCE = 30.0
"""Seconds; longer than any step takes on a busy machine."""


@dataclass
class WebStage(Stage):
    """A stage with the web."""

    away: timedelta = timedelta()
    """Seconds by which its clock is ahead."""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[tuple[RunningGateway, httpx.AsyncClient]]:
        """One life of the gateway, and a client that has the key."""
        self.web = Web(self.config, "1.2.3")
        with trio.fail_after(PATIENCE):
            async with self.life() as gateway, client(self.web) as http:
                yield gateway, http

    def asks(self, server: ModelServer, tools: Mapping[str, Tool]) -> None:
        """Use the agent of the gateway in the next life, with the model of this server and these tools."""
        model = ModelConfig(provider="openai", base_url=server.openai_url, name="test-model", api_key="k")
        self.config = msgspec.structs.replace(self.config, model=model)
        loaded = Loaded(self.config, (), self.home / "config.yaml", {"model.provider": "config.yaml"})
        self.opened_agent = open_agent(loaded, {}, self.world, tools=tools)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Poll until this is true, because no event announces it."""
        with trio.fail_after(PATIENCE):
            while not condition():  # noqa: ASYNC110
                await trio.sleep(0.01)


def client(web: Web, key: str | None = KEY) -> httpx.AsyncClient:
    """Return a client of this web; one without the key if `key` is None."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.AsyncClient(base_url=web.address, headers=headers, timeout=PATIENCE)


async def log_in(browser: httpx.AsyncClient, link: str) -> str:
    """Follow a link as a browser does, and send the headers of a page from then on. Returns the cookie."""
    got = await browser.get(link)
    assert got.status_code == 303
    browser.headers["X-Hermes-Page"] = got.headers["location"].partition("#key=")[2]
    return str(got.headers["set-cookie"])


@dataclass
class Heard:
    """The events of a stream."""

    frames: list[tuple[str | None, dict[str, Any]]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    """The events that belong to no run: a session has changed, or the state of the gateway."""
    comments: list[str] = field(default_factory=list)
    over: trio.Event = field(default_factory=trio.Event)
    broken: trio.Event = field(default_factory=trio.Event)
    """Set when the stream broke off."""
    _news: trio.Event = field(default_factory=trio.Event)

    @property
    def names(self) -> list[str]:
        return [data["event"] for _, data in self.frames]

    @property
    def ids(self) -> list[str]:
        return [event_id for event_id, _ in self.frames if event_id]

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return "".join(data["delta"] for _, data in self.frames if data["event"] == "message.delta")

    async def until(self, name: str, times: int = 1) -> None:
        """Wait until an event with this name was received `times` times."""
        with trio.fail_after(PATIENCE):
            while [*self.names, *(one["event"] for one in self.changes)].count(name) < times:
                await self._news.wait()

    async def listen(self, response: httpx.Response) -> None:
        event_id = None
        async for line in response.aiter_lines():
            if line.startswith("id: "):
                event_id = line[4:]
            elif line.startswith("data: "):
                data = json.loads(line[6:])
                if data["event"].endswith((".changed", ".deleted")):
                    self.changes.append(data)
                else:
                    self.frames.append((event_id, data))
                event_id = None
            elif line.startswith(":"):
                self.comments.append(line[1:].strip())
            self._news.set()
            self._news = trio.Event()
        self.over.set()


@asynccontextmanager
async def hearing(http: httpx.AsyncClient, cursor: str | None = None) -> AsyncIterator[Heard]:
    """Listen to the events of all sessions, for as long as the block."""
    heard, headers = Heard(), {"Last-Event-ID": cursor} if cursor is not None else {}
    connected = trio.Event()

    async def listen() -> None:
        async with http.stream("GET", "/api/events", headers=headers) as response:
            assert response.status_code == 200
            connected.set()
            try:
                await heard.listen(response)
            except httpx.RemoteProtocolError:
                heard.broken.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await connected.wait()
        while not heard.comments:
            await heard._news.wait()
        yield heard
        nursery.cancel_scope.cancel()


@pytest.fixture
def web_stage(tmp_path: Path) -> WebStage:
    """A gateway with the web, on the real clock."""
    ids = itertools.count(1)
    world = World(
        now=lambda: datetime.now(UTC) + stage.away, new_id=lambda: f"{next(ids):08x}", jitter=lambda: 0.0
    )
    stage = WebStage(tmp_path / "home", world, MemoryPlatform(), Agent(), everyone())
    stage.config = msgspec.structs.replace(stage.config, web=WebConfig(port=0, key=KEY))
    return stage
