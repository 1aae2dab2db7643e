"""An owner that takes a forwarded request and never answers it, and the addresses of gateways."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import chats, lives
from hermes_trio.web.nodes.peers import address_for_peers
from tests.postgres import PostgresServer
from tests.web.nodes.cluster import Node, becomes, cluster

GHOST = "ghost"


def own_the_session(db: Db, address: str) -> None:
    lives.begin(db, GHOST, GHOST, 0.0, home=GHOST)
    lives.note_address(db, GHOST, address)
    chats.claim(db, GHOST, "api", "main", "talk")


@asynccontextmanager
async def owned_by_a_ghost(node: Node, *, hangs: bool) -> AsyncIterator[trio.Event]:
    """Let a life own the session `talk` whose web server closes each connection after the first data, or
    keeps it and says nothing. Yield the event that a request has arrived."""
    arrived = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        arrived.set()
        if hangs:
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        await node.gateway.home.database.write(own_the_session, f"http://127.0.0.1:{port}")
        await becomes(lambda: GHOST in node.peers.known)
        yield arrived
        nursery.cancel_scope.cancel()


def code_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def test_an_owner_that_closes_before_its_answer_may_have_done_what_was_asked(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with cluster(tmp_path, server, "one") as [one], owned_by_a_ghost(one, hangs=False):
        refused = await one.http.post("/api/sessions/talk/messages", json={"text": "hello"})
        assert code_of(refused) == (502, "owner_lost")
        assert "Idempotency-Key" in refused.json()["error"]["remedy"]
        body = {"model": "x", "messages": [{"role": "user", "content": "hello"}]}
        session = {"X-Hermes-Session-Id": "talk"}
        completed = await one.http.post("/v1/chat/completions", json=body, headers=session)
        assert code_of(completed) == (502, "owner_lost")
        read = await one.http.get("/api/sessions/talk")
        assert code_of(read) == (404, "not_found"), "answered here: the session was never stored"
        assert one.said == []


async def test_nobody_waits_for_an_owner_whose_life_is_over(tmp_path: Path, server: PostgresServer) -> None:
    async with (
        cluster(tmp_path, server, "one") as [one],
        owned_by_a_ghost(one, hangs=True) as arrived,
        trio.open_nursery() as nursery,
    ):

        async def ask() -> None:
            refused = await one.http.post("/api/sessions/talk/stop")
            assert code_of(refused) == (502, "owner_lost")

        nursery.start_soon(ask)
        await arrived.wait()
        await one.gateway.home.database.write(lives.leave, GHOST, 1.0)


@pytest.mark.parametrize(
    ("configured", "door", "told"),
    [
        (None, "http://127.0.0.1:8642", "http://127.0.0.1:8642"),
        (None, "http://0.0.0.0:8642", f"http://{socket.gethostname()}:8642"),
        (None, "http://[::]:8642", f"http://{socket.gethostname()}:8642"),
        ("https://one.example.org/bot", "http://0.0.0.0:8642", "https://one.example.org/bot"),
        ("https://one.example.org/bot", "", "https://one.example.org/bot"),
        (None, "", None),
    ],
)
def test_a_gateway_is_reached_at_its_door_or_where_the_configuration_says(
    configured: str | None, door: str, told: str | None
) -> None:
    assert address_for_peers(configured, door) == told
