"""The place where an account goes on reading, as the gateway keeps it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True, slots=True)
class Place:
    """A session with the server, and what of it is stored."""

    session: str = ""
    """Id by which the session can be resumed."""
    number: int = 0
    """Number of the last stanza of the session that is stored."""
    archive: str | None = None
    """Id of the last stored message in the archive of the server: empty for the beginning, None if there is
    no archive."""
    rooms: tuple[str, ...] = ()
    """Rooms that the session is in."""

    @property
    def text(self) -> str:
        """The place as a text."""
        return json.dumps(asdict(self))

    def at(self, number: int, rooms: Iterable[str]) -> Place:
        """Return the place with this number and in these rooms."""
        return replace(self, number=number, rooms=tuple(sorted(rooms)))


def place_in(text: str | None) -> Place:
    """Read a place; one that cannot be read is the beginning."""
    try:
        found = json.loads(text or "{}")
        place = Place(
            found.get("session", ""),
            found.get("number", 0),
            found.get("archive"),
            tuple(found.get("rooms", ())),
        )
    except (ValueError, TypeError, AttributeError):
        return Place()
    is_sound = isinstance(place.session, str) and isinstance(place.number, int)
    return place if is_sound and isinstance(place.archive, str | None) else Place()
