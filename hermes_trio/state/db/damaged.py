"""Damaged databases that `opening` has put aside, as `gateway.db.damaged-<time>`."""

from __future__ import annotations

from pathlib import Path

LOGS = ("-wal", "-shm", "-journal")
"""What the names of SQLite's files beside a database end with."""


def damaged_copies(path: Path) -> list[Path]:
    """Return the databases that were put aside here and are still there, the oldest first."""
    found = path.parent.glob(f"{path.name}.damaged-*")
    return sorted(one for one in found if not one.name.endswith(LOGS))
