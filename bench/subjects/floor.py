"""The floor: a bare program that holds requests open and cancels them. It stores nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import trio

from . import floor_program
from .subject import Program, Start, Subject


class Floor(Subject):
    """A program without which nothing can be faster."""

    name = "floor"
    stores = False
    cannot: Mapping[str, str] = {"tools": "it has no tools", "platform": "it has no platforms"}

    def prepare(self) -> str:
        """Return the version of Trio."""
        return f"trio {trio.__version__}"

    def program(self, start: Start) -> Program:
        """Return the bare program."""
        given = [str(start.port), str(start.model), str(start.grace)]
        return Program([sys.executable, str(Path(floor_program.__file__)), *given])
