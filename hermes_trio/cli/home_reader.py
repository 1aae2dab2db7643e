"""What commands share that look into a home from outside: its database, read only, and how things are
shown. Works while the gateway runs and while it does not, and changes nothing."""

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
from ..state.db.opening import connect_reading
from ..state.db.sqlite_errors import as_store_error
from .terminal_output import unescaped, visible

LEAST = 10
"""So much of a text is always shown."""


@contextmanager
def reading(home: Path) -> Iterator[sqlite3.Connection]:
    """The database of a home, at one moment."""
    path = home / "gateway.db"
    if not path.exists():
        raise StoreUnusable(
            path,
            "is not there, so nothing was said yet",
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
        raise StoreUnusable(path, problem, "Start the gateway once: it brings it up to date.") from error


def at(seconds: float | None) -> str:
    """A moment as people here write it."""
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}"


def one_line(text: str, longest: int = 60) -> str:
    """What somebody else wrote on one line, cut, without what a terminal would obey."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, texts: Sequence[int]) -> None:
    """Rows below each other. At a terminal the columns of these numbers are cut, the first before the next,
    so that a row is a line where that can be."""
    from rich.cells import cell_len, set_cell_size

    widths = [max(map(cell_len, column)) for column in zip(columns, *rows, strict=True)]
    if sys.stdout.isatty():
        over = sum(widths) + 2 * (len(widths) - 1) - shutil.get_terminal_size().columns
        for place in texts:
            less = max(0, min(over, widths[place] - LEAST))
            widths[place], over = widths[place] - less, over - less
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
