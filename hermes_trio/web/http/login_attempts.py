"""The wrong keys and links of each client, which limit further ones.

A client is an address, or an IPv6 network, because a machine has all addresses of its network. Behind a proxy
on this machine it is the address that the proxy names in `X-Forwarded-For`. Every program here can name any
address, so all clients of the proxy together are limited too.

After too many wrong keys no key of this client is compared, the right one neither: it may be the next guess.
Some clients can be told from a guesser who shares their address:

- A program that repeats an old key guesses once, and only that key is refused for a while.
- An address that has shown the right key has more tries.
- A connection that has shown the right key and no other has nothing to guess. One of a proxy is not known: it
  has many users.
"""

from __future__ import annotations

import ipaddress
from collections import deque

from starlette.requests import Request

from ...base.recent import Recent
from ...base.world import World
from .connection import NOTES
from .http_errors import Refusal
from .server import is_loopback

MOST_TRIES, TRIES_WITHIN = 5, 60.0
MOST_TRIES_OF_KNOWN = 100
"""Tries of an address that has shown the right key, and of all clients of a proxy together."""
MOST_ADDRESSES = 1000
_RIGHT, _WRONG = "has shown the right key", "has shown a wrong key"


class LoginAttempts:
    """The attempts to guess the key or a link of one gateway. A guess is given as its digest."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._wrong: Recent[str, deque[tuple[float, bytes]]] = Recent(MOST_ADDRESSES)
        self._known: Recent[str, None] = Recent(MOST_ADDRESSES)

    def note_right_key(self, request: Request) -> None:
        """Note that a client has shown the right key."""
        if not _is_known(request):
            self._known[_addresses(request)[0]] = None
            _notes(request).add(_RIGHT)

    def note_wrong(self, request: Request, given: bytes) -> None:
        """Count a wrong key or link."""
        now = self._world.time()
        _notes(request).add(_WRONG)
        for address in dict.fromkeys(_addresses(request)):
            self._wrong[address] = wrong = self._wrong.get(address, deque())
            while wrong and wrong[0][0] <= now - TRIES_WITHIN:
                wrong.popleft()
            wrong.append((now, given))

    def refusal(self, request: Request, given: bytes) -> Refusal | None:
        """Return the refusal of a further attempt after too many wrong ones; else None."""
        if _is_known(request):
            return None
        client, peer = _addresses(request)
        if client in self._known:
            wait = self._wait(client, given, MOST_TRIES_OF_KNOWN)
        else:
            wait = self._wait(client, given, MOST_TRIES)
            if client != peer:
                wait = max(wait, self._wait(peer, given, MOST_TRIES_OF_KNOWN))
        if wait <= 0:
            return None
        headers = {"Retry-After": str(int(wait) + 1)}
        return Refusal(429, "too_many_tries", "Too many wrong keys or links.", "Wait a minute.", headers)

    def _wait(self, address: str, given: bytes, most: int) -> float:
        """Return the seconds until this address may try this key or link; 0 or less if it may do so now."""
        oldest = self._world.time() - TRIES_WITHIN
        wrong = [one for one in self._wrong.get(address, ()) if one[0] > oldest]
        same = [at for at, one in wrong if one == given]
        if len(same) >= MOST_TRIES:
            return same[-MOST_TRIES] - oldest
        return wrong[0][0] - oldest if len({one for _, one in wrong}) >= most else 0.0


def _is_known(request: Request) -> bool:
    """Return True if the connection of this request belongs to a client that has the key."""
    notes = _notes(request)
    return _RIGHT in notes and _WRONG not in notes and "x-forwarded-for" not in request.headers


def _addresses(request: Request) -> tuple[str, str]:
    """Return the address of the client, and that of the connection: they differ if a proxy on this machine
    names its client."""
    peer = request.client.host if request.client else ""
    own = _network(peer) or peer
    named = request.headers.getlist("x-forwarded-for")
    if named and is_loopback(peer):
        address = named[-1].rpartition(",")[2].strip()
        for form in (address, address.rpartition(":")[0]):  # some proxies add the port
            if client := _network(form.strip("[]")):
                return client, own
    return own, own


def _network(text: str) -> str:
    """Return an IPv4 address, or the network of an IPv6 address; empty if the text is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped or ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)


def _notes(request: Request) -> set[str]:
    """Return the notes of the connection of a request."""
    notes: set[str] = request.scope.get("extensions", {}).get(NOTES, set())
    return notes
