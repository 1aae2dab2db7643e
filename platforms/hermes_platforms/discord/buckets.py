"""Rate limits of Discord's API, as its answers tell them. Pure: the caller passes the time.

A route belongs to a bucket, which Discord names in its answers. A bucket is counted for each channel apart. A
limit of everything (`global`) holds every route.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

MOST_ROOMS = 2000

_PATH = re.compile(r"/(channels|guilds|webhooks)/([^/]+)(.*)")
_ID = re.compile(r"(?<=/)\d+(?=/|\Z)")
_REACTION = re.compile(r"/reactions/.*")


@dataclass(frozen=True, slots=True)
class Route:
    """A route of the API, and the channel, server or webhook for which it is counted."""

    name: str
    major: str = ""


def route_of(method: str, path: str) -> Route:
    """Return the route of a request."""
    found = _PATH.fullmatch(path)
    if found is None:
        return Route(f"{method} {_ID.sub(':id', path)}")
    rest = _ID.sub(":id", _REACTION.sub("/reactions", found[3]))
    return Route(f"{method} /{found[1]}/:id{rest}", found[2])


@dataclass(slots=True)
class _Room:
    remaining: int
    resets_at: float


class Buckets:
    """The rest of each limit."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._rooms: dict[tuple[str, str], _Room] = {}
        self._held_until = 0.0

    def wait(self, route: Route, now: float) -> float:
        """Return the seconds until a request may be made."""
        room = self._room(route)
        own = room.resets_at - now if room is not None and room.remaining <= 0 else 0.0
        return max(own, self._held_until - now, 0.0)

    def take(self, route: Route, now: float) -> None:
        """Note that a request is made."""
        room = self._room(route)
        if room is not None and room.resets_at > now:
            room.remaining -= 1

    def answered(self, route: Route, headers: Mapping[str, str], now: float) -> None:
        """Note what an answer says about the limit of its route."""
        try:
            name, remaining = headers["x-ratelimit-bucket"], int(headers["x-ratelimit-remaining"])
            resets_at = now + float(headers["x-ratelimit-reset-after"])
        except (KeyError, ValueError):
            return
        self._names[route.name] = name
        if len(self._rooms) >= MOST_ROOMS:
            self._rooms = {key: room for key, room in self._rooms.items() if room.resets_at > now}
        self._rooms[name, route.major] = _Room(remaining, resets_at)

    def hold(self, until: float) -> None:
        """Note that nothing may be requested until then."""
        self._held_until = max(self._held_until, until)

    def _room(self, route: Route) -> _Room | None:
        return self._rooms.get((self._names.get(route.name, ""), route.major))
