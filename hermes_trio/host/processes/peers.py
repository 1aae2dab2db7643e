"""The process at the other end of a connection from this machine, and whether the agent runs it.

A process counts as the agent's if it carries the marker of a command (`sweep.MARKER`), is in the session of a
process that does, or descends from one of these. The marker in our own environment does not count: it means
that a command started this gateway. Where the gateway has its process for itself, its children count too; a
program that embeds the gateway has other children.

Not recognised are a process that another program starts or relays the bytes for (sshd, a proxy, a docker
container), and a process that has left its session, lost its parent and emptied its environment.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import TypeGuard

from . import sweep

Address = IPv4Address | IPv6Address

Place = tuple[str, int]
"""An address and a port."""
Connection = tuple[Place, Place]
"""The two ends of a connection: theirs and ours."""

# Of <linux/netlink.h>, <linux/sock_diag.h> and <linux/inet_diag.h>.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_NLM_F_REQUEST, _NLMSG_ERROR = 1, 2
_HEAD = 16
_ALL_STATES = _NO_COOKIE = 0xFFFFFFFF


class Sender(Enum):
    """The sender of a request, as far as this machine can tell."""

    AGENT = auto()
    GONE = auto()
    """No process holds the other end any more, as after an agent's process that sends and ends at once."""
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class _End:
    """The other end of a connection, as the kernel lists it."""

    inode: int
    """The number of the socket; 0 when no process holds it any more."""
    uid: int


@dataclass(frozen=True, slots=True)
class _Held:
    """The sockets of processes of the agent."""

    inodes: set[int]
    users: set[int]
    """Users whose sockets may all be theirs."""


@dataclass(frozen=True, slots=True)
class _Socket:
    """One end of a connection in the form that the kernel takes."""

    family: int
    packed: bytes
    port: int


def is_on_this_machine(host: str) -> bool:
    """Return True if an address is one of this machine's own."""
    try:
        address = _plain(ip_address(host.partition("%")[0]))
    except ValueError:
        return False
    if address.is_loopback:
        return True
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError as error:
            return error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.EINVAL)
    return True


def senders_of(connections: Sequence[Connection], *, children: bool) -> list[Sender]:
    """Return the kind of process that has made each of these connections from this machine. All of them share
    one look at the processes. With `children` every descendant of this process is the agent's.

    Where the kernel does not show its connections, every sender counts as the agent's while the agent runs
    any process. Raises OSError if the machine is out of descriptors. Blocks: call it in a worker thread.
    """
    if not sweep.THIS_SYSTEM.has_proc:
        agents = _agents(sweep.THIS_SYSTEM.look(), children=children)
        return [
            Sender.AGENT if any(_is_connected(pid, theirs[1], ours[1]) for pid in agents) else Sender.OTHER
            for theirs, ours in connections
        ]
    try:
        sockets = [(_parsed(theirs), _parsed(ours)) for theirs, ours in connections]
        ends = [_other_end(*pair) for pair in sockets]
        if not any(map(_is_held, ends)):
            return [Sender.GONE] * len(ends)
        sockets_of_agent = _held_by(_agents(sweep.THIS_SYSTEM.look(), children=children))
        return [_judged(end, pair, sockets_of_agent) for end, pair in zip(ends, sockets, strict=True)]
    except OSError:
        sender = Sender.AGENT if _agents(sweep.THIS_SYSTEM.look(), children=children) else Sender.OTHER
        return [sender] * len(connections)


def _is_held(end: _End | None) -> TypeGuard[_End]:
    """Return True if a process holds this end."""
    return end is not None and end.inode != 0


def _judged(end: _End | None, pair: tuple[_Socket, _Socket], agent: _Held) -> Sender:
    """Return the kind of process that holds this end, after the look at the processes."""
    if not _is_held(end):
        return Sender.GONE
    if end.inode in agent.inodes or end.uid in agent.users:
        return Sender.AGENT
    # A process that ends during the look is missed by it. If the connection is still there, its process was
    # seen.
    return Sender.OTHER if _other_end(*pair) == end else Sender.GONE


def is_from_agent(theirs: Place, ours: Place) -> bool:
    """Return True if a process of this machine that the agent runs has made a connection from `theirs` to
    `ours`, or no process holds the other end any more. For an adapter with its own listener. Blocks, as
    `senders_of` does."""
    return is_on_this_machine(theirs[0]) and senders_of([(theirs, ours)], children=False) != [Sender.OTHER]


def _agents(table: sweep.ProcessTable, *, children: bool) -> set[int]:
    """Return the pids of the processes that the agent runs."""
    own, me = os.environ.get(sweep.MARKER), os.getpid()
    above = set(_ancestors(me, table))
    waiting = [one.pid for one in table.by_pid.values() if one.marker and one.marker != own]
    if children:
        waiting += [one.pid for one in table.by_pid.values() if one.parent == me and not _is_guard(one.pid)]
    below: dict[int, list[int]] = {}
    for one in table.by_pid.values():
        for leader in {one.parent, one.session}:
            below.setdefault(leader, []).append(one.pid)
    found: set[int] = set()
    while waiting:
        pid = waiting.pop()
        if pid not in found and pid not in above:
            found.add(pid)
            waiting += below.get(pid, ())
    return found


def _is_guard(pid: int) -> bool:
    """Return True if a child of ours is a guard of process groups."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return os.fsencode(sweep.__file__) in file.read().split(b"\0")
    except OSError:
        return False


def _ancestors(pid: int, table: sweep.ProcessTable) -> Iterator[int]:
    """Yield this process and its ancestors: they started the gateway, so the agent does not run them."""
    seen: set[int] = set()
    while pid in table.by_pid and pid not in seen:
        seen.add(pid)
        yield pid
        pid = table.by_pid[pid].parent


def _other_end(theirs: _Socket, ours: _Socket) -> _End | None:
    """Ask the kernel for the socket that is connected to ours; None if there is none. The list in
    /proc/net/tcp holds the same and takes 30 ms to read, however few connections there are."""
    names = struct.pack(">HH16s16s", theirs.port, ours.port, theirs.packed, ours.packed)
    any_socket = struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    asked = struct.pack("=BBBxI", theirs.family, socket.IPPROTO_TCP, 0, _ALL_STATES) + names + any_socket
    head = struct.pack("=IHHII", _HEAD + len(asked), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as kernel:
        kernel.settimeout(1.0)
        kernel.send(head + asked)
        answer = kernel.recv(4096)
    (kind,) = struct.unpack_from("=4xH", answer)
    if kind == _NLMSG_ERROR:
        (number,) = struct.unpack_from("=i", answer, _HEAD)
        if -number == errno.ENOENT:
            return None
        raise OSError(-number, "the kernel does not show connections")
    found = struct.unpack_from(">HH", answer, _HEAD + 4)
    uid, inode = struct.unpack_from("=II", answer, _HEAD + 64)
    return _End(inode, uid) if found == (theirs.port, ours.port) else None


def _parsed(place: Place) -> _Socket:
    address = _plain(ip_address(place[0].partition("%")[0]))
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    return _Socket(family, address.packed.ljust(16, b"\0"), place[1])


def _plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, else the address itself."""
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _held_by(pids: Iterable[int]) -> _Held:
    """Return the sockets that these processes hold. Of another user's process only the user is known."""
    held = _Held(set(), set())
    for pid in pids:
        folder = f"/proc/{pid}/fd"
        try:
            for name in os.listdir(folder):
                with suppress(FileNotFoundError):
                    target = os.readlink(f"{folder}/{name}")
                    if target.startswith("socket:["):
                        held.inodes.add(int(target[8:-1]))
        except PermissionError:
            with suppress(OSError):
                held.users.add(os.stat(f"/proc/{pid}").st_uid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return held


def _is_connected(pid: int, port: int, our_port: int) -> bool:  # pragma: no cover - not on Linux
    """Return True if this process has a connection from this port to ours."""
    import psutil

    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(
        one.laddr and one.raddr and (one.laddr.port, one.raddr.port) == (port, our_port)
        for one in connections
    )
