"""HTTP clients for model servers. This is the only module that builds them.

A client is lent to one turn at a time. One shared client would cost more CPU per request with each connection
in its pool (0.5 ms with one stream at a time, 2.3 ms with 50, 5.1 ms with 200); one client per turn costs 0.4
to 0.6 ms, whatever their number. A client that a turn gives back is kept for the next turn, with its
connection: a new connection, with TLS, takes longer than all of our own work in a turn. At most `MOST_IDLE`
clients are kept.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from urllib.request import getproxies

from ...base.errors import ConfigInvalid
from ...base.tls import httpx as httpx
from ...base.tls import tls_context
from .endpoint import Endpoint
from .model_transport import ModelTransport

CONNECT_SECONDS = 30.0
MOST_IDLE = 32
KEPT_SECONDS = 60.0


class Http:
    """A pool that lends clients to turns. A gateway has one."""

    def __init__(self, most_idle: int = 0) -> None:
        self._most_idle = most_idle
        self._idle: list[tuple[str, httpx.AsyncClient]] = []
        """Clients that are not lent, with their addresses; the most recent one is last."""

    @asynccontextmanager
    async def clients(self, endpoints: Sequence[Endpoint]) -> AsyncIterator[list[httpx.AsyncClient]]:
        """Lend a client for each of these endpoints, for exclusive use during the block."""
        lent: list[tuple[str, httpx.AsyncClient]] = []
        try:
            for endpoint in endpoints:
                address = endpoint.base_url
                lent.append((address, self._take_idle(address) or self._build(endpoint)))
            yield [client for _, client in lent]
        finally:
            for _, client in lent:
                client.cookies.clear()  # the next turn may be that of another person
            self._idle += lent
            while len(self._idle) > self._most_idle:
                _, oldest = self._idle.pop(0)
                await oldest.aclose()  # noqa: ASYNC102 - closes sockets without waiting

    def _take_idle(self, address: str) -> httpx.AsyncClient | None:
        """Return the idle client for this address that was used last; None if there is none."""
        for at in reversed(range(len(self._idle))):
            if self._idle[at][0] == address:
                return self._idle.pop(at)[1]
        return None

    async def close(self) -> None:
        """Close the idle clients with their connections."""
        while self._idle:
            _, client = self._idle.pop()
            await client.aclose()

    def _build(self, endpoint: Endpoint) -> httpx.AsyncClient:
        """Return a new client for this endpoint. It uses the proxy of the environment, except for a server
        on this machine. Its only timeout is for connecting; each request sets its own read timeout."""
        tls = self._tls if endpoint.base_url.startswith("https:") else None
        is_proxied = not endpoint.is_local and bool(getproxies())
        try:
            return httpx.AsyncClient(
                # Reading the certificates takes 20 ms, so only TLS connections do it.
                verify=tls if tls is not None else self._no_tls,
                transport=None if is_proxied else ModelTransport(tls, kept_seconds=KEPT_SECONDS),
                trust_env=not endpoint.is_local,
                timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=4, keepalive_expiry=KEPT_SECONDS
                ),
                # No compression: it delays events until there is enough data to compress.
                headers={"user-agent": "hermes-trio", "accept-encoding": "identity"},
            )
        except (ImportError, ValueError, httpx.InvalidURL) as error:
            raise ConfigInvalid(
                "HTTPS_PROXY",
                "the proxy that the environment names cannot be used",
                "Name one that speaks HTTP, like http://proxy:3128, or unset it.",
            ) from error

    @cached_property
    def _no_tls(self) -> ssl.SSLContext:
        """A shared context without certificates; without it each client would build its own."""
        return httpx.create_ssl_context(verify=False)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """A shared context with the trusted certificates."""
        return tls_context()


@asynccontextmanager
async def open_http() -> AsyncIterator[Http]:
    """Open a pool that keeps connections for the next turn."""
    http = Http(MOST_IDLE)
    try:
        yield http
    finally:
        await http.close()  # noqa: ASYNC102 - closes sockets without waiting
