"""The plots of `drain`: the overshoot against the number of turns, its spread, and one stop by phase."""

from __future__ import annotations

from collections.abc import Iterator

from . import plots
from .goals import OURS, Measured, counts, middle
from .stop import ENDS_WITHIN

KINDS = {"cut": "turns that are cut", "finishing": "turns that finish"}
Points = dict[str, list[tuple[float, float]]]


def drawings(measured: Measured) -> Iterator[tuple[str, str]]:
    """Return each plot with its name."""
    names = list(dict.fromkeys(one["subject"] for one in measured))
    for kind, title in KINDS.items():
        yield f"drain-{kind}", _against_turns(measured, names, kind, title)
    groups = {case: {name: _took(measured, name, case) for name in names} for case in counts(measured)}
    yield "drain-spread", plots.spread("Overshoot in ms: each measurement", groups)
    below = "ms from the signal to the exit"
    yield "drain-phases", plots.bars("One stop of this gateway, by phase", below, _timeline(measured))


def _against_turns(measured: Measured, names: list[str], kind: str, title: str) -> str:
    series: Points = {}
    killed: Points = {}
    limit = ENDS_WITHIN * 1000
    for count in sorted(set(counts(measured).values()) - {0}):
        for name in names:
            case = f"{count} {kind}"
            rounds = [one for one in measured if (one["subject"], one["case"]) == (name, case)]
            ms = middle(measured, name, "overshoot_ms", case)
            if ms is not None:
                series.setdefault(name, []).append((count, ms))
            elif any(not one["failed"] for one in rounds):
                killed.setdefault(name, []).append((count, limit))
    below = "turns at once" + ("; a cross had to be killed" if killed else "")
    return plots.lines(f"Overshoot in ms: {title}", below, series, killed, limit)


def _took(measured: Measured, name: str, case: str) -> list[float]:
    return [
        one["overshoot_ms"]
        for one in measured
        if (one["subject"], one["case"]) == (name, case) and one["overshoot_ms"] is not None
    ]


def _timeline(measured: Measured) -> dict[str, dict[str, float]]:
    """Return the ends of the phases in the middle round of each stop without a grace. The last phase is what
    the report does not cover: from the signal to the request, and from the last link to the exit."""
    rows = {}
    for case in counts(measured):
        rounds = [one for one in measured if (one["subject"], one["case"]) == (OURS, case) and one["phases"]]
        if rounds and not any(word in case for word in ("finishing", "grace", "wedged")):
            one = sorted(rounds, key=lambda one: one["exit_ms"])[len(rounds) // 2]
            rows[case] = {**one["phases"], "process": one["exit_ms"]}
    return rows
