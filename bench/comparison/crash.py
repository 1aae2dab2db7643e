"""A program that is killed (SIGKILL) while its turns run: the time until it is ready again, its knowledge of
them in its next life, and what it leaves behind.

    python -m bench crash --peers
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from .results import results
from .rounds import broken, chosen, exit_code, grouped, measure_all, middle, parsed, prepared
from .stop import Stop, Stopped, measure

SIZES = (1, 10)


def main(arguments: Sequence[str] = ()) -> int:
    """Measure all programs that were asked for, and show what was found."""
    given, console = parsed("crash", arguments), Console()
    subjects = prepared(given, console)
    sizes = given.sizes or (SIZES[-1:] if given.quick else SIZES)
    kinds = chosen(given, [Stop(f"{count} killed", count, kill=True) for count in sizes])
    rounds = given.rounds or (1 if given.quick else 5)
    versions = {subject.name: version for subject, version in subjects.items()}
    with results(given.out, "crash", add=given.add, rounds=rounds, versions=versions) as out:
        measured = measure_all(list(subjects), kinds, measure, rounds, out)
    show(console, measured)
    console.print(f"Results: {given.out}/crash.jsonl")
    return exit_code(measured)


def show(console: Console, measured: Sequence[Stopped]) -> None:
    """Print a table."""
    table = Table(title="Killed while turns run: medians in seconds")
    for name in ("program", "kill", "ready", "first answer", "ready again", "resumed after", "broken"):
        table.add_column(name, overflow="fold")
    for (subject, stop), rounds in grouped(measured).items():
        table.add_row(
            subject,
            stop,
            middle(rounds, lambda one: one.started_s, 2),
            middle(rounds, lambda one: one.answered_s, 2),
            middle(rounds, lambda one: one.again_s, 2),
            middle(rounds, lambda one: one.resumed_s, 2),
            rounds[0].failed or next(filter(None, map(broken, rounds)), ""),
        )
    console.print(table)
