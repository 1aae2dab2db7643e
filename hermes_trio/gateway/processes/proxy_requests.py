"""Requests to the proxy of a command, and its own answers. Pure.

A tunnel is `CONNECT example.org:443`; a plain request has a whole address, `GET http://example.org/page`. The
latter is passed on without what was meant for the proxy, and asks the server to close the connection after
its answer: so each connection is for one host.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import h11

from ...tools.sandbox.granted_hosts import PORTS, Host, host_of

_ADDRESS = re.compile(r"http://(?P<host>[^/?#@]+)(?P<path>[/?][^#]*)?", re.IGNORECASE)
_FOR_THE_PROXY = frozenset({b"host", b"connection", b"keep-alive", b"upgrade"})


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """A request for a connection to a host."""

    host: Host
    """The host, with a port."""
    greeting: bytes
    """Bytes for the client when the host is connected."""
    head: bytes
    """Bytes for the host before those that follow the request."""


def proxy_request(request: h11.Request) -> ProxyRequest | None:
    """Return what a request asks of the proxy; None if it is nothing for a proxy."""
    target = request.target.decode("ascii")
    if request.method == b"CONNECT":
        host = host_of(target)
        greeting = b"HTTP/1.1 200 Connection established\r\n\r\n"
        return None if host is None or host.port is None else ProxyRequest(host, greeting, b"")
    found = _ADDRESS.fullmatch(target)
    if found is None or (host := host_of(found["host"])) is None:
        return None
    path = found["path"] or "/"
    path = path if path.startswith("/") else f"/{path}"
    lines = [
        b"%s %s HTTP/%s" % (request.method, path.encode("ascii"), request.http_version),
        b"Host: %s" % str(host).encode("ascii"),
        *(b"%s: %s" % (name, value) for name, value in request.headers if _is_for_the_host(name)),
        b"Connection: close",
    ]
    return ProxyRequest(Host(host.name, host.port or 80), b"", b"\r\n".join(lines) + b"\r\n\r\n")


def _is_for_the_host(name: bytes) -> bool:
    return name not in _FOR_THE_PROXY and not name.startswith(b"proxy-")


def not_granted(host: Host) -> bytes:
    """Return the answer to a request for a host that was not granted. Many programs show only its first
    line."""
    need = f"network {Host(host.name) if host.port in PORTS else host}"
    text = f"{host} was not granted to this command. Put `{need}` into its `needs`."
    return refusal(403, f"Not granted, needs {need}", text)


def refusal(status: int, reason: str, text: str) -> bytes:
    """Return an answer of the proxy itself."""
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
