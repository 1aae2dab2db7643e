"""Listening and accepting: one task for each connection, and none of them is another one's trouble.

The server is closed by a trigger. Then nobody is accepted any more, who asks for nothing is let go, and who
is being answered is answered to the end; until when that may take is for the caller to say, by a deadline
around it.
"""

from __future__ import annotations

import errno
import ipaddress
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import BinaryIO, Self

import trio

from ...base.errors import EXIT_CONFIG, ConfigInvalid, GatewayError
from ...config.schema import WebConfig
from ...host.loop.open_files import most_open_files
from ...log import Log
from .connection import PIECE, App, Connection

MOST_CONNECTIONS = 1280
"""At most; where few files may be open, half of them: the rest is for the work, which would fail without."""
MOST_STRANGERS = 512
"""Of so many connections, those whose request has shown neither key nor cookie yet."""
STRANGER_STAYS = 1.0
"""Seconds that each of them has at least to show one."""
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


def check_reach(web: WebConfig) -> None:
    """Raise `ConfigInvalid` where other machines could reach the web and nobody has chosen a key."""
    if not is_loopback(web.host) and (web.key is None or len(web.key) < SHORTEST_KEY):
        raise ConfigInvalid(
            "web.key",
            f"web.host {web.host} is reached from other machines, and there is no key of at least "
            f"{SHORTEST_KEY} characters",
            "Set web.key to a long random text, or web.host to 127.0.0.1.",
        )


async def listen(web: WebConfig) -> Sequence[trio.SocketListener]:
    """Listen where the configuration says. Raises what `check_reach` does, and `CannotListen`."""
    check_reach(web)
    try:
        return await trio.open_tcp_listeners(web.port, host=web.host)
    except OSError as error:
        raise CannotListen(web, error.strerror or str(error)) from error


async def serve_connections(listeners: Sequence[trio.SocketListener], app: App, closed: trio.Event) -> None:
    """Serve until it is closed and the last answer is given."""
    connections: set[Connection] = set()
    most = min(MOST_CONNECTIONS, (most_open_files() or 2 * MOST_CONNECTIONS) // 2)
    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as accepting:
            for listener in listeners:
                accepting.start_soon(_accept, listener, app, connections, most, nursery)
            await closed.wait()
            accepting.cancel_scope.cancel(reason="the door is closed")
        for connection in connections:
            connection.close()


async def _accept(
    listener: trio.SocketListener,
    app: App,
    connections: set[Connection],
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
                        log.error("no connection can be accepted", error=error.strerror)
                    is_full = True
                    # The system refuses also where nobody comes: then nobody has to make room.
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
                    connection = Connection(stream, app)
                    connections.add(connection)
                    nursery.start_soon(_serve, connection, connections, name="web connection")
                else:
                    await _turn_away(stream)


class _Spare:
    """An open file that is good for nothing but its number. When no more files can be open, it is closed for
    the moment in which a client is told so, who would hear nothing otherwise."""

    def __init__(self) -> None:
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    async def turn_away(self, listener: trio.SocketListener) -> None:
        """Tell the next client that there is no room, if one comes soon."""
        self._close()
        with trio.move_on_after(WHEN_FULL):
            try:
                await _turn_away(await listener.accept())
            except OSError:
                await trio.sleep(WHEN_FULL)
        self._open()

    def _open(self) -> None:
        with suppress(OSError):  # somebody else was faster: then there is none to lend
            self._file = open(os.devnull, "rb", buffering=0)  # noqa: SIM115

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


async def _serve(connection: Connection, connections: set[Connection]) -> None:
    try:
        await connection.serve()
    except Exception:
        # Whatever one client does to us, or we do wrong with it, is not the others' trouble.
        log.error("a connection broke something", exc_info=True)
    finally:
        connections.discard(connection)


async def _place_for_stranger(listener: trio.SocketListener, connections: set[Connection], most: int) -> None:
    """Wait until one more connection has a place. Strangers share a part of the places, and have theirs for a
    moment at least: in a burst of clients the next ones wait before they are accepted. After that moment the
    newest has the place: so nobody shuts others out who only holds connections, whatever these do."""
    most_strangers = most * MOST_STRANGERS // MOST_CONNECTIONS
    while len(connections) >= most_strangers:
        strangers = [one for one in connections if not one.known]
        if len(strangers) < most_strangers:
            return
        await trio.lowlevel.wait_readable(listener.socket)  # nobody makes room for nobody
        longest = min(strangers, key=lambda one: one.since)
        if trio.current_time() - longest.since >= STRANGER_STAYS:
            _evict(connections, [longest])
        else:
            await trio.sleep(WHEN_FULL)


def _evict_one(connections: set[Connection]) -> bool:
    """Let one go that waits for its client, or else a stranger. False if there is no such connection."""
    return _evict(connections, [one for one in connections if one.waits or not one.known])


def _evict(connections: set[Connection], candidates: Iterable[Connection]) -> bool:
    """Let go the one of these that has been at the same thing for the longest time, if there is any."""
    longest = min(candidates, key=lambda one: one.since, default=None)
    if longest is not None:
        longest.evict()
        connections.discard(longest)
    return longest is not None


async def _turn_away(stream: trio.SocketStream) -> None:
    """There is no room: say so if it can be said at once. What the client has sent is read, because a
    connection that is closed with something unread in it is reset, and the answer lost."""
    with trio.move_on_after(WHEN_FULL):
        async with stream:
            try:
                await stream.send_all(_FULL)
                await stream.send_eof()
                while await stream.receive_some(PIECE):
                    pass
            except trio.BrokenResourceError:
                return
