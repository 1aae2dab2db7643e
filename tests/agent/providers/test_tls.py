"""Over TLS: whom we trust, and that hanging up is as clean as without."""

from __future__ import annotations

import gc
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from hermes_trio.agent.providers import model_errors
from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model_clients import Http, open_http
from hermes_trio.agent.providers.open_models import open_model
from hermes_trio.base.errors import ConfigInvalid
from hermes_trio.base.world import World
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import ModelServer
from tests.agent.providers.conftest import HELLO, answer, text_of

CERTIFICATE = Path(__file__).with_name("certificate.pem")
"""For 127.0.0.1, signed by itself, and good for a hundred years. Its key opens nothing but these tests."""


@asynccontextmanager
async def tls_server() -> AsyncIterator[tuple[ModelServer, Endpoint]]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    server = ModelServer(0, ("m",))

    async def serve(stream: trio.SocketStream) -> None:
        await server.serve(trio.SSLStream(stream, context, server_side=True, https_compatible=True))

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        yield server, Endpoint("openai", url, "m")
        await server.until(lambda: server.open == 0)
        nursery.cancel_scope.cancel()


async def test_a_stranger_is_told_nothing(world: World) -> None:
    async with tls_server() as (server, endpoint), open_model(Http(), [endpoint], world, retries=5) as model:
        with pytest.raises(model_errors.CertificateRefused, match="SSL_CERT_FILE"):
            await answer(model)
    assert server.requests == []


async def test_a_stranger_is_not_trusted_because_a_server_without_tls_was_asked_before(
    world: World, server: ModelServer
) -> None:
    async with tls_server() as (_, endpoint), open_http() as http:
        plain = Endpoint("openai", server.openai_url, "m")
        async with open_model(http, [plain], world, retries=0) as model:
            assert text_of(await answer(model)) == "Hello."
        async with open_model(http, [endpoint], world, retries=0) as model:
            with pytest.raises(model_errors.CertificateRefused):
                await answer(model)


async def test_whom_the_environment_trusts_we_trust(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    async with tls_server() as (server, endpoint):
        async with open_model(Http(), [endpoint], world, retries=0) as model:
            assert text_of(await answer(model)) == text_of(await answer(model)) == "Hello."
            assert server.connections == 1
            server.answers(Reply().says("Hel").hangs())
            async with model.stream(HELLO) as items:
                await anext(items)
        await server.until(lambda: server.open == 0)
    gc.collect()


async def test_a_server_without_tls_says_so(world: World) -> None:
    async def plain(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some(1)
            await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    url = f"https://127.0.0.1:{listeners[0].socket.getsockname()[1]}/v1"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, plain, listeners)
        async with open_model(Http(), [Endpoint("openai", url, "m")], world, retries=0) as model:
            with pytest.raises(model_errors.CannotConnect, match="SSL"):
                await answer(model)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("variable", "value", "key"),
    [("SSL_CERT_FILE", "/no/such/file", "SSL_CERT_FILE"), ("HTTPS_PROXY", "socks5://p:1", "HTTPS_PROXY")],
)
async def test_an_environment_that_cannot_be_used(
    variable: str, value: str, key: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    endpoint = Endpoint("openai", "https://example.org/v1", "m")
    with pytest.raises(ConfigInvalid, match=key):
        async with open_model(Http(), [endpoint], world, retries=0):
            pass
