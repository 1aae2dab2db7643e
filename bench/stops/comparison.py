"""A comparison of programs: its options, its programs, and the rounds in which all of them are measured."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from ..scripted_model import ScriptedModel, scripted_model
from ..subjects.floor import Floor
from ..subjects.nanobot import Nanobot
from ..subjects.openclaw import Openclaw
from ..subjects.original import HermesAgent
from ..subjects.ours import HermesTrio
from ..subjects.subject import Subject, Unavailable
from .results import Results
from .stop import Stop, Stopped, measure

RESULTS = Path("bench-results")
OWN: Sequence[type[Subject]] = (Floor, HermesTrio)
PEERS: Sequence[type[Subject]] = (HermesAgent, Nanobot, Openclaw)


def parsed(name: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a benchmark that compares programs."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description="Compare programs.")
    parser.add_argument("--peers", action="store_true", help="also the programs of others")
    parser.add_argument("--only", action="append", help="only the program of this name")
    parser.add_argument("--quick", action="store_true", help="few sizes and rounds")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of turns at once")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory for the results")
    return parser.parse_args(arguments)


def prepared(given: argparse.Namespace, console: Console) -> dict[Subject, str]:
    """Return the programs that can be measured, with their versions."""
    found: dict[Subject, str] = {}
    for kind in (*OWN, *(PEERS if given.peers or given.only else ())):
        subject = kind()
        if given.only and subject.name not in given.only:
            continue
        try:
            with console.status(f"{subject.name} is prepared"):
                found[subject] = subject.prepare()
        except Unavailable as error:
            console.print(f"{subject.name} is left out: {error}")
    return found


def measure_all(
    subjects: Sequence[Subject], kinds: Sequence[Stop], rounds: int, out: Results
) -> list[Stopped]:
    """Measure each kind of stop of each program in each round."""
    measured: list[Stopped] = []
    with scripted_model() as model, Progress(transient=True) as progress:
        task = progress.add_task("", total=rounds * len(kinds) * len(subjects))
        for number in range(rounds):
            for kind in kinds:
                for subject in _ordered(subjects, number):
                    progress.update(task, description=f"{subject.name}: {kind.name}")
                    measured.append(_measure_once(subject, kind, model, measured))
                    out.add(kind="measurement", round=number, **measured[-1].as_record())
                    progress.advance(task)
    return measured


def _ordered(subjects: Sequence[Subject], number: int) -> Sequence[Subject]:
    """Return the programs in another order in each round."""
    at = number % len(subjects)
    return [*subjects[at:], *subjects[:at]]


def _measure_once(subject: Subject, kind: Stop, model: ScriptedModel, before: Iterable[Stopped]) -> Stopped:
    """Measure a stop, unless the program failed in it in an earlier round."""
    for one in before:
        if (one.subject, one.stop) == (subject.name, kind.name) and one.failed:
            return one
    return measure(subject, kind, model)


def broken(one: Stopped) -> str:
    """Return the promises that a program did not keep, as one line."""
    found = (
        (len(one.lost), "lost"),
        (len(one.doubled), "twice"),
        (len(one.wrong), "wrongly resumed"),
        (len(one.left), "processes left"),
    )
    return ", ".join(f"{number} {what}" for number, what in found if number)
