"""The hosts that a command may reach, each granted by a person."""

from __future__ import annotations

import re
from ipaddress import ip_address

import msgspec

PORTS = (80, 443)
"""The ports of a host that is granted without one."""
LONGEST_NAME = 253
_TEXT = re.compile(r"(?:\[(?P<ipv6>[^\]]*)\]|(?P<name>[^\[\]:]+))(?::(?P<port>[0-9]{1,5}))?")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*[a-z](?:[a-z0-9-]*[a-z0-9])?")
"""A name whose last part begins with a letter: one that does not may be read as an address."""


class Host(msgspec.Struct, frozen=True):
    """A host, and the only port of it that is meant."""

    name: str
    """A name in lower case, or an IP address in its usual form."""
    port: int | None = None

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"

    def admits(self, other: Host) -> bool:
        """Return True if a grant of this host is one of the other, which has a port."""
        ports = PORTS if self.port is None else (self.port,)
        return self.name == other.name and other.port in ports


def host_of(text: str) -> Host | None:
    """Return the host of a text such as `example.org`, `example.org:8443` or `[2001:db8::1]:443`; None if it
    is none. A name in other letters has to be written in its ASCII form, which cannot look like another."""
    found = _TEXT.fullmatch(text)
    if found is None or not text.isascii():
        return None
    port = None if found["port"] is None else int(found["port"])
    name = _name_of(found["name"]) if found["ipv6"] is None else _address_of(found["ipv6"], 6)
    return None if name is None or port == 0 or (port or 0) > 0xFFFF else Host(name, port)


def _name_of(text: str) -> str | None:
    name = text.removesuffix(".").lower()
    return name if len(name) <= LONGEST_NAME and _NAME.fullmatch(name) else _address_of(name, 4)


def _address_of(text: str, version: int) -> str | None:
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return str(address) if address.version == version and "%" not in text else None
