"""The time that a gateway takes to end, and what it loses by it, beside others that people run.

    python -m bench drain                     # this gateway and the floor
    python -m bench drain --peers             # and the others, each installed when it is first needed
    python -m bench drain --quick --only hermes-trio

All programs are measured in each round, one after the other, so that noise of the machine affects all. Times
are medians over the rounds, with their spread; `stops` says what is measured. A broken promise (a lost turn,
an answer twice, a finished turn that runs again, a process that stays) of this gateway makes the exit code 1;
a time never does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table

from ..subjects.ours import HermesTrio
from .comparison import broken, measure_all, parsed, prepared
from .plots import lines, strips
from .results import results
from .stop import Stop, Stopped

SIZES = (1, 10, 50, 200)
QUICK = (1, 10)


def stops(sizes: Iterable[int]) -> list[Stop]:
    """Return the stops of these sizes."""
    sized = [
        stop
        for count in sizes
        for stop in (Stop(f"{count} cut", count), Stop(f"{count} finishing", count, finish=True))
    ]
    return [Stop("idle", 0), *sized, Stop("10 cut after 1 s", 10, grace=1.0)]


def main(arguments: Sequence[str] = ()) -> int:
    """Measure all programs that were asked for, and show what was found."""
    given, console = parsed("drain", arguments), Console()
    subjects = prepared(given, console)
    kinds = stops(given.sizes or (QUICK if given.quick else SIZES))
    rounds = given.rounds or (2 if given.quick else 5)
    versions = {subject.name: version for subject, version in subjects.items()}
    settings = {subject.name: subject.settings for subject in subjects}
    with results(given.out, "drain", rounds=rounds, versions=versions, settings=settings) as out:
        measured = measure_all(list(subjects), kinds, rounds, out)
    show(console, measured, [kind.name for kind in kinds])
    draw(given.out, measured, kinds)
    console.print(f"Results: {given.out}/drain.jsonl, {given.out}/*.svg")
    return 1 if any(broken(one) for one in measured if one.subject == HermesTrio.name) else 0


def show(console: Console, measured: Sequence[Stopped], kinds: Sequence[str]) -> None:
    """Print a table."""
    table = Table(title="Overshoot of a stop in ms: median (least to most); and what was broken")
    names = list(dict.fromkeys(one.subject for one in measured))
    table.add_column("stop")
    for name in names:
        table.add_column(name, justify="right")
    for kind in kinds:
        row = [[one for one in measured if (one.subject, one.stop) == (name, kind)] for name in names]
        table.add_row(kind, *map(_cell, row))
    console.print(table)
    for subject, failed in dict.fromkeys((one.subject, one.failed) for one in measured if one.failed):
        console.print(f"{subject}: {failed}")


def _cell(rounds: Sequence[Stopped]) -> str:
    if not rounds or rounds[0].failed:
        return "-"
    took = [one.overshoot_ms for one in rounds if one.overshoot_ms is not None]
    text = (
        "killed" if len(took) < len(rounds) else f"{median(took):,.0f} ({min(took):,.0f} to {max(took):,.0f})"
    )
    held = min(one.held for one in rounds)
    if held < rounds[0].count:
        text += f"\nheld {held} of {rounds[0].count}"
    if found := next(filter(None, map(broken, rounds)), ""):
        text += f"\n{found}"
    return text


def draw(directory: Path, measured: Sequence[Stopped], kinds: Sequence[Stop]) -> None:
    """Draw the overshoot against the number of turns, and its distribution."""
    names = list(dict.fromkeys(one.subject for one in measured))
    took = {
        (name, kind.name): [
            one.overshoot_ms
            for one in measured
            if (one.subject, one.stop) == (name, kind.name) and one.overshoot_ms is not None
        ]
        for name in names
        for kind in kinds
    }
    for title, finish in (("turns cut", False), ("turns that finish", True)):
        chosen = [kind for kind in kinds if kind.count and kind.finish == finish and not kind.grace]
        series = {
            name: [(kind.count, median(took[name, kind.name])) for kind in chosen if took[name, kind.name]]
            for name in names
        }
        path = directory / f"drain-{title.replace(' ', '-')}.svg"
        path.write_text(lines(f"Overshoot in ms, {title}", "turns at once", series), encoding="utf-8")
    groups = {kind.name: {name: took[name, kind.name] for name in names} for kind in kinds}
    (directory / "drain-spread.svg").write_text(
        strips("Overshoot in ms, every round", groups), encoding="utf-8"
    )
