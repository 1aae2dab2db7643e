"""The floor: a bare program that holds requests open and cancels them. It stores nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import trio

from . import floor_program
from .subject import Program, Subject


class Floor(Subject):
    """A program without which nothing can be faster."""

    name = "floor"
    stores = False

    def prepare(self) -> str:
        """Return the version of Trio."""
        return f"trio {trio.__version__}"

    def program(self, home: Path, port: int, model: int, grace: float) -> Program:
        """Return the bare program."""
        return Program([sys.executable, str(Path(floor_program.__file__)), str(port), str(model), str(grace)])
