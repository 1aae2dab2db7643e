"""Listening sockets that outlive a restart, so that a client which connects in between waits and is not
refused. The operating system queues its connection until the next life accepts it.

They come from the life before in the same process, from systemd, which stores them for our unit or opens
them for a socket unit of the owner, or from the process whose successor this one is (`successor`). The first
two use the protocol of sd_listen_fds(3): the sockets have the descriptors from 3 on, and two variables give
their number and the process for which they are.

The block of `listening_sockets` ends them with the process. What it knows: addresses and descriptors. It
accepts nothing, and knows no HTTP.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import contextmanager

import trio

from ...log import Log

FIRST = 3
"""The first descriptor of a socket that was passed on."""
NAMES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")

log = Log(__name__)


class ListeningSockets:
    """The sockets of this process that listen, each until the process ends."""

    def __init__(self, received: list[socket.socket]) -> None:
        self._received = received
        """Sockets of an earlier life that this one does not use yet."""
        self.kept: list[socket.socket] = []
        """Sockets that a next life can go on with."""

    async def listen(self, host: str, port: int) -> list[trio.SocketListener]:
        """Listen at all addresses of this name, with the sockets of an earlier life if they are bound to
        them; other ones are closed. The caller owns the listeners. Raises `OSError`."""
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        # Also with those of an earlier life in this process, whose successor has failed.
        received, self._received, self.kept = [*self._received, *self.kept], [], []
        if {_address(one) for one in received} == {(to[0], port or _port(received)) for *_, to in found}:
            self.kept += received
            return [trio.SocketListener(trio.socket.from_stdlib_socket(one.dup())) for one in received]
        for one in received:
            log.warning("inherited socket closed; its address is not configured", address=str(_address(one)))
            one.close()
        listeners = await trio.open_tcp_listeners(port, host=host)
        self.kept += [socket.socket(fileno=one.socket.dup().detach()) for one in listeners]
        return listeners

    def receive(self, descriptors: Iterable[int]) -> None:
        """Take sockets that another process has sent."""
        self._received += filter(None, map(_opened, descriptors))

    def close(self) -> None:
        """Close all. Clients that wait for a connection are refused."""
        for one in (*self._received, *self.kept):
            one.close()

    def pass_on(self, environ: MutableMapping[str, str]) -> None:
        """Leave the sockets to the program that this process executes next with this environment. Nothing
        else of this process may use the first descriptors any more."""
        if os.name != "posix":  # there a socket is no file
            return
        moved = [_copy(one.fileno(), FIRST + len(self.kept)) for one in self.kept]
        for descriptor, one in enumerate(moved, FIRST):
            os.dup2(one, descriptor)
        environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(moved)))


@contextmanager
def listening_sockets(environ: MutableMapping[str, str]) -> Iterator[ListeningSockets]:
    """Yield the sockets that were passed to this process; they are closed with the block. Their variables are
    removed, because a child process would take them for its own."""
    sockets = ListeningSockets(_received(environ))
    for name in NAMES:
        environ.pop(name, None)
    try:
        yield sockets
    finally:
        sockets.close()


def _received(environ: MutableMapping[str, str]) -> list[socket.socket]:
    """Return the sockets that the environment names, if it names this process."""
    pid, number = environ.get("LISTEN_PID"), environ.get("LISTEN_FDS", "")
    if pid != str(os.getpid()) or not number.isdecimal():
        return []
    return [one for at in range(int(number)) if (one := _opened(FIRST + at)) is not None]


def _opened(descriptor: int) -> socket.socket | None:
    """Return the socket of this descriptor; None if it does not listen for connections over TCP."""
    try:
        os.set_inheritable(descriptor, False)
        found = socket.socket(fileno=descriptor)
        if found.family in (socket.AF_INET, socket.AF_INET6) and _listens(found):
            found.setblocking(False)
            return found
        found.close()
    except OSError as error:
        log.warning("inherited file not used", descriptor=descriptor, error=str(error))
    else:
        log.warning("inherited socket not used; it does not listen for TCP", descriptor=descriptor)
    return None


def _listens(one: socket.socket) -> bool:
    return one.type == socket.SOCK_STREAM and bool(one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _copy(descriptor: int, least: int) -> int:
    """Return a copy of the descriptor whose number is at least this one."""
    copy = os.dup(descriptor)
    return copy if copy >= least else _copy(descriptor, least)


def _address(one: socket.socket) -> tuple[str, int]:
    host, port = one.getsockname()[:2]
    return host, port


def _port(sockets: list[socket.socket]) -> int:
    """Return the port of these sockets, for a configuration that takes any; 0 if there is no socket."""
    return _address(sockets[0])[1] if sockets else 0
