"""Damaged databases that `opening` has set aside, as `gateway.db.damaged-<time>`."""

from __future__ import annotations

from pathlib import Path

LOGS = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps beside a database."""


def damaged_copies(path: Path) -> list[Path]:
    """Return the damaged databases that are still beside `path`, the oldest first."""
    found = path.parent.glob(f"{path.name}.damaged-*")
    return sorted(one for one in found if not one.name.endswith(LOGS))
