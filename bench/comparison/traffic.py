"""The cost of turns under use: turns per second, CPU of one turn, the size of its prompt, and the share of
it that repeats the one before it, which is the most that the cache of a provider can save.

    python -m bench traffic --peers

A *day* is one conversation of 48 turns, one every 20 minutes by the clock of the program, which is moved
forward between them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median

import trio
from rich.console import Console
from rich.table import Table

from ..scripted_model import ScriptedModel
from ..subjects.subject import Life, Subject, Unavailable
from .clients import ask, ask_many
from .conditions import Clock, moved_clock
from .results import results
from .rounds import chosen, grouped, measure_all, middle, parsed, prepared

TURNS, SECONDS = 400, 40.0
"""Turns of one measurement, and the seconds after which it ends with fewer."""
DAY, EVERY = 48, 20 * 60


@dataclass(frozen=True, slots=True)
class Traffic:
    """A number of people who talk at once; nobody for a day of one conversation."""

    name: str
    at_once: int = 0


CASES = (Traffic("1 at once", 1), Traffic("10 at once", 10), Traffic("50 at once", 50), Traffic("a day"))


@dataclass(slots=True)
class Carried:
    """The measurements of one program."""

    subject: str
    case: str
    turns: int = 0
    """The number of whole answers."""
    per_s: float | None = None
    cpu_ms: float | None = None
    """CPU of one turn, with all its processes."""
    prompt_kb: float | None = None
    """The size of the first prompt; in a day that of the last one."""
    repeated: float | None = None
    """The median share of a prompt that repeats the one before it."""
    failed: str = ""

    @property
    def is_hopeless(self) -> bool:
        """Return True if it cannot be measured."""
        return bool(self.failed)


def main(arguments: Sequence[str] = ()) -> int:
    """Measure all programs that were asked for, and show what was found."""
    given, console = parsed("traffic", arguments), Console()
    subjects = [subject for subject in prepared(given, console) if subject.stores]
    rounds = given.rounds or (1 if given.quick else 3)
    with results(given.out, "traffic", add=given.add, rounds=rounds) as out:
        measured = measure_all(subjects, chosen(given, CASES), measure, rounds, out)
    show(console, measured)
    console.print(f"Results: {given.out}/traffic.jsonl")
    return 0


def measure(subject: Subject, case: Traffic, model: ScriptedModel) -> Carried:
    """Let people talk with a program."""
    result = Carried(subject.name, case.name)
    try:
        with ExitStack() as opened:
            home = opened.enter_context(subject.home())
            clock = opened.enter_context(moved_clock()) if not case.at_once else None
            environ = clock.environ if clock else {}
            life = opened.enter_context(subject.life(home, model.port, 0.0, environ=environ))
            trio.run(_warm, life)
            model.times()
            if clock:
                trio.run(_day, life, clock, model, result)
            else:
                _talk(life, case.at_once, model, result)
    except Unavailable as error:
        result.failed = str(error)
    return result


async def _warm(life: Life) -> None:
    with trio.move_on_after(SECONDS):
        for number in range(3):
            await ask(life, "warm", f"quick warm {number}")


def _talk(life: Life, at_once: int, model: ScriptedModel, result: Carried) -> None:
    cpu, began = cpu_of(life), time.monotonic()
    result.turns = trio.run(ask_many, life, "talk", at_once, TURNS, SECONDS)
    seconds, used = time.monotonic() - began, cpu_of(life) - cpu
    asked = model.times()
    first = min(asked.values(), key=lambda one: one.head, default=None)
    if result.turns and first:
        result.per_s, result.cpu_ms = result.turns / seconds, used / result.turns * 1000
        result.prompt_kb = first.size / 1024
    else:
        result.failed = f"no answer was whole in {SECONDS:g} s"


async def _day(life: Life, clock: Clock, model: ScriptedModel, result: Carried) -> None:
    with trio.move_on_after(3 * SECONDS):
        for number in range(DAY):
            result.turns += await ask(life, "day", f"day {number}")
            clock.forward(EVERY)
    asked = sorted(model.times().items(), key=lambda one: one[1].head)
    prompts = [one for text, one in asked if text.startswith("day ")]
    if len(prompts) > 1:
        result.prompt_kb, result.repeated = (
            prompts[-1].size / 1024,
            median(one.repeated for one in prompts[1:]),
        )
    else:
        result.failed = "the model was not asked"


def cpu_of(life: Life) -> float:
    """Return the seconds of CPU that a program and its processes have used."""
    return sum(used.user + used.system for used in (one.cpu_times() for one in life.tree()))


def show(console: Console, measured: Sequence[Carried]) -> None:
    """Print a table."""
    table = Table(title="Turns: medians")
    for name in ("program", "people", "turns/s", "CPU of one, ms", "prompt, KB", "repeated"):
        table.add_column(name, overflow="fold")
    for (subject, case), rounds in grouped(measured).items():
        table.add_row(
            subject,
            case,
            rounds[0].failed or middle(rounds, lambda one: one.per_s, 1),
            middle(rounds, lambda one: one.cpu_ms, 1),
            middle(rounds, lambda one: one.prompt_kb, 1),
            middle(rounds, lambda one: one.repeated, 2),
        )
    console.print(table)
