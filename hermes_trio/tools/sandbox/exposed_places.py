"""The grant *exposed places*: a command may run although its sandbox cannot keep it from protected places in
the directories that it may write.

Nobody asks for this grant: it is needed where a sandbox can only allow whole directories, and such places
exist at that moment. It is one for each directory and each harm, so a yes to settings that a command could
change does not include a secret that comes later.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from .views import FileAccess, Room, Views

MOST_NAMED = 12
"""Places that a question names; it tells the number of the others."""
REMEDY = (
    "The sandbox that works here (Landlock without namespaces) cannot protect them inside of a directory "
    "that may be written. So that nobody is asked: install bubblewrap and allow user namespaces, or set "
    "terminal.cwd to a directory without such files. `hermes-trio doctor` names them."
)
_STORED_AS = "grant: exposed"
_HARM = {FileAccess.HIDDEN: "can read secrets in", FileAccess.READ: "can change files that run later in"}
_KIND = {FileAccess.HIDDEN: "secrets", FileAccess.READ: "files that run later"}
_SHOWN = {FileAccess.HIDDEN: "exposed secret", FileAccess.READ: "exposed file that runs later"}


def exposed_kinds(places: Views, room: Room) -> Mapping[str, str]:
    """Return what a person is asked to allow, in words, and the name under which a yes is stored."""
    tops = [os.path.realpath(top) for top in (room.work, *room.writable)]
    found = sorted({(_top_of(path, tops), access) for path, access in places.items()})
    return {f"{_HARM[access]} {top}": f"{_STORED_AS} {_KIND[access]} in {top}" for top, access in found}


def remedy_for(names: Iterable[str]) -> str:
    """Return what the owner can do so that these grants, as they are stored, are not needed; empty if none of
    them is for exposed places."""
    return f" {REMEDY}" if any(name.startswith(_STORED_AS) for name in names) else ""


def shown_places(places: Views) -> Iterator[str]:
    """Yield the lines that name the places to a person, secrets first."""
    ordered = sorted(places.items(), key=lambda place: (place[1], place[0].count("/"), place[0]))
    yield from (f"{_SHOWN[access]} {path}" for path, access in ordered[:MOST_NAMED])
    if len(ordered) > MOST_NAMED:
        yield f"exposed places that are not named here: {len(ordered) - MOST_NAMED}"


def _top_of(path: str, tops: Iterable[str]) -> str:
    """Return the writable directory that a place is in."""
    return next((top for top in tops if Path(path).is_relative_to(top)), os.path.dirname(path))
