"""A program that is killed (SIGKILL) while its turns run: the time until it is ready again, its knowledge of
them in its next life, and what it leaves behind.

    python -m bench crash --peers
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from ..subjects.ours import HermesTrio
from .comparison import broken, measure_all, parsed, prepared
from .results import results
from .stop import Stop, Stopped

SIZES = (1, 10)


def main(arguments: Sequence[str] = ()) -> int:
    """Measure all programs that were asked for, and show what was found."""
    given, console = parsed("crash", arguments), Console()
    subjects = prepared(given, console)
    kinds = [Stop(f"{count} killed", count, kill=True) for count in given.sizes or SIZES]
    rounds = given.rounds or (1 if given.quick else 5)
    versions = {subject.name: version for subject, version in subjects.items()}
    with results(given.out, "crash", rounds=rounds, versions=versions) as out:
        measured = measure_all(list(subjects), kinds, rounds, out)
    show(console, measured)
    console.print(f"Results: {given.out}/crash.jsonl")
    return 1 if any(broken(one) for one in measured if one.subject == HermesTrio.name) else 0


def show(console: Console, measured: Sequence[Stopped]) -> None:
    """Print a table."""
    table = Table(title="Killed while turns run: medians in seconds")
    for name in ("program", "kill", "ready", "ready again", "resumed after", "broken"):
        table.add_column(name)
    for subject, stop in dict.fromkeys((one.subject, one.stop) for one in measured):
        rounds = [one for one in measured if (one.subject, one.stop) == (subject, stop)]
        table.add_row(
            subject,
            stop,
            _median(rounds, lambda one: one.started_s),
            _median(rounds, lambda one: one.again_s),
            _median(rounds, lambda one: one.resumed_s),
            rounds[0].failed or next(filter(None, map(broken, rounds)), ""),
        )
    console.print(table)


def _median(rounds: Sequence[Stopped], value: Callable[[Stopped], float | None]) -> str:
    values = [found for one in rounds if (found := value(one)) is not None]
    return f"{median(values):.2f}" if values else "-"
