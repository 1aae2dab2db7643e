"""The time that a gateway takes to end, and what it loses by it, beside others that people run.

    python -m bench drain                     # this gateway and the floor
    python -m bench drain --peers             # and the others, each installed when it is first needed
    python -m bench drain --quick --only hermes-trio
    python -m bench drain --case '50 *' --add # some stops, beside the results that are there

All programs are measured in each round, one after the other, so that noise of the machine affects all. Times
are medians over the rounds, with their spread; `stops` says what is measured. A broken promise (a lost turn,
an answer twice, a finished turn that runs again, a process that stays) of this gateway makes the exit code 1;
a time never does.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from .conditions import CONDITIONS
from .drawings import drawings
from .results import read, results
from .rounds import broken, chosen, exit_code, measure_all, parsed, prepared
from .stop import Stop, Stopped, measure

SIZES = (1, 10, 50, 200, 1000)
MOST_STUBBORN = 50
"""Commands that run at once; more of them would measure the machine."""


def stops(sizes: Sequence[int]) -> list[Stop]:
    """Return the stops of these sizes; other graces and conditions are measured with ten turns."""
    sized = [
        stop
        for count in sizes
        for stop in (Stop(f"{count} cut", count), Stop(f"{count} finishing", count, finish=True))
    ]
    stubborn = [Stop(f"{count} stubborn", count, tools=True) for count in sizes if 1 < count <= MOST_STUBBORN]
    return [
        Stop("idle", 0),
        *sized,
        *stubborn,
        Stop("10 cut, grace 1", 10, grace=1.0),
        Stop("10 cut, grace 5", 10, grace=5.0),
        *(Stop(f"10 cut, {condition}", 10, condition=condition) for condition in CONDITIONS if condition),
        *(
            Stop(f"10 finishing, {condition}", 10, finish=True, condition=condition)
            for condition in CONDITIONS
            if condition
        ),
    ]


def quick_stops() -> list[Stop]:
    """Return a stop of each kind; they find a broken promise."""
    left_out = ("10 cut, grace 5", "10 cut, busy processors", "10 finishing, busy processors")
    return [stop for stop in stops([10]) if stop.name not in left_out]


def main(arguments: Sequence[str] = ()) -> int:
    """Measure all programs that were asked for, and show what was found."""
    given, console = parsed("drain", arguments), Console()
    subjects = prepared(given, console)
    is_quick = given.quick and not given.sizes
    kinds = chosen(given, quick_stops() if is_quick else stops(given.sizes or SIZES))
    rounds = given.rounds or (1 if given.quick else 5)
    versions = {subject.name: version for subject, version in subjects.items()}
    settings = {subject.name: subject.settings for subject in subjects}
    with results(
        given.out, "drain", add=given.add, rounds=rounds, versions=versions, settings=settings
    ) as out:
        measured = measure_all(list(subjects), kinds, measure, rounds, out)
    show(console, measured, [kind.name for kind in kinds])
    for name, svg in drawings(read(given.out / "drain.jsonl")[1]):
        (given.out / f"{name}.svg").write_text(svg, encoding="utf-8")
    console.print(f"Results: {given.out}/drain.jsonl, {given.out}/*.svg")
    return exit_code(measured)


def show(console: Console, measured: Sequence[Stopped], kinds: Sequence[str]) -> None:
    """Print a table."""
    table = Table(title="Overshoot of a stop in ms: median (least to most); and what was broken")
    names = list(dict.fromkeys(one.subject for one in measured))
    table.add_column("stop")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    for kind in kinds:
        row = [[one for one in measured if (one.subject, one.case) == (name, kind)] for name in names]
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
