"""Listening and accepting: one task for each connection, and none of them is another one's trouble.

The server is closed by a trigger. Then nobody is accepted any more, who asks for nothing is let go, and who
is being answered is answered to the end; until when that may take is for the caller to say, by a deadline
around it.
"""

from __future__ import annotations

import errno
import ipaddress
from collections.abc import Iterable, Sequence

import trio

from ..config import WebConfig
from ..errors import EXIT_CONFIG, ConfigInvalid, GatewayError
from ..log import Log
from .connection import App, Connection

MOST_CONNECTIONS = 1280
MOST_STRANGERS = 512
"""Connections whose request has shown neither key nor cookie yet: only so many of all."""
SHORTEST_KEY = 16
"""Characters that a key has at least where others than this machine can try it."""
_FULL = b"HTTP/1.1 503 Full\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
WHEN_FULL = 0.1

log = Log(__name__)


class CannotListen(GatewayError):
    """The address of the page and the API cannot be had."""

    exit_code = EXIT_CONFIG

    def __init__(self, web: WebConfig, problem: str) -> None:
        super().__init__(
            f"web: cannot listen on {web.host}:{web.port} ({problem}). "
            "Set web.port in config.yaml to another port, or to 0 for any free one."
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches this address."""
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


async def listen(web: WebConfig) -> Sequence[trio.SocketListener]:
    """Listen where the configuration says. Raises `ConfigInvalid` where anybody could reach it and nobody
    has chosen a key, and `CannotListen`."""
    if not is_loopback(web.host) and (web.key is None or len(web.key) < SHORTEST_KEY):
        raise ConfigInvalid(
            "web.key",
            f"web.host {web.host} is reached from other machines, and there is no key of at least "
            f"{SHORTEST_KEY} characters",
            "Set web.key to a long random text, or web.host to 127.0.0.1.",
        )
    try:
        return await trio.open_tcp_listeners(web.port, host=web.host)
    except OSError as error:
        raise CannotListen(web, error.strerror or str(error)) from error


async def serve_connections(listeners: Sequence[trio.SocketListener], app: App, closed: trio.Event) -> None:
    """Serve until it is closed and the last answer is given."""
    connections: set[Connection] = set()
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                accepting.start_soon(_accept, listener, app, connections, nursery)
            await closed.wait()
            accepting.cancel_scope.cancel(reason="the door is closed")
        for connection in connections:
            connection.close()


async def _accept(
    listener: trio.SocketListener, app: App, connections: set[Connection], nursery: trio.Nursery
) -> None:
    async with listener:
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                log.error("no connection can be accepted", error=error.strerror)
                _evict_one(connections)
                await trio.sleep(WHEN_FULL)
                continue
            _make_room(connections)
            if len(connections) < MOST_CONNECTIONS:
                connection = Connection(stream, app)
                connections.add(connection)
                nursery.start_soon(_serve, connection, connections, name="web connection")
            else:
                await _turn_away(stream)


async def _serve(connection: Connection, connections: set[Connection]) -> None:
    try:
        await connection.serve()
    except Exception:
        # Whatever one client does to us, or we do wrong with it, is not the others' trouble.
        log.error("a connection broke something", exc_info=True)
    finally:
        connections.discard(connection)


def _make_room(connections: set[Connection]) -> None:
    """Make room for one more. Strangers share a part of the places, and the newest of them has one: so
    nobody shuts others out who only holds connections, whatever these do."""
    if len(connections) >= MOST_STRANGERS:
        strangers = [one for one in connections if not one.known]
        if len(strangers) >= MOST_STRANGERS:
            _evict(connections, strangers)
    if len(connections) >= MOST_CONNECTIONS:
        _evict_one(connections)


def _evict_one(connections: set[Connection]) -> None:
    """Let one go that waits for its client, or else a stranger."""
    _evict(connections, [one for one in connections if one.waits or not one.known])


def _evict(connections: set[Connection], candidates: Iterable[Connection]) -> None:
    """Let go the one of these that has been at the same thing for the longest time, if there is any."""
    if (longest := min(candidates, key=lambda one: one.since, default=None)) is not None:
        longest.evict()
        connections.discard(longest)


async def _turn_away(stream: trio.SocketStream) -> None:
    """There is no room: say so if it can be said at once."""
    with trio.move_on_after(WHEN_FULL):
        async with stream:
            try:
                await stream.send_all(_FULL)
            except trio.BrokenResourceError:
                return
