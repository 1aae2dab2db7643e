"""Databases with the shipped schema, used directly, as the owner's thread uses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_trio.base.world import World
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import open_connections


@pytest.fixture
def db(tmp_path: Path, world: World) -> Iterator[Db]:
    connections = open_connections(tmp_path / "gateway.db", world, shipped_steps())
    connections.reading.close()
    yield connections.writing
    connections.writing.close()


@pytest.fixture(scope="module")
def shared_db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Db]:
    """A database for tests with many examples: each example rolls back its changes."""
    path = tmp_path_factory.mktemp("home") / "gateway.db"
    connections = open_connections(path, World(), shipped_steps())
    connections.reading.close()
    yield connections.writing
    connections.writing.close()
