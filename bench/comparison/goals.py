"""The goals of this gateway beside the other programs, and whether a run met them.

Each goal is a ratio within one run, or a time on the machine of that run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ..subjects.floor import Floor
from ..subjects.original import HermesAgent
from ..subjects.ours import Embedded, EmbeddedGuest, HermesTrio

Measured = Sequence[Mapping[str, Any]]
"""The measurements of one benchmark."""
OURS, ORIGINAL = HermesTrio.name, HermesAgent.name
OWN = (Floor.name, OURS, Embedded.name, EmbeddedGuest.name)
PROMISES = ("cut_off", "lost", "doubled", "wrong", "left")


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal, what was found, and whether that meets it; None if it was not measured."""

    text: str
    found: str
    met: bool | None


def goals(results: Mapping[str, Measured]) -> Iterator[Goal]:
    """Return all goals for the results of the benchmarks."""
    drain, crash = results.get("drain", ()), results.get("crash", ())
    yield from _ends_before_peers(drain)
    yield _ends_in("Exit overshoot at most 60 ms, up to 50 turns", drain, 60, lambda count: 0 < count <= 50)
    yield _ends_in("Exit overshoot at most 150 ms, 200 turns", drain, 150, lambda count: count == 200)
    traffic = [one for one in results.get("traffic", ()) if one["case"] == "50 at once"]
    yield _ratio(
        "At least 15 times the turns per second of the original, 50 at once", traffic, "per_s", at_least=15
    )
    yield _ratio("At most 1/10 of its CPU for a turn, 50 at once", traffic, "cpu_ms", at_most=0.1)
    yield _ratio(
        "At most 1/10 of its memory for a running turn", results.get("memory", ()), "running_kb", at_most=0.1
    )
    yield _ratio("Ready no later than the original", crash, "started_s", at_most=1)
    yield _ratio("First answer in at most 1/3 of its time", crash, "answered_s", at_most=1 / 3)
    yield _kept([*drain, *crash])


def middle(measured: Measured, subject: str, key: str, case: str | None = None) -> float | None:
    """Return the median of a value of a program; None if it was not measured in each round."""
    rounds = [one for one in measured if one["subject"] == subject and case in (None, one["case"])]
    values = [one[key] for one in rounds if not one["failed"] and one[key] is not None]
    return median(values) if values and (case is None or len(values) == len(rounds)) else None


def counts(measured: Measured) -> Mapping[str, int]:
    """Return the cases of `drain`, and the number of turns of each."""
    return {one["case"]: one["count"] for one in measured}


def _ends_before_peers(drain: Measured) -> Iterator[Goal]:
    peers = dict.fromkeys(one["subject"] for one in drain if one["subject"] not in OWN)
    ratios = {}
    for case in counts(drain):
        ours = middle(drain, OURS, "overshoot_ms", case)
        others = [took for peer in peers if (took := middle(drain, peer, "overshoot_ms", case)) is not None]
        if ours is not None and others:
            ratios[case] = ours / min(others)
    idle = ratios.pop("idle", None)
    text = "Exit overshoot at most 0.25 of the best other gateway's, each stop that both can do"
    worst = max(ratios, key=lambda case: ratios[case], default=None)
    if worst is None:
        yield Goal(text, "not measured", None)
    else:
        above = [case for case, ratio in ratios.items() if ratio > 0.25]
        found = (
            f"worst {ratios[worst]:.2f} ({worst}); {len(ratios) - len(above)} of {len(ratios)} stops meet it"
        )
        yield Goal(text, found, not above)
    found = "not measured" if idle is None else f"{idle:.2f}"
    yield Goal("The same when idle: at most 0.5", found, None if idle is None else idle <= 0.5)


def _ends_in(text: str, drain: Measured, limit: float, is_meant: Callable[[int], bool]) -> Goal:
    took = {
        case: ms
        for case, count in counts(drain).items()
        if is_meant(count) and (ms := middle(drain, OURS, "overshoot_ms", case)) is not None
    }
    if not took:
        return Goal(text, "not measured", None)
    worst = max(took, key=lambda case: took[case])
    above = ", ".join(f"{case} {ms:,.0f} ms" for case, ms in took.items() if ms > limit)
    found = f"above: {above}" if above else f"worst {took[worst]:,.0f} ms ({worst})"
    return Goal(text, found, not above)


def _ratio(
    text: str, measured: Measured, key: str, *, at_least: float | None = None, at_most: float | None = None
) -> Goal:
    ours, original = (middle(measured, subject, key) for subject in (OURS, ORIGINAL))
    if ours is None or not original:
        return Goal(text, "not measured", None)
    ratio = ours / original
    met = ratio >= at_least if at_least is not None else at_most is not None and ratio <= at_most
    return Goal(text, f"{ratio:.2f} ({ours:,.3g} and {original:,.3g})", met)


def _kept(measured: Measured) -> Goal:
    text = "No turn lost, doubled or wrongly marked, and no process left, in any stop"
    mine = [one for one in measured if one["subject"] in OWN[1:] and not one["failed"]]
    if not mine:
        return Goal(text, "not measured", None)
    broken = {what: sum(len(one[what]) for one in mine) for what in PROMISES}
    turns = sum(one["held"] for one in mine)
    found = ", ".join(f"{number} {what}" for what, number in broken.items() if number)
    return Goal(text, found or f"{turns:,} turns in {len(mine)} stops and kills: none", not found)
