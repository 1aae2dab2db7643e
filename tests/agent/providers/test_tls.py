"""Connections over TLS: the trusted certificates, and a clean close."""

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
"""Self-signed certificate for 127.0.0.1, valid for a hundred years. Its key is used only by these tests."""


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


async def test_an_untrusted_server_gets_no_request(world: World) -> None:
    async with tls_server() as (server, endpoint), open_model(Http(), [endpoint], world, retries=5) as model:
        with pytest.raises(model_errors.CertificateRefused, match="SSL_CERT_FILE"):
            await answer(model)
    assert server.requests == []


async def test_an_untrusted_server_is_refused_after_a_server_without_tls(
    world: World, server: ModelServer
) -> None:
    async with tls_server() as (_, endpoint), open_http() as http:
        plain = Endpoint("openai", server.openai_url, "m")
        async with open_model(http, [plain], world, retries=0) as model:
            assert text_of(await answer(model)) == "Hello."
        async with open_model(http, [endpoint], world, retries=0) as model:
            with pytest.raises(model_errors.CertificateRefused):
                await answer(model)


async def test_a_certificate_that_the_environment_trusts_is_trusted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
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


async def test_a_server_without_tls_is_named_as_the_problem(world: World) -> None:
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
async def test_an_unusable_environment_is_a_configuration_error(
    variable: str, value: str, key: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    endpoint = Endpoint("openai", "https://example.org/v1", "m")
    with pytest.raises(ConfigInvalid, match=key):
        async with open_model(Http(), [endpoint], world, retries=0):
            pass
