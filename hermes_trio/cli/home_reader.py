"""Functions for commands that read a home: a read-only database, and the printing of tables.

They work with and without a running gateway, and change nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path

import click

from ..base.errors import ConfigInvalid
from ..config.config_file import load_config
from ..config.database_section import DatabaseConfig
from ..state.chosen_store import DATABASE, has_store, reading_store
from ..state.db.engine import Db
from .terminal_output import unescaped, visible

LEAST = 10
"""Minimum width of a shortened column."""


def store_of(home: Path) -> DatabaseConfig:
    """Return the configuration of the store. A home with a file is read whatever mistakes its configuration
    has; otherwise raises `ConfigInvalid`."""
    try:
        return load_config(home, os.environ).config.database
    except ConfigInvalid:
        if (home / DATABASE).exists():
            return DatabaseConfig()
        raise


def may_have_messages(home: Path) -> bool:
    """Return whether a home has a store to look into."""
    return has_store(home, store_of(home))


def open_for_reading(home: Path) -> AbstractContextManager[Db]:
    """Open the store of a home in one read transaction. Raises `StoreError` if there is none yet."""
    return reading_store(home, store_of(home))


def local_time(seconds: float | None) -> str:
    """Return a time as local date and time; an empty text for None."""
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}"


def one_line(text: str, longest: int = 60) -> str:
    """Return a foreign text on one line, cut, with control characters escaped."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, texts: Sequence[int]) -> None:
    """Print a table. In a terminal the columns with the numbers `texts` are shortened, in this order, so that
    a row fits on a line if possible."""
    from rich.cells import cell_len, set_cell_size

    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    if sys.stdout.isatty():
        excess = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
        for column in texts:
            less = max(0, min(excess, widths[column] - LEAST))
            widths[column], excess = widths[column] - less, excess - less
    for row in (columns, *rows):
        cells = (
            set_cell_size(cell, width) if cell_len(cell) <= width else set_cell_size(cell, width - 1) + "…"
            for cell, width in zip(row, widths, strict=True)
        )
        line = "  ".join(cells).rstrip()
        if row is columns:
            click.echo(click.style(visible(line), bold=True), file=unescaped(sys.stdout))
        else:
            click.echo(line)
