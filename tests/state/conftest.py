"""Databases with the shipped schema, used directly, as the owner's thread uses them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermes_trio.base.world import World
from hermes_trio.state.db.database import OpenEngine
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import shipped_steps
from tests.postgres import at_once
from tests.state.seams import allow_transactions


@pytest.fixture
def db(tmp_path: Path, world: World, open_engine: OpenEngine) -> Iterator[Db]:
    with _opened(tmp_path / "gateway.db", world, open_engine) as db:
        yield db


@pytest.fixture(scope="module")
def shared_db(tmp_path_factory: pytest.TempPathFactory, open_engine: OpenEngine) -> Iterator[Db]:
    """A database for tests with many examples: each example rolls back its changes."""
    with _opened(tmp_path_factory.mktemp("home") / "gateway.db", World(), open_engine) as db:
        yield db


@contextmanager
def _opened(path: Path, world: World, open_engine: OpenEngine) -> Iterator[Db]:
    engine = open_engine(path, world, shipped_steps())
    engine.close_reading()
    allow_transactions(engine.writing)
    try:
        yield at_once(engine.writing)
    finally:
        engine.close_writing()
