"""The connections below the client of a model: when one is used again, and how its data is read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest
import trio
from trio.testing import MockClock

from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model_clients import Http
from hermes_trio.agent.providers.model_errors import ModelError
from hermes_trio.agent.providers.model_transport import ModelTransport
from hermes_trio.agent.providers.open_models import open_model
from hermes_trio.base.world import World
from tests.agent.providers.conftest import answer

HI = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
KEPT_SECONDS = 60.0


@dataclass
class RawServer:
    """A server that answers each request with the next of its texts, and closes the connection after the
    last one."""

    answers: list[bytes]
    port: int = 0
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    has_closed: trio.Event = field(default_factory=trio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        while self.answers and (request := bytes(await stream.receive_some(65536))):
            self.requests.append(request)
            await stream.send_all(self.answers.pop(0))
        await stream.aclose()
        self.has_closed.set()


@asynccontextmanager
async def raw_server(*answers: bytes) -> AsyncIterator[RawServer]:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = RawServer(list(answers), listener.socket.getsockname()[1])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, server.serve, [listener])
        yield server
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def http_client() -> AsyncIterator[httpx.AsyncClient]:
    client = httpx.AsyncClient(
        transport=ModelTransport(None, kept_seconds=KEPT_SECONDS), timeout=KEPT_SECONDS
    )
    try:
        yield client
    finally:
        await client.aclose()


async def texts(client: httpx.AsyncClient, server: RawServer, count: int) -> Sequence[str]:
    """Send requests one after the other, and return the bodies of their responses."""
    return [(await client.get(server.url)).text for _ in range(count)]


async def test_a_connection_is_used_again(mock_clock: MockClock) -> None:
    async with raw_server(HI, HI, HI) as server, http_client() as client:
        await texts(client, server, 2)
        mock_clock.jump(KEPT_SECONDS)
        await texts(client, server, 1)
        assert server.connections == 1


async def test_a_connection_that_was_idle_for_long_is_not_used_again(mock_clock: MockClock) -> None:
    async with raw_server(HI, HI) as server, http_client() as client:
        await texts(client, server, 1)
        mock_clock.jump(KEPT_SECONDS + 1)
        await texts(client, server, 1)
        assert server.connections == 2


async def test_a_connection_that_its_server_has_closed_is_not_used_again() -> None:
    async with raw_server(HI) as server, http_client() as client:
        await texts(client, server, 1)
        await server.has_closed.wait()
        server.answers.append(HI)
        assert await texts(client, server, 1) == ["hi"]
        assert server.connections == 2


async def test_data_after_a_response_is_not_read_as_the_next_response() -> None:
    forged = HI.replace(b"hi", b"no")
    async with raw_server(HI + forged, HI) as server, http_client() as client:
        assert await texts(client, server, 2) == ["hi", "hi"]
        assert server.connections == 2


async def test_all_that_has_arrived_is_one_chunk_and_an_error_comes_after_it() -> None:
    async with (
        raw_server(STREAM + b"3\r\none\r\n3\r\ntwo\r\nno number") as server,
        http_client() as client,
        client.stream("GET", server.url) as response,
    ):
        chunks = aiter(response.stream)  # type: ignore[arg-type]
        assert await anext(chunks) == b"onetwo"
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(chunks)


CHUNKED = STREAM + b"2\r\nhi\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "connections"),
    [
        (CHUNKED, 1),
        (CHUNKED + b"x", 2),
        (CHUNKED.replace(b"chunked", b"chunked\r\nConnection: close"), 2),
        (b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", 1),
    ],
    ids=["whole", "with more data", "closing", "without a body"],
)
async def test_a_connection_is_used_again_after_a_body_in_chunks(first: bytes, connections: int) -> None:
    async with raw_server(first, CHUNKED) as server, http_client() as client:
        assert (await client.get(server.url)).text == ("" if b"204" in first else "hi")
        if connections == 2:
            server.answers.append(CHUNKED)
        assert await texts(client, server, 1) == ["hi"]
        assert server.connections == connections


async def test_a_body_in_chunks_without_its_end_is_an_error() -> None:
    async with raw_server(STREAM + b"2\r\nhi\r\n") as server, http_client() as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(server.url)


async def test_a_server_elsewhere_is_asked_through_the_proxy(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with raw_server(b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        endpoint = Endpoint("openai", "http://model.test/v1", "m")
        async with open_model(Http(), [endpoint], world, retries=0) as model:
            with pytest.raises(ModelError):
                await answer(model)
    assert proxy.requests[0].startswith(b"POST http://model.test/v1/")
