"""The protected places of a writable directory, also those that a search does not find any more.

A search looks at a bounded number of entries, and a command can make as many as it likes in front of them. So
the places that were found are noted in the home, and hold as long as they exist.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from ...host.files.json_files import write_small
from ...host.files.private_files import make_private_dir
from ..safety.protected_paths import Level

Places = dict[str, Level]
"""The level of each place, by its real path."""


def with_noted(root: str, found: Places, home: Path) -> Places:
    """Return the places that were found in a directory and those that were found before, and note them."""
    note = home / "places" / f"{sha256(os.fsencode(root)).hexdigest()[:32]}.json"
    noted: Places = {}
    with suppress(OSError, msgspec.DecodeError):
        noted = msgspec.json.decode(note.read_bytes(), type=Places)
    places = {path: level for path, level in noted.items() if _is_there(path)} | found
    if places != noted:
        with suppress(OSError, UnicodeEncodeError):  # a full disk, or a name that is no text
            make_private_dir(note.parent)
            write_small(note, msgspec.json.encode(places))
    return places


def _is_there(path: str) -> bool:
    """Return whether this is still a real path: a command may have made the place itself, and moved it."""
    with suppress(OSError):
        return os.path.lexists(path) and os.path.realpath(path) == path
    return False
