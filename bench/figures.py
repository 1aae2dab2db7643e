"""Figures: measured values with their bare limits, and their output."""

from __future__ import annotations

import json
import platform
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value, and the bare limit that bounds it."""

    name: str
    value: float
    unit: str
    bare: float | None = None
    """The same value of a bare program, measured in the same run."""
    ratio: float | None = None
    goal: str = ""
    met: bool | None = None


def beside(
    name: str, unit: str, rounds: Sequence[tuple[float, float]], *, at_least: float | None = None
) -> Figure:
    """Return the figure of a rate of ours and the bare one. Each round has measured both, one after the
    other, so that noise of the machine affects both; the ratio is the median of the ratios of the rounds."""
    ratio = median(ours / bare for ours, bare in rounds)
    return Figure(
        name,
        median(ours for ours, _ in rounds),
        unit,
        bare=median(bare for _, bare in rounds),
        ratio=ratio,
        goal=f"ratio >= {at_least:g}" if at_least else "",
        met=ratio >= at_least if at_least else None,
    )


def at_most(name: str, value: float, unit: str, goal: float, *, bare: float | None = None) -> Figure:
    """Return the figure of a value that is to be at most `goal`."""
    return Figure(name, value, unit, bare=bare, goal=f"<= {goal:g}", met=value <= goal)


def show(title: str, figures: Sequence[Figure]) -> None:
    """Print the figures as a table, then as one line of JSON."""
    print(f"{title} (Python {platform.python_version()}, SQLite {sqlite3.sqlite_version})\n")
    print(f"{'':44} {'ours':>12} {'bare':>12} {'ratio':>7}  goal")
    for figure in figures:
        bare = f"{figure.bare:>12,.4g}" if figure.bare is not None and figure.bare < 100 else (
            f"{figure.bare:>12,.0f}" if figure.bare is not None else " " * 12
        )  # fmt: skip
        ours = f"{figure.value:>12,.4g}" if figure.value < 100 else f"{figure.value:>12,.0f}"
        ratio = f"{figure.ratio:>7.2f}" if figure.ratio is not None else " " * 7
        verdict = {None: "", True: " (met)", False: " (NOT met)"}[figure.met]
        print(f"{figure.name + ', ' + figure.unit:44} {ours} {bare} {ratio}  {figure.goal}{verdict}")
    print()
    json.dump({"bench": title, "python": sys.version.split()[0], "figures": [asdict(f) for f in figures]},
              sys.stdout)  # fmt: skip
    print()
