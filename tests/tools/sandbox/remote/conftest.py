"""Fixtures: each place for commands, opened once for all tests that use it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.tools.sandbox.remote.places import PLACES, Place, sshd


@pytest.fixture(scope="module", params=PLACES)
def opened_place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Each place in turn, for the tests of a module: others look for processes that are left."""
    with PLACES[request.param](tmp_path_factory.mktemp("place")) as place:
        yield place


@pytest.fixture
def place(opened_place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A place, with the program that leads there on the PATH."""
    monkeypatch.setenv("PATH", f"{opened_place.programs}:{os.environ['PATH']}")
    return opened_place


@pytest.fixture
def host(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """An sshd of this test alone, with the ssh that leads there on the PATH."""
    with sshd(tmp_path_factory.mktemp("host")) as place:
        monkeypatch.setenv("PATH", f"{place.programs}:{os.environ['PATH']}")
        yield place
