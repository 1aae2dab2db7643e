"""Functions for commands that read a home: a read-only database, and the printing of tables.

They work with and without a running gateway, and change nothing.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import click

from ..base.errors import StoreUnusable
from ..state.db.engine import Db
from ..state.db.opening import connect_reading
from ..state.db.sqlite_errors import as_store_error
from .terminal_output import unescaped, visible

LEAST = 10
"""Minimum width of a shortened column."""


@contextmanager
def open_for_reading(home: Path) -> Iterator[Db]:
    """Open the database of a home in one read transaction."""
    path = home / "gateway.db"
    if not path.exists():
        raise StoreUnusable(
            path,
            "does not exist, so there are no messages yet",
            "Start with `hermes-trio chat` or `hermes-trio run`.",
        )
    try:
        with closing(connect_reading(path)) as db:
            db.execute("BEGIN")
            yield db
    except sqlite3.Error as error:
        ours = as_store_error(error, path)
        if ours is not error:
            raise ours from error
        problem = f"cannot be read ({error})"
        raise StoreUnusable(path, problem, "Start the gateway once: it updates the file.") from error


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
