"""A database of the shipped schema, used as its owner's thread uses it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_trio.base.world import World
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import open_connections


@pytest.fixture
def db(tmp_path: Path, world: World) -> Iterator[sqlite3.Connection]:
    connections = open_connections(tmp_path / "gateway.db", world, shipped_steps())
    connections.reading.close()
    yield connections.writing
    connections.writing.close()


@pytest.fixture(scope="module")
def shared_db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    """The same for stories that are told with many examples: each rolls back what it did."""
    path = tmp_path_factory.mktemp("home") / "gateway.db"
    connections = open_connections(path, World(), shipped_steps())
    connections.reading.close()
    yield connections.writing
    connections.writing.close()
