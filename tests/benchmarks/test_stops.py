"""The benchmark of stops finds what is wrong with a program, and nothing in one that is right."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench.comparison.stop import Stop, Stopped, measure
from bench.scripted_model import ScriptedModel, scripted_model
from bench.subjects.subject import Program, Start, Subject
from tests.benchmarks import faulty_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")

FINISHING, CUT = Stop("finishing", 3, finish=True), Stop("cut", 3)


class Faulty(Subject):
    """A program with one fault."""

    name = "faulty"

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def program(self, start: Start) -> Program:
        fault = f"{self.fault} finish" if start.grace else self.fault
        given = [str(start.port), str(start.model), fault]
        return Program([sys.executable, str(Path(faulty_program.__file__)), *given])

    def headers(self, session: str) -> Mapping[str, str]:
        return {"X-Session": session}


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    with scripted_model() as model:
        yield model


def verdict(one: Stopped) -> tuple[int, int, int, int]:
    assert (one.failed, one.held) == ("", 3)
    return len(one.lost), len(one.doubled), len(one.wrong), len(one.left)


@pytest.mark.parametrize("stop", [FINISHING, CUT], ids=["finishing", "cut"])
@pytest.mark.parametrize(
    ("fault", "found"),
    [
        ("none", (0, 0, 0, 0)),
        ("loses", (3, 0, 0, 0)),
        ("doubles", (0, 3, 0, 0)),
        ("orphan", (0, 0, 0, 1)),
    ],
)
def test_what_is_wrong_with_a_stop_is_found(
    model: ScriptedModel, stop: Stop, fault: str, found: tuple[int, ...]
) -> None:
    one = measure(Faulty(fault), stop, model)
    assert verdict(one) == found
    assert (one.whole, one.cut_off) == (3 if stop.finish else 0, [])


def test_an_answer_that_is_cut_off_inside_the_grace_is_found(model: ScriptedModel) -> None:
    one = measure(Faulty("hurries"), FINISHING, model)
    assert (verdict(one), len(one.cut_off)) == ((0, 0, 0, 0), 3)


def test_a_process_of_a_command_that_is_left_is_found(model: ScriptedModel) -> None:
    assert verdict(measure(Faulty("hides"), CUT, model)) == (0, 0, 0, 1)


def test_a_finished_turn_that_runs_again_is_found(model: ScriptedModel) -> None:
    assert verdict(measure(Faulty("repeats"), FINISHING, model)) == (0, 0, 3, 0)


@pytest.mark.parametrize("stop", [FINISHING, CUT], ids=["finishing", "cut"])
def test_a_delay_is_reported_as_long_as_it_is(model: ScriptedModel, stop: Stop) -> None:
    """The program itself needs some time too, which the same program without the delay shows."""
    prompt, late = (measure(Faulty(fault), stop, model).overshoot_ms for fault in ("none", "late 1.5"))
    assert prompt is not None
    assert late is not None
    assert 1350 < late - prompt < 1650
