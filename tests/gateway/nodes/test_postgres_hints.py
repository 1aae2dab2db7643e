"""Gateways on one PostgreSQL server hint to each other that work waits. They look by themselves so rarely
here that only a hint can make them take it up."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial

import pytest
import trio
import trio.testing

from hermes_trio.gateway.nodes.lease import Node
from hermes_trio.gateway.outbound.rows import Body, Chat, owed
from hermes_trio.state.tables import outbox
from hermes_trio.testing import Script
from tests.postgres import PATIENCE, PostgresServer, postgres_engine, postgres_server
from tests.stage import Stage

from .shared_store import NodeLife, SharedStore, shared_store

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the server is on a Unix socket")

RARELY = 3600.0
CHAT = Chat("memory", "main", "42")


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


async def two_gateways(store: SharedStore) -> tuple[NodeLife, NodeLife]:
    """Start two gateways. The first one receives, and the second one owns the chat."""
    first, second = [await store.start(name, Node(name, RARELY, look=RARELY)) for name in ("first", "second")]
    await answered(store, "one")
    assert await first.give("42", second)
    return first, second


async def answered(store: SharedStore, text: str) -> None:
    """Say something, and wait for the answer."""
    store.platform.post(text)
    await shown(store, f"You said: {text}")


async def shown(store: SharedStore, text: str) -> None:
    """Wait until the chat has this message."""
    with trio.fail_after(PATIENCE):
        await store.platform.until(lambda: text in store.platform.chat("42").texts)


async def test_work_for_another_gateway_is_taken_up_at_a_hint(
    real_stage: Stage, server: PostgresServer
) -> None:
    real_stage.open_engine = postgres_engine(server.conninfo)
    async with shared_store(real_stage) as store:
        first, second = await two_gateways(store)
        await answered(store, "two")
        # A hint may be lost with a connection. The new one begins with a look.
        lost = server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN %'"
        )
        assert lost
        await answered(store, "three")
        await answered(store, "four")
        owe = partial(outbox.owe, owed=owed(CHAT, "a note", Body("Owed by the other one.")), at=0.0)
        assert first.gateway is not None
        await trio.testing.wait_all_tasks_blocked(0.2)  # the lane of the owner has nothing left to look for
        await first.gateway.home.database.write(owe)
        first.gateway.chats.lane(CHAT).deliver()
        await shown(store, "Owed by the other one.")
        assert [said for said, _ in first.agent.began] == ["one"]
        assert [said for said, _ in second.agent.began] == ["two", "three", "four"]


async def test_the_cut_turns_of_a_gateway_that_stops_are_resumed_at_a_hint(
    real_stage: Stage, server: PostgresServer
) -> None:
    real_stage.open_engine = postgres_engine(server.conninfo)
    real_stage.agent.on("long", Script().takes(2).says("the answer"))
    async with shared_store(real_stage) as store:
        first, second = await two_gateways(store)
        store.platform.post("long")
        await second.works()
        second.stop()
        await second.over.wait()
        await shown(store, "the answer")
        assert [said for said, _ in first.agent.began] == ["one", "long"]
