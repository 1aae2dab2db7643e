"""`python -m tests.house`: how the code is laid out, in figures, beside those of an earlier tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from . import cycles, facade, folders, patches, surface, walk, wording
from .source import Measure, Source, read_source

ROOT = Path(__file__).parents[2]
BEFORE = Path(__file__).with_name("before.json")
SEED = 20261119


def groups(source: Source) -> dict[str, list[Measure]]:
    """All measures, in groups."""
    return {
        "Façades that are handed around": facade.measures(source),
        "Folders, modules and names": folders.measures(source),
        "Import cycles": cycles.measures(source),
        "Public names": surface.measures(source),
        "Internals in tests": patches.measures(source),
        "Functions and texts": wording.measures(source),
        "Walks": walk.measures(source),
    }


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option("--long", "everything", is_flag=True, help="List the places behind each figure.")
@click.option("--seed", default=SEED, show_default=True, help="Seed of the samples.")
@click.option("--before", type=click.Path(path_type=Path), default=BEFORE, help="Figures to compare with.")
def main(as_json: bool, everything: bool, seed: int, before: Path) -> None:
    """Print how the code is laid out. The exit status says nothing about the figures."""
    source = read_source(ROOT)
    grouped, drawn = groups(source), wording.samples(source, seed)
    if as_json:
        click.echo(json.dumps(_values(grouped, drawn, everything), indent=2, ensure_ascii=False))
        return
    former = json.loads(before.read_text(encoding="utf-8"))["figures"] if before.exists() else {}
    click.echo(table(grouped, former, everything))
    for what, texts in drawn.items():
        click.echo(f"\nSample of {what} (seed {seed})\n" + "\n".join(f"  {text}" for text in texts))


def table(grouped: dict[str, list[Measure]], former: dict[str, dict[str, int]], everything: bool) -> str:
    """The figures as a table for people. A figure that misses its goal has a star."""
    lines = [f"{'':56}{'before':>8}{'now':>8}   goal"]
    for title, rows in grouped.items():
        lines += ["", title]
        for row in rows:
            goal = "" if row.goal is None else f"≤ {row.goal}" if row.goal else "0"
            missed = " *" if row.goal is not None and row.figure > row.goal else "  "
            earlier = former.get(title, {}).get(row.name, "-")
            lines.append(f"  {row.name:54}{earlier:>8}{row.figure:>8}{missed} {goal}".rstrip())
            if everything:
                lines += [f"      {place}" for place in row.found]
    return "\n".join(lines)


def _values(
    grouped: dict[str, list[Measure]], drawn: dict[str, list[str]], everything: bool
) -> dict[str, Any]:
    """The report as values for JSON; the places and samples only in the long report."""
    values: dict[str, Any] = {
        "figures": {title: {row.name: row.figure for row in rows} for title, rows in grouped.items()}
    }
    if everything:
        values["found"] = {title: {row.name: row.found for row in rows} for title, rows in grouped.items()}
        values["samples"] = drawn
    return values


if __name__ == "__main__":
    main()
