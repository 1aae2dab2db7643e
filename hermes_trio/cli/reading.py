"""What commands share that look into a home from outside: its database, read only, and how things are
shown. Works while the gateway runs and while it does not, and changes nothing."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path

import click

from ..errors import StoreUnusable
from ..state.opening import connect_reading
from ..state.sqlite_errors import typed


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
        ours = typed(error, path)
        if ours is not error:
            raise ours from error
        problem = f"cannot be read ({error})"
        raise StoreUnusable(path, problem, "Start the gateway once: it brings it up to date.") from error


def at(seconds: float | None) -> str:
    """A moment as people here write it."""
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}"


def plain(text: str) -> str:
    """What somebody else wrote, without what a terminal would obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)


def one_line(text: str, longest: int = 60) -> str:
    """The same on one line, cut."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= longest else line[: longest - 1] + "…"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows below each other: drawn for who sits at a terminal, plain columns for everything else."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Column, Table
        from rich.text import Text

        # The first is what other commands ask for: it stays whole, however narrow the terminal is.
        name = Column(columns[0], no_wrap=True, min_width=max((len(row[0]) for row in rows), default=0))
        table = Table(name, *columns[1:], box=None, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(*map(Text, row))  # Text: what people wrote is no markup
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
