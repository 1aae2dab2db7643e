"""The failed log-ins of each address, which limit further ones, and the addresses that are trusted."""

from __future__ import annotations

from collections import deque

from starlette.requests import Request

from ...base.recent import Recent
from ...base.world import World
from .http_errors import Refusal

MOST_TRIES, TRIES_WITHIN = 5, 60.0
MOST_ADDRESSES = 1000


class LoginAttempts:
    """The attempts to guess the key or a link of one gateway, by address."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._failed: Recent[str, deque[float]] = Recent(MOST_ADDRESSES)
        self._trusted: Recent[str, None] = Recent(MOST_ADDRESSES)

    def trust(self, request: Request) -> None:
        """Note that a client at this address has shown the right key."""
        self._trusted[address_of(request)] = None

    def is_trusted(self, request: Request) -> bool:
        """Return True if a client at this address has shown the right key."""
        return address_of(request) in self._trusted

    def note_failure(self, request: Request) -> None:
        """Count a wrong key or link."""
        address = address_of(request)
        self._failed[address] = times = self._failed.get(address, deque(maxlen=MOST_TRIES))
        times.append(self._world.time())

    def refusal(self, request: Request) -> Refusal | None:
        """Return the refusal of a further attempt after too many failed ones; else None."""
        times = self._failed.get(address_of(request))
        if times is None or len(times) < MOST_TRIES:
            return None
        if (wait := times[0] + TRIES_WITHIN - self._world.time()) <= 0:
            return None
        headers = {"Retry-After": str(int(wait) + 1)}
        return Refusal(429, "too_many_tries", "Too many wrong keys or links.", "Wait a minute.", headers)

    def check(self, request: Request) -> None:
        """Raise `Refusal` after too many failed attempts."""
        if (refusal := self.refusal(request)) is not None:
            raise refusal


def address_of(request: Request) -> str:
    """Return the address of the client; empty if it is unknown."""
    return request.client.host if request.client else ""
