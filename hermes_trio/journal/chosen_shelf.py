"""The shelf of the run journals that a configuration chooses: files in the home, or rows beside the store."""

from __future__ import annotations

from pathlib import Path

from ..base.world import World
from ..config.database_section import DatabaseConfig
from ..state.chosen_store import server_of
from .file_shelf import FileShelf
from .shelf import Shelf

FOLDER = "journal"


def shelf_of(home: Path, config: DatabaseConfig, world: World, life: str = "") -> Shelf:
    """Return the shelf of a home. Only a life writes on that of a server."""
    server = server_of(config)
    if server is None:
        return FileShelf(home / FOLDER)
    from .row_shelf import RowShelf  # it loads psycopg

    return RowShelf(server, world, life)
