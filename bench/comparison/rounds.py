"""A comparison of programs: its options, its programs, and the rounds in which all of them are measured."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Protocol, TypeVar

from rich.console import Console
from rich.progress import Progress

from hermes_trio.host.loop.open_files import raise_open_files

from ..scripted_model import ScriptedModel, scripted_model
from ..subjects.floor import Floor
from ..subjects.nanobot import Nanobot
from ..subjects.openclaw import Openclaw
from ..subjects.original import HermesAgent
from ..subjects.ours import Embedded, EmbeddedGuest, HermesTrio
from ..subjects.subject import Subject, Unavailable
from .results import Results
from .stop import Stopped

RESULTS = Path("bench-results")
OWN: Sequence[type[Subject]] = (Floor, HermesTrio, Embedded, EmbeddedGuest)
QUICK: Sequence[type[Subject]] = (HermesTrio, EmbeddedGuest)
PEERS: Sequence[type[Subject]] = (HermesAgent, Nanobot, Openclaw)


class Case(Protocol):
    """One thing that is measured."""

    @property
    def name(self) -> str:
        """Its name in the results."""


class Measured(Protocol):
    """One measurement of a program."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    subject: str
    case: str
    failed: str

    @property
    def is_hopeless(self) -> bool:
        """Return True if the program cannot be measured in this case."""


C = TypeVar("C", bound=Case)
M = TypeVar("M", bound=Measured)


def parsed(name: str, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a benchmark that compares programs."""
    parser = argparse.ArgumentParser(prog=f"python -m bench {name}", description="Compare programs.")
    parser.add_argument("--peers", action="store_true", help="also the programs of others")
    parser.add_argument("--only", action="append", help="only the program of this name")
    parser.add_argument("--quick", action="store_true", help="few sizes and rounds")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of turns at once")
    parser.add_argument("--case", action="append", help="only cases with such a name, such as '10 *'")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--add", action="store_true", help="add to the results that are there")
    parser.add_argument("--out", type=Path, default=RESULTS, help="directory for the results")
    return parser.parse_args(arguments)


def chosen(given: argparse.Namespace, cases: Sequence[C]) -> list[C]:
    """Return the cases that the options ask for."""
    patterns = given.case or ["*"]
    return [case for case in cases if any(fnmatch(case.name, pattern) for pattern in patterns)]


def prepared(given: argparse.Namespace, console: Console) -> dict[Subject, str]:
    """Return the programs that can be measured, with their versions."""
    found: dict[Subject, str] = {}
    own = QUICK if given.quick and not given.only else OWN
    for kind in (*own, *(PEERS if given.peers or given.only else ())):
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
    subjects: Sequence[Subject],
    cases: Sequence[C],
    measure: Callable[[Subject, C, ScriptedModel], M],
    rounds: int,
    out: Results,
) -> list[M]:
    """Measure each case of each program in each round."""
    measured: list[M] = []
    raise_open_files()  # the programs inherit it
    with scripted_model() as model, Progress(transient=True) as progress:
        task = progress.add_task("", total=rounds * len(cases) * len(subjects))
        for number in range(rounds):
            for case in cases:
                for subject in _ordered(subjects, number):
                    progress.update(task, description=f"{subject.name}: {case.name}")
                    if not _is_hopeless(subject, case, measured):
                        measured.append(measure(subject, case, model))
                        out.add(kind="measurement", round=number, **asdict(measured[-1]))
                    progress.advance(task)
    return measured


def _ordered(subjects: Sequence[Subject], number: int) -> Sequence[Subject]:
    """Return the programs in another order in each round."""
    at = number % len(subjects)
    return [*subjects[at:], *subjects[:at]]


def _is_hopeless(subject: Subject, case: Case, before: Iterable[Measured]) -> bool:
    """Return True if the program failed in this case in an earlier round, or had to be killed: it is not
    measured again."""
    return any((one.subject, one.case) == (subject.name, case.name) and one.is_hopeless for one in before)


def grouped(measured: Iterable[M]) -> dict[tuple[str, str], list[M]]:
    """Return the rounds of each program in each case."""
    groups: dict[tuple[str, str], list[M]] = {}
    for one in measured:
        groups.setdefault((one.subject, one.case), []).append(one)
    return groups


def middle(rounds: Iterable[M], value: Callable[[M], float | None], digits: int = 0) -> str:
    """Return the median of what was measured of a value, as text."""
    values = [found for one in rounds if (found := value(one)) is not None]
    return f"{median(values):,.{digits}f}" if values else "-"


def exit_code(measured: Iterable[Stopped]) -> int:
    """Return 1 if this gateway broke a promise, in whatever program it is."""
    ours = {kind.name for kind in OWN} - {Floor.name}
    return int(any(broken(one) for one in measured if one.subject in ours))


def broken(one: Stopped) -> str:
    """Return the promises that a program did not keep, as one line."""
    found = (
        (int(one.overshoot_ms is None and not one.failed), "not ended"),
        (len(one.cut_off), "cut off"),
        (len(one.lost), "lost"),
        (len(one.doubled), "twice"),
        (len(one.wrong), "wrongly resumed"),
        (len(one.left), "processes left"),
    )
    return ", ".join(f"{number} {what}" for number, what in found if number)
