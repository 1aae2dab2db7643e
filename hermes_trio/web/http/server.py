"""Listening and accepting connections: one task for each connection, so that a failure stays in it.

An event closes the server. Then it accepts no connection, closes the idle ones, and completes the answers it
has begun; the caller may put a deadline around that.
"""

from __future__ import annotations

import errno
import ipaddress
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import BinaryIO, Self

import trio

from ...base.errors import EXIT_CONFIG, ConfigInvalid, GatewayError
from ...config.schema import WebConfig
from ...host.loop.open_files import most_open_files
from ...log import Log
from .connection import PIECE, App, HttpConnection

MOST_CONNECTIONS = 1280
"""The limit, or half of the files that may be open if that is less: the gateway's work needs the others."""
MOST_STRANGERS = 512
"""The part of `MOST_CONNECTIONS` for strangers: connections whose request has shown neither key nor
cookie."""
STRANGER_STAYS = 1.0
"""Seconds that each stranger has at least to show one."""
SHORTEST_KEY = 16
"""Least number of characters of a key that clients on other machines can try."""
_FULL = b"HTTP/1.1 503 Full\r\nRetry-After: 5\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_NO_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
WHEN_FULL = 0.1

OpenListeners = Callable[[str, int], Awaitable[Sequence[trio.SocketListener]]]
"""Listens at a host and a port. Raises `OSError`."""

log = Log(__name__)


class CannotListen(GatewayError):
    """The address of the page and the API is not available."""

    exit_code = EXIT_CONFIG

    def __init__(self, web: WebConfig, problem: str) -> None:
        super().__init__(
            f"web: cannot listen on {web.host}:{web.port} ({problem}). "
            "Set web.port in config.yaml to another port, or to 0 for any free one."
        )


def is_loopback(host: str) -> bool:
    """Return True if only this machine reaches this address."""
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return host == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def check_reach(web: WebConfig) -> None:
    """Raise `ConfigInvalid` if other machines can reach the web and the configuration has no long key."""
    if not is_loopback(web.host) and (web.key is None or len(web.key) < SHORTEST_KEY):
        raise ConfigInvalid(
            "web.key",
            f"web.host {web.host} is reached from other machines, and there is no key of at least "
            f"{SHORTEST_KEY} characters",
            "Set web.key to a long random text, or web.host to 127.0.0.1.",
        )


async def open_new_listeners(host: str, port: int) -> Sequence[trio.SocketListener]:
    """Listen with new sockets."""
    return await trio.open_tcp_listeners(port, host=host)


async def listen(
    web: WebConfig, open_listeners: OpenListeners = open_new_listeners
) -> Sequence[trio.SocketListener]:
    """Listen at the address of the configuration. Raises `ConfigInvalid` and `CannotListen`."""
    check_reach(web)
    try:
        return await open_listeners(web.host, web.port)
    except OSError as error:
        raise CannotListen(web, error.strerror or str(error)) from error


async def serve_connections(listeners: Sequence[trio.SocketListener], app: App, closed: trio.Event) -> None:
    """Serve until `closed` is set and the last answer is complete."""
    connections: set[HttpConnection] = set()
    most = min(MOST_CONNECTIONS, (most_open_files() or 2 * MOST_CONNECTIONS) // 2)
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                accepting.start_soon(_accept, listener, app, connections, most, nursery)
            await closed.wait()
            accepting.cancel_scope.cancel(reason="the server is closed")
        for connection in connections:
            connection.close()


async def _accept(
    listener: trio.SocketListener,
    app: App,
    connections: set[HttpConnection],
    most: int,
    nursery: trio.Nursery,
) -> None:
    is_full = False
    async with listener:
        with _Spare() as spare:
            while True:
                try:
                    await _place_for_stranger(listener, connections, most)
                    stream = await listener.accept()
                except OSError as error:
                    if error.errno not in _NO_ROOM:
                        raise
                    if not is_full:
                        log.error("accepting connections failed; retrying", error=error.strerror)
                    is_full = True
                    # The system also refuses while no client waits. Wait for one before making room.
                    await trio.lowlevel.wait_readable(listener.socket)
                    if _evict_one(connections):
                        await trio.sleep(WHEN_FULL)
                    else:
                        await spare.turn_away(listener)
                    continue
                is_full = False
                if len(connections) >= most:
                    _evict_one(connections)
                if len(connections) < most:
                    connection = HttpConnection(stream, app)
                    connections.add(connection)
                    nursery.start_soon(_serve, connection, connections, name="web connection")
                else:
                    await _turn_away(stream)


class _Spare:
    """An open file that is held for its descriptor. When no more files can be opened, it is closed for the
    moment in which a client is told about it."""

    def __init__(self) -> None:
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    async def turn_away(self, listener: trio.SocketListener) -> None:
        """Tell the next client that the server is full, if one connects soon."""
        self._close()
        with trio.move_on_after(WHEN_FULL):
            try:
                await _turn_away(await listener.accept())
            except OSError:
                await trio.sleep(WHEN_FULL)
        self._open()

    def _open(self) -> None:
        with suppress(OSError):  # another task took the descriptor first
            self._file = open(os.devnull, "rb", buffering=0)  # noqa: SIM115

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


async def _serve(connection: HttpConnection, connections: set[HttpConnection]) -> None:
    try:
        await connection.serve()
    except Exception:
        # A failure in one connection must not end the others.
        log.error("connection failed", exc_info=True)
    finally:
        connections.discard(connection)


async def _place_for_stranger(
    listener: trio.SocketListener, connections: set[HttpConnection], most: int
) -> None:
    """Wait until there is room for one more connection. Strangers share a part of the room, and each of them
    stays for at least `STRANGER_STAYS`: in a burst of clients the next ones wait to be accepted. After that
    time the newest one takes the place of the oldest, so a client that only holds connections shuts nobody
    out."""
    most_strangers = most * MOST_STRANGERS // MOST_CONNECTIONS
    while len(connections) >= most_strangers:
        strangers = [one for one in connections if not one.known]
        if len(strangers) < most_strangers:
            return
        await trio.lowlevel.wait_readable(listener.socket)  # make room only for a client that waits
        longest = min(strangers, key=lambda one: one.since)
        if trio.current_time() - longest.since >= STRANGER_STAYS:
            _evict(connections, [longest])
        else:
            await trio.sleep(WHEN_FULL)


def _evict_one(connections: set[HttpConnection]) -> bool:
    """Close one connection that waits for its client or is a stranger. Return False if there is none."""
    return _evict(connections, [one for one in connections if one.waits or not one.known])


def _evict(connections: set[HttpConnection], candidates: Iterable[HttpConnection]) -> bool:
    """Close the connection that has been in its current state for the longest time. Return False if there is
    none."""
    longest = min(candidates, key=lambda one: one.since, default=None)
    if longest is not None:
        longest.evict()
        connections.discard(longest)
    return longest is not None


async def _turn_away(stream: trio.SocketStream) -> None:
    """Answer that the server is full, if the client takes it at once. Its request is read first, because a
    connection that is closed with unread data is reset, and the answer is lost."""
    with trio.move_on_after(WHEN_FULL):
        async with stream:
            try:
                await stream.send_all(_FULL)
                await stream.send_eof()
                while await stream.receive_some(PIECE):
                    pass
            except trio.BrokenResourceError:
                return
