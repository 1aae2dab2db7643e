"""The one place where clients of model servers are built: what they share, and what they must not do.

A client lives as long as a turn. Its pool costs the more CPU per request the more connections it holds
(0.5 ms with one stream at a time, 2.3 with 50, 5.1 with 200), while one client per turn costs 0.4 to 0.6
whatever their number, keeps its connection warm for the turn's next request, and ends with the turn. What
is dear to make, the TLS context, is shared.
"""

from __future__ import annotations

import ssl
from functools import cached_property

from ...errors import ConfigInvalid
from ...http import httpx as httpx
from ...http import trusted
from .endpoint import Endpoint

CONNECT_SECONDS = 30.0


class Http:
    """Builds clients. One of it serves a gateway."""

    def client(self, endpoint: Endpoint) -> httpx.AsyncClient:
        """A client for this endpoint, through the proxy of the environment if there is one; a server on
        this machine is never asked through a proxy. Its only timer is the one for connecting: how long an
        answer may take is said by cancel scopes."""
        try:
            return httpx.AsyncClient(
                # Who speaks no TLS need not wait for the certificates: reading them takes 20 ms.
                verify=self._tls if endpoint.base_url.startswith("https:") else self._no_tls,
                trust_env=not endpoint.is_local,
                timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=60),
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
        return trusted()
