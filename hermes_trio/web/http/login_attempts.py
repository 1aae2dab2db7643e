"""The failed log-ins of each address, which limit further ones, and the addresses that are trusted."""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from starlette.requests import Request

from ...base.world import World
from .http_errors import Refusal

MOST_TRIES, TRIES_WITHIN = 5, 60.0
MOST_ADDRESSES = 1000

T = TypeVar("T")


class LoginAttempts:
    """The attempts to guess the key or a link of one gateway, by address."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._failed: dict[str, deque[float]] = {}
        self._trusted: dict[str, None] = {}

    def trust(self, request: Request) -> None:
        """Note that a client at this address has shown the right key."""
        _remember(self._trusted, address_of(request), None)

    def is_trusted(self, request: Request) -> bool:
        """Return True if a client at this address has shown the right key."""
        return address_of(request) in self._trusted

    def note_failure(self, request: Request) -> None:
        """Count a wrong key or link."""
        times = self._failed.get(address_of(request), deque(maxlen=MOST_TRIES))
        _remember(self._failed, address_of(request), times)
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


def _remember(table: dict[str, T], address: str, value: T) -> None:
    """Store a value for an address, in place of the oldest one if there are too many."""
    if address not in table and len(table) >= MOST_ADDRESSES:
        del table[next(iter(table))]
    table[address] = value
