"""The memory of a program: what it is when nobody talks, what each idle session and each running turn adds,
and whether it grows with the hours.

    python -m bench memory --peers

An *hour* is a turn each second in 60 sessions, without the time between them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import trio
from rich.console import Console
from rich.table import Table

from ..scripted_model import ScriptedModel
from ..subjects.subject import Life, Subject, Unavailable
from .clients import ask, ask_many, until
from .results import results
from .rounds import chosen, measure_all, middle, parsed, prepared

IDLE, RUNNING, HOUR = 250, 50, 3600
AT_ONCE = 10
PART_WITHIN = 40.0
"""Seconds after which a part of the measurement ends with the turns that were made."""
SETTLED_AFTER = 1.0


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the measurement, in a life of its own."""

    name: str


SESSIONS, TRAFFIC = Part("sessions"), Part("an hour")
CASES = (SESSIONS, TRAFFIC)


@dataclass(slots=True)
class Grown:
    """The measurements of one program: memory that is its own, with all its processes."""

    subject: str
    case: str
    start_mb: float | None = None
    """After its first turns."""
    idle_kb: float | None = None
    """Memory of a session in which turns were answered."""
    held: int = 0
    running_kb: float | None = None
    """Memory of a session whose turn runs."""
    turns: int | None = None
    """Turns of the hour."""
    end_mb: float | None = None
    """After the hour."""
    growth_kb: float | None = None
    """For 1,000 turns, in the second half of the hour."""
    failed: str = ""

    @property
    def is_hopeless(self) -> bool:
        """Return True if it cannot be measured."""
        return bool(self.failed)


def main(arguments: Sequence[str] = ()) -> int:
    """Measure all programs that were asked for, and show what was found."""
    given, console = parsed("memory", arguments), Console()
    subjects = [subject for subject in prepared(given, console) if subject.stores]
    rounds = given.rounds or 1
    with results(given.out, "memory", add=given.add, rounds=rounds) as out:
        measured = measure_all(subjects, chosen(given, CASES), measure, rounds, out)
    show(console, measured)
    console.print(f"Results: {given.out}/memory.jsonl")
    return 0


def measure(subject: Subject, case: Part, model: ScriptedModel) -> Grown:
    """Measure a part of the memory of a program."""
    result = Grown(subject.name, case.name)
    try:
        with subject.home() as home, subject.life(home, model.port, 0.0) as life:
            trio.run(ask_many, life, "warm", AT_ONCE, 50, PART_WITHIN)
            result.start_mb = _kilobytes(life) / 1024
            if case == SESSIONS:
                _sessions(life, model, result)
            else:
                _hour(life, result)
    except Unavailable as error:
        result.failed = str(error)
    return result


def _sessions(life: Life, model: ScriptedModel, result: Grown) -> None:
    before = _kilobytes(life)
    answered = trio.run(_answer_each, life, IDLE)
    between = _kilobytes(life)
    if not answered:
        result.failed = f"no answer was whole in {PART_WITHIN:g} s"
        return
    result.idle_kb = (between - before) / answered
    model.times()
    model.hold()
    result.held, grown = trio.run(_hold, life, model)
    if result.held:
        result.running_kb = (grown - between) / result.held


async def _answer_each(life: Life, sessions: int) -> int:
    """Run a turn in each of so many sessions, and return the number of whole answers."""
    answered, left = 0, iter(range(sessions))

    async def person() -> None:
        nonlocal answered
        for number in left:
            is_whole = await ask(life, f"idle-{number}", f"quick idle-{number}")
            answered += is_whole

    with trio.move_on_after(PART_WITHIN):
        async with trio.open_nursery() as people:
            for _ in range(AT_ONCE):
                people.start_soon(person)
    return answered


async def _hold(life: Life, model: ScriptedModel) -> tuple[int, float]:
    """Run turns at once. Return their number, and the memory of the program meanwhile."""
    async with trio.open_nursery() as nursery:
        for number in range(RUNNING):
            nursery.start_soon(ask, life, f"running-{number}", f"held running-{number}")
        await until(lambda: model.asked() >= RUNNING, PART_WITHIN)
        held, grown = model.asked(), await trio.to_thread.run_sync(_kilobytes, life)
        nursery.cancel_scope.cancel()
    return held, grown


def _hour(life: Life, result: Grown) -> None:
    first = trio.run(ask_many, life, "first", AT_ONCE, HOUR // 2, PART_WITHIN)
    half = _kilobytes(life)
    second = trio.run(ask_many, life, "second", AT_ONCE, HOUR // 2, PART_WITHIN)
    end = _kilobytes(life)
    result.turns, result.end_mb = first + second, end / 1024
    if second:
        result.growth_kb = (end - half) / second * 1000


def _kilobytes(life: Life) -> float:
    """Return the memory that is its own once it has come to rest, with that of its processes."""
    time.sleep(SETTLED_AFTER)
    own: float = sum(one.memory_full_info().uss for one in life.tree()) / 1024
    return own


def show(console: Console, measured: Sequence[Grown]) -> None:
    """Print a table."""
    table = Table(title="Memory: medians")
    for name in (
        "program",
        "start, MB",
        "idle session, KB",
        "running turn, KB",
        "hour: turns",
        "end, MB",
        "KB for 1,000 turns",
    ):
        table.add_column(name, overflow="fold")
    for subject in dict.fromkeys(one.subject for one in measured):
        rounds = [one for one in measured if one.subject == subject]
        table.add_row(
            subject,
            middle(rounds, lambda one: one.start_mb),
            middle(rounds, lambda one: one.idle_kb),
            middle(rounds, lambda one: one.running_kb),
            middle(rounds, lambda one: one.turns),
            middle(rounds, lambda one: one.end_mb),
            middle(rounds, lambda one: one.growth_kb),
        )
    console.print(table)
    for one in measured:
        if one.failed:
            console.print(f"{one.subject}, {one.case}: {one.failed}")
