"""A client of the runs API: begins runs, reads their state and follows their events."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import trio

from tests.web.conftest import PATIENCE


async def begun(http: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await http.post("/v1/runs", json=body)
    assert response.status_code == 202, response.text
    made: dict[str, Any] = response.json()
    return made


async def stands(http: httpx.AsyncClient, run: dict[str, Any]) -> dict[str, Any]:
    response = await http.get(f"/v1/runs/{run['run_id']}")
    assert response.status_code == 200
    told: dict[str, Any] = response.json()
    return told


async def until(http: httpx.AsyncClient, run: dict[str, Any], status: str) -> dict[str, Any]:
    with trio.fail_after(PATIENCE):
        while (told := await stands(http, run))["status"] != status:  # noqa: ASYNC110
            await trio.sleep(0.01)
    return told


@dataclass
class Followed:
    """The events of one run."""

    frames: list[tuple[str | None, dict[str, Any]]] = field(default_factory=list)
    is_done: bool = False
    """True if the stream ended with `[DONE]`."""
    connected: trio.Event = field(default_factory=trio.Event)
    over: trio.Event = field(default_factory=trio.Event)
    _news: trio.Event = field(default_factory=trio.Event)

    @property
    def names(self) -> list[str]:
        return [data["event"] for _, data in self.frames]

    @property
    def ids(self) -> list[str | None]:
        return [event_id for event_id, _ in self.frames]

    async def until(self, name: str) -> dict[str, Any]:
        """Wait for the event with this name, and return it."""
        with trio.fail_after(PATIENCE):
            while name not in self.names:
                await self._news.wait()
        return self.frames[self.names.index(name)][1]

    async def read(self, response: httpx.Response) -> None:
        event_id = None
        async for line in response.aiter_lines():
            self.connected.set()
            if line.startswith("id: "):
                event_id = line[4:]
            elif line.startswith("data: {"):
                self.frames.append((event_id, json.loads(line[6:])))
                event_id = None
            self.is_done = self.is_done or line == "data: [DONE]"
            self._news.set()
            self._news = trio.Event()
        self.over.set()


@asynccontextmanager
async def listening(
    http: httpx.AsyncClient, run: dict[str, Any], *at: Any, **how: Any
) -> AsyncIterator[Followed]:
    """Follow the events of a run, for as long as the block."""
    followed = Followed()

    async def listen() -> None:
        path = f"/v1/runs/{run['run_id']}/events"
        async with http.stream("GET", path, *at, **how) as response:
            assert response.status_code == 200
            await followed.read(response)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        with trio.fail_after(PATIENCE):
            await followed.connected.wait()
        yield followed
        nursery.cancel_scope.cancel()


async def events(http: httpx.AsyncClient, run: dict[str, Any], cursor: str | None = None) -> Followed:
    """Return all events, up to the end of the stream."""
    headers = {"Last-Event-ID": cursor} if cursor is not None else {}
    async with listening(http, run, headers=headers) as followed:
        with trio.fail_after(PATIENCE):
            await followed.over.wait()
    return followed
