"""The page of a run says which goals were met, names what was broken, and hides nothing that failed."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from bench.comparison.goals import Goal, goals
from bench.comparison.report import page
from bench.comparison.results import results
from bench.comparison.rounds import exit_code
from bench.comparison.stop import Stopped

OURS = Stopped(
    "hermes-trio", "10 cut", 10, held=10, overshoot_ms=50.0, exit_ms=50.0, started_s=0.5, answered_s=0.6
)
OTHER = replace(OURS, subject="hermes-agent", overshoot_ms=1000.0, started_s=1.0, answered_s=3.0)
FIRST, SHORT, KEPT, READY = (
    "Exit overshoot at most 0.25",
    "Exit overshoot at most 60 ms",
    "No turn lost",
    "Ready no later",
)


def found(text: str, *drain: Stopped, crash: tuple[Stopped, ...] = ()) -> Goal:
    given = {"drain": [asdict(one) for one in drain], "crash": [asdict(one) for one in crash]}
    return next(goal for goal in goals(given) if goal.text.startswith(text))


def broken(what: str) -> Stopped:
    one = replace(OURS)
    setattr(one, what, ["one"])
    return one


@pytest.mark.parametrize(
    ("ms", "met"), [([50.0, 70.0, 240.0], True), ([50.0, 300.0, 310.0], False)], ids=["met", "missed"]
)
def test_the_median_of_the_rounds_is_compared_with_the_best_other_program(ms: list[float], met: bool) -> None:
    mine = [replace(OURS, overshoot_ms=one) for one in ms]
    worse = replace(OTHER, subject="nanobot", overshoot_ms=9000.0)
    assert found(FIRST, *mine, OTHER, worse).met is met


@pytest.mark.parametrize(
    "other", [replace(OTHER, failed="it cannot"), replace(OTHER, overshoot_ms=None)], ids=["failed", "killed"]
)
def test_a_stop_that_only_we_can_do_is_not_compared(other: Stopped) -> None:
    assert found(FIRST, OURS, other).met is None


def test_a_time_that_is_too_long_is_missed_and_named() -> None:
    goal = found(SHORT, OURS, replace(OURS, case="50 cut", count=50, overshoot_ms=61.0))
    assert (goal.met, "50 cut 61 ms" in goal.found) == (False, True)


@pytest.mark.parametrize("what", ["cut_off", "lost", "doubled", "wrong", "left"])
def test_one_broken_promise_is_found(what: str) -> None:
    assert found(KEPT, OURS).met is True
    assert found(KEPT, OURS, broken(what)).met is False


def test_only_a_promise_of_our_own_fails_the_benchmark() -> None:
    killed = replace(OURS, subject="embedded-asyncio", overshoot_ms=None)
    assert (
        exit_code([OURS, replace(broken("lost"), subject="nanobot"), replace(OURS, failed="no compiler")])
        == 0
    )
    assert [exit_code([one]) for one in (broken("lost"), broken("cut_off"), killed)] == [1, 1, 1]


def test_starts_are_compared_with_the_original() -> None:
    assert found(READY, crash=(OURS, OTHER)).met is True
    assert found(READY, crash=(replace(OURS, started_s=1.1), OTHER)).met is False


def test_the_page_shows_every_part_of_a_run_and_why_something_failed(tmp_path: Path) -> None:
    failed = replace(OURS, subject="openclaw", failed="it waits <315> s")
    killed = replace(OTHER, overshoot_ms=None)
    for add, some in ((False, (OURS, killed)), (True, (replace(OURS, case="idle", lost=["x"]), failed))):
        with results(tmp_path, "drain", add=add, rounds=1, versions={"hermes-trio": "1"}) as out:
            for one in some:
                out.add(kind="measurement", round=0, **asdict(one))
    shown = page(tmp_path)
    assert all(text in shown for text in ("it waits &lt;315&gt; s", "over 75 s", "1 lost", "<svg", "10 cut"))
