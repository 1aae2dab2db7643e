"""The addresses that a tool may reach: public ones only. Pure, apart from the lookup.

A name is looked up once, every address of the result is checked, and the connection goes to one of those: a
later change of the name makes no difference. IPv6 addresses are checked together with the IPv4 addresses that
they contain, because IPv6 has many ways to write those.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator

import trio

from ...base.errors import GatewayError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Lookup = Callable[[str, int], Awaitable[list[str]]]
"""Looks up the addresses of a name and a port. Raises OSError."""

LOOKUP_SECONDS = 15.0

_CLOSED = tuple(
    map(
        ipaddress.ip_network,
        (
            "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
            "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24",
            "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
            "224.0.0.0/4", "240.0.0.0/4",
            # A cloud's own service for its machines, at an address that looks public.
            "168.63.129.16/32",
        ),
    )
)  # fmt: skip
_OPEN6 = ipaddress.ip_network("2000::/3")
"""The range of public IPv6 addresses. All others are private or unassigned."""
_CLOSED6 = tuple(
    map(ipaddress.ip_network, ("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"))
)
_METADATA = (
    "metadata.google.internal",
    "metadata.goog",
    "metadata",
    "instance-data",
    "instance-data.ec2.internal",
)
_LOCAL_ENDINGS = (
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "lan",
    "home",
    "corp",
    "home.arpa",
)


class AddressRefused(GatewayError):
    """An address that no tool may connect to."""

    def __init__(self, host: str, why: str) -> None:
        super().__init__(f"{host} {why}")
        self.host = host


class HostUnknown(AddressRefused):
    """A host whose address cannot be found."""


def is_public(address: Address) -> bool:
    """Return whether this address, and every address that it contains, is public."""
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in net for net in _CLOSED)
    inner = list(_wrapped(address))
    if inner:
        return all(map(is_public, inner))
    return address in _OPEN6 and address.scope_id is None and not any(address in net for net in _CLOSED6)


def _wrapped(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses that a router may derive from this one."""
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address in ipaddress.ip_network("64:ff9b::/96"):
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


async def look_up(host: str, port: int) -> list[str]:
    """Look up the addresses of a name with the system's resolver."""
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


async def public_addresses(host: str, port: int, lookup: Lookup = look_up) -> list[Address]:
    """Return the addresses of a host if all of them are public. Raises `AddressRefused`."""
    if is_private_name(host):
        raise AddressRefused(host, "is a name of a private network, which tools may not reach.")
    found = await addresses_of(host, port, lookup)
    for address in found:
        if not is_public(address):
            raise AddressRefused(host, "leads to a private network, which tools may not reach.")
    return found


async def addresses_of(host: str, port: int, lookup: Lookup = look_up) -> list[Address]:
    """Return the addresses of a host, public or not. Raises `HostUnknown`."""
    name = _folded(host)
    literal = _literal(name)
    if literal is not None:
        return [literal]
    try:
        with trio.fail_after(LOOKUP_SECONDS):
            answers = await lookup(name, port)
    except (OSError, UnicodeError) as error:
        raise HostUnknown(host, f"cannot be found: {error}.") from error
    except trio.TooSlowError:
        raise HostUnknown(host, "cannot be found: the lookup takes too long.") from None
    if not answers:
        raise HostUnknown(host, "has no address.")
    return [ipaddress.ip_address(each) for each in dict.fromkeys(answers)]


def is_private_name(host: str) -> bool:
    """Return whether a name is one of a private network, so that whoever reads it can see that."""
    name = _folded(host)
    return (
        not name
        or name in _METADATA
        or name.rpartition(".")[2] in _LOCAL_ENDINGS
        or name.endswith(".home.arpa")
    )


def _folded(host: str) -> str:
    return host.strip("[]").rstrip(".").casefold()


def _literal(name: str) -> Address | None:
    """Return the address that a host is, in any spelling that some resolver accepts: 127.1, 0x7f000001,
    017700000001. None for a name."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        pass
    parts = name.split(".")
    if len(parts) > 4 or not all(parts):
        return None
    try:
        numbers = [
            int(part, 0 if part.startswith("0x") else 8 if part.startswith("0") else 10) for part in parts
        ]
    except ValueError:
        return None
    *heads, last = numbers
    if any(not 0 <= head < 256 for head in heads) or not 0 <= last < 256 ** (5 - len(parts)):
        raise AddressRefused(name, "is not an address.")
    return ipaddress.IPv4Address(sum(head << 8 * (3 - at) for at, head in enumerate(heads)) + last)
