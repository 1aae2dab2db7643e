"""The one place where clients of model servers are built: what they share, and what they must not do.

A client is lent to one turn at a time. Its pool costs the more CPU per request the more connections it holds
(0.5 ms with one stream at a time, 2.3 with 50, 5.1 with 200), while one client per turn costs 0.4 to 0.6
whatever their number. When a turn gives it back it is kept for the next one, with its connection: greeting
a server anew, TLS and all, takes longer than everything that we do in a turn. So many are kept and no more.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property

from ...base.errors import ConfigInvalid
from ...base.tls import httpx as httpx
from ...base.tls import tls_context
from .endpoint import Endpoint

CONNECT_SECONDS = 30.0
MOST_IDLE = 32
KEPT_SECONDS = 60.0


class Http:
    """Lends clients. One of it serves a gateway."""

    def __init__(self, most_idle: int = 0) -> None:
        self._most_idle = most_idle
        self._idle: list[tuple[str, httpx.AsyncClient]] = []
        """Who nobody has, and for which address; the latest last."""

    @asynccontextmanager
    async def client(self, endpoint: Endpoint) -> AsyncIterator[httpx.AsyncClient]:
        """A client for this endpoint and nobody else, while inside."""
        client = self._taken(endpoint.base_url) or self._made(endpoint)
        try:
            yield client
        finally:
            client.cookies.clear()  # the next one is somebody else
            self._idle.append((endpoint.base_url, client))
            while len(self._idle) > self._most_idle:
                _, oldest = self._idle.pop(0)
                await oldest.aclose()  # noqa: ASYNC102 - it closes sockets and waits for nobody

    def _taken(self, address: str) -> httpx.AsyncClient | None:
        for at in reversed(range(len(self._idle))):
            if self._idle[at][0] == address:
                return self._idle.pop(at)[1]
        return None

    async def close(self) -> None:
        """Hang up wherever a connection was kept."""
        while self._idle:
            _, client = self._idle.pop()
            await client.aclose()

    def _made(self, endpoint: Endpoint) -> httpx.AsyncClient:
        """A client for this endpoint, through the proxy of the environment if there is one; a server on
        this machine is never asked through a proxy. Its only timer is the one for connecting: how long an
        answer may take is said by cancel scopes."""
        try:
            return httpx.AsyncClient(
                # Who speaks no TLS need not wait for the certificates: reading them takes 20 ms.
                verify=self._tls if endpoint.base_url.startswith("https:") else self._no_tls,
                trust_env=not endpoint.is_local,
                timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                limits=httpx.Limits(
                    max_connections=None, max_keepalive_connections=4, keepalive_expiry=KEPT_SECONDS
                ),
                # Compression holds events back until there is enough to compress.
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
        """A context without certificates, for who needs none: each client would make one of its own."""
        return httpx.create_ssl_context(verify=False)

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return tls_context()


@asynccontextmanager
async def open_http() -> AsyncIterator[Http]:
    """One that keeps connections for the next turn, while inside."""
    http = Http(MOST_IDLE)
    try:
        yield http
    finally:
        await http.close()  # noqa: ASYNC102 - it closes sockets and waits for nobody
