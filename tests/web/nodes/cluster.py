"""Several gateways in one process, each with a home and a web server of its own, on one PostgreSQL server."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import msgspec
import trio

from hermes_trio.base.world import World
from hermes_trio.config.database_section import DatabaseConfig
from hermes_trio.config.schema import WebConfig
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.state.chosen_store import engine_of
from hermes_trio.state.rules.ownership import give_chat
from hermes_trio.testing import MemoryPlatform
from hermes_trio.web.app import Web
from hermes_trio.web.nodes.peers import Peers
from tests.postgres import PostgresServer
from tests.stage import Agent, Stage, everyone
from tests.web.conftest import KEY, PATIENCE, client


@dataclass
class Node:
    """One of the gateways, and a client of it."""

    stage: Stage
    gateway: RunningGateway
    http: httpx.AsyncClient

    @property
    def agent(self) -> Agent:
        return self.stage.agent

    @property
    def life(self) -> str:
        return self.gateway.home.life

    @property
    def peers(self) -> Peers:
        assert self.stage.web is not None
        return self.stage.web.opened.peers

    @property
    def said(self) -> list[str]:
        """The messages that its agent was called for."""
        return [said for said, _ in self.agent.began]


def stage_of(folder: Path, name: str, server: PostgresServer, key: str = KEY, **database: Any) -> Stage:
    """Return a gateway that shares the schema of this folder."""
    ids = f"{name}-{{}}"
    world = World(
        now=lambda: datetime.now(UTC), new_id=lambda: ids.format(uuid.uuid4().hex[:12]), jitter=lambda: 0.0
    )
    stage = Stage(folder / name / "home", world, MemoryPlatform(), Agent(), everyone())
    store = DatabaseConfig(url=server.url(), schema=f"of_{folder.name}", node=name, **database)
    stage.config = msgspec.structs.replace(stage.config, web=WebConfig(port=0, key=key), database=store)
    stage.open_engine = engine_of(store)
    return stage


@asynccontextmanager
async def serving(stage: Stage) -> AsyncIterator[Node]:
    """Run a gateway for as long as the block."""
    stage.web = Web(stage.config, "1.2.3")
    async with stage.life() as gateway, client(stage.web, stage.config.web.key) as http:
        yield Node(stage, gateway, http)


@asynccontextmanager
async def cluster(
    folder: Path, server: PostgresServer, *names: str, keys: tuple[str, ...] = ()
) -> AsyncIterator[list[Node]]:
    """Run several gateways that know each other, for as long as the block."""
    folder.mkdir(exist_ok=True)
    with trio.fail_after(2 * PATIENCE):
        async with AsyncExitStack() as stack:
            nodes = [
                await stack.enter_async_context(serving(stage_of(folder, name, server, key)))
                for name, key in zip(names, keys or (KEY,) * len(names), strict=True)
            ]
            for node in nodes:  # each knows those that began before it, and the others after a look
                await meet(node, len(nodes) - 1)
            yield nodes


async def meet(node: Node, others: int) -> None:
    """Wait until a gateway knows so many others."""
    while sum(peer.address is not None for peer in node.peers.known.values()) != others:
        await node.peers.changed.wait()


async def say(http: httpx.AsyncClient, session: str, text: str, **body: Any) -> dict[str, Any]:
    """Send a message to a session, and return what becomes of it."""
    response = await http.post(f"/api/sessions/{session}/messages", json={"text": text, **body})
    assert response.status_code == 202, response.text
    made: dict[str, Any] = response.json()
    return made


async def hand_over(giver: Node, taker: Node, session: str) -> None:
    """Give the chat of a session of the API to another gateway, as soon as nothing runs there."""
    place = ("api", "main", session)
    while not await giver.gateway.home.database.write(  # noqa: ASYNC110 - nothing announces it
        give_chat, giver.life, taker.life, *place
    ):
        await trio.sleep(0.02)


async def becomes(condition: Callable[[], bool]) -> None:
    """Poll until this is true, because no event announces it."""
    with trio.fail_after(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await trio.sleep(0.01)
