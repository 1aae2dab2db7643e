"""The proxy of one command: the only way from its sandbox to the hosts that it was granted.

It answers at an address inside of the sandbox, which the first program of the command opens and hands over,
so no other process can use it. What is said in a connection is passed on unread.

A name is looked up here. One that leads to a private network is refused, unless a person has granted an
address or a name of such a network. This machine is never reached: a request to the gateway would seem to
come from the gateway itself, and not from the agent.

All of it ends with the block of the command.
"""

from __future__ import annotations

import socket
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address

import h11
import trio

from ...host.loop.scoped_task import beside
from ...host.processes.peers import is_on_this_machine
from ...log import Log
from ...tools.sandbox.granted_hosts import Host
from ...tools.web.addresses import (
    AddressRefused,
    HostUnknown,
    Lookup,
    addresses_of,
    is_private_name,
    is_public,
    look_up,
    public_addresses,
)
from .proxy_requests import ProxyRequest, not_granted, proxy_request, refusal

MOST_CONNECTIONS = 32
"""Connections of one command at the same time. Others wait."""
LONGEST_HEAD = 64 << 10
HEAD_SECONDS = 30.0
CONNECT_SECONDS = 10.0
MOST_ADDRESSES = 4
IDLE_SECONDS = 600.0
"""Seconds after which a connection in which nothing moves is closed."""
LINGER_SECONDS = 2.0
MOST_REFUSED = 20
"""Hosts refused to one command that are logged."""
_PIECE = 64 << 10

log = Log(__name__)

Reach = Callable[[Host], Awaitable[trio.abc.HalfCloseableStream]]
"""Connects to a host, which has a port. Raises `AddressRefused` or OSError."""


async def reach(host: Host, lookup: Lookup = look_up) -> trio.SocketStream:
    """Connect to a granted host. Raises `AddressRefused` or OSError."""
    name, port = host.name, host.port or 0
    find = addresses_of if _is_granted_as_private(name) else public_addresses
    addresses = await find(name, port, lookup)
    if any(is_on_this_machine(str(one)) for one in addresses):
        raise AddressRefused(name, "is this machine, which is reached with `network` only.")
    for one in addresses[:MOST_ADDRESSES]:
        with suppress(OSError), trio.move_on_after(CONNECT_SECONDS):
            return await trio.open_tcp_stream(str(one), port)
    raise OSError(f"{host} does not answer")


def _is_granted_as_private(name: str) -> bool:
    try:
        return not is_public(ip_address(name))
    except ValueError:
        return is_private_name(name)


@asynccontextmanager
async def open_proxy(
    process_id: str, hosts: Sequence[Host], reach: Reach = reach
) -> AsyncIterator[int | None]:
    """Serve the proxy of a command for as long as the block. Yield the descriptor of the channel to it, which
    the command keeps open; None without hosts."""
    if not hosts:
        yield None
        return
    proxy = _Proxy(process_id, hosts, reach)
    ours, theirs = trio.socket.socketpair()
    with ours, theirs:
        try:
            async with beside(partial(proxy.serve, ours, theirs)):
                yield theirs.fileno()
        finally:
            proxy.log_totals()


@dataclass(slots=True)
class _Traffic:
    connections: int = 0
    sent: int = 0
    received: int = 0


@dataclass(frozen=True, slots=True)
class _LimitedListener(trio.abc.Listener[trio.SocketStream]):
    """A listener that accepts a connection only when there is a place for it. Who ends the connection gives
    the place back."""

    listener: trio.SocketListener
    places: trio.Semaphore

    async def accept(self) -> trio.SocketStream:
        await self.places.acquire()
        try:
            return await self.listener.accept()
        except BaseException:  # no connection came, also if this was cancelled: nobody has the place
            self.places.release()
            raise

    async def aclose(self) -> None:
        await self.listener.aclose()


class _Proxy:
    """The proxy of one command, and what went through it."""

    def __init__(self, process_id: str, hosts: Sequence[Host], reach: Reach) -> None:
        self._process_id, self._hosts, self._reach = process_id, hosts, reach
        self._places = trio.Semaphore(MOST_CONNECTIONS)
        self._reached: dict[Host, _Traffic] = {}
        self._refused: set[Host] = set()

    async def serve(self, ours: trio.socket.SocketType, theirs: trio.socket.SocketType) -> None:
        """Serve at the address that arrives on this channel, if the command gets so far."""
        room = socket.CMSG_SPACE(array("i").itemsize)
        _, parts, _, _ = await ours.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
        theirs.close()
        for _, _, data in parts:
            [descriptor] = array("i", data)
            listening = trio.socket.from_stdlib_socket(socket.socket(fileno=descriptor))
            async with trio.SocketListener(listening) as listener:
                await trio.serve_listeners(self._answer, [_LimitedListener(listener, self._places)])

    def log_totals(self) -> None:
        """Log what went through the proxy."""
        for host, traffic in self._reached.items():
            log.info(
                "connections to a host closed",
                process=self._process_id,
                host=str(host),
                connections=traffic.connections,
                sent=traffic.sent,
                received=traffic.received,
            )

    async def _answer(self, client: trio.SocketStream) -> None:
        """Answer one connection of the command."""
        try:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                answer = await self._answered(client)
                if answer is not None:
                    await _say_goodbye(client, answer)
        finally:
            self._places.release()

    async def _answered(self, client: trio.SocketStream) -> bytes | None:
        """Connect a client to the host that it asks for. Return what it is told if that cannot be."""
        try:
            with trio.fail_after(HEAD_SECONDS):
                request, rest = await _read_request(client)
        except (h11.RemoteProtocolError, trio.TooSlowError):
            request = None
        if request is None:
            return refusal(400, "Not understood", "This proxy takes CONNECT and requests for http addresses.")
        host = request.host
        if not any(granted.admits(host) for granted in self._hosts):
            self._note_refused(host)
            return not_granted(host)
        try:
            server = await self._reach(host)
        except HostUnknown as error:
            return refusal(502, "Host unknown", str(error))
        except AddressRefused as error:
            self._note_refused(host)
            return refusal(403, "Not granted, needs network", f"{error} Put `network` into `needs`.")
        except OSError as error:
            return refusal(502, "Host not reached", str(error))
        async with server:
            await _relay(client, server, request, rest, self._traffic(host))
        return None

    def _traffic(self, host: Host) -> _Traffic:
        """Return the traffic to a host, after one more connection."""
        if host not in self._reached:
            log.info("host reached", process=self._process_id, host=str(host))
        traffic = self._reached.setdefault(host, _Traffic())
        traffic.connections += 1
        return traffic

    def _note_refused(self, host: Host) -> None:
        if host not in self._refused and len(self._refused) < MOST_REFUSED:
            self._refused.add(host)
            log.info("host refused", process=self._process_id, host=str(host))


async def _read_request(client: trio.abc.Stream) -> tuple[ProxyRequest | None, bytes]:
    """Return the request of a client and the bytes that follow it. Raises `h11.RemoteProtocolError`."""
    http = h11.Connection(h11.SERVER, max_incomplete_event_size=LONGEST_HEAD)
    while (event := http.next_event()) is h11.NEED_DATA:
        http.receive_data(bytes(await client.receive_some(_PIECE)))
    request = proxy_request(event) if isinstance(event, h11.Request) else None
    return request, http.trailing_data[0]


async def _say_goodbye(client: trio.SocketStream, answer: bytes) -> None:
    """Send the last answer, and take what the client still sends: the rest of a request that is not read
    would reset the connection, and the answer with it."""
    with trio.move_on_after(LINGER_SECONDS):
        await client.send_all(answer)
        await client.send_eof()
        while await client.receive_some(_PIECE):
            pass


async def _relay(
    client: trio.SocketStream,
    server: trio.abc.HalfCloseableStream,
    request: ProxyRequest,
    rest: bytes,
    traffic: _Traffic,
) -> None:
    """Pass bytes on in both directions until both ends are closed, one breaks, or nothing moves."""

    def sent(size: int) -> None:
        traffic.sent += size
        idle.deadline = trio.current_time() + IDLE_SECONDS

    def received(size: int) -> None:
        traffic.received += size
        idle.deadline = trio.current_time() + IDLE_SECONDS

    with trio.move_on_after(IDLE_SECONDS) as idle:
        await client.send_all(request.greeting)
        await server.send_all(request.head + rest)
        traffic.sent += len(request.head + rest)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_pass_on, client, server, sent, idle)
            nursery.start_soon(_pass_on, server, client, received, idle)


async def _pass_on(
    source: trio.abc.ReceiveStream,
    sink: trio.abc.HalfCloseableStream,
    note: Callable[[int], None],
    whole: trio.CancelScope,
) -> None:
    try:
        while data := await source.receive_some(_PIECE):
            await sink.send_all(data)
            note(len(data))
        await sink.send_eof()
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        whole.cancel(reason="one end has gone")
