"""The benchmark of stopped turns reports how long a program keeps what the turn had."""

from __future__ import annotations

import sys

import pytest

from bench.comparison.cancel import CASES, measure
from bench.scripted_model import scripted_model

from .test_stops import Faulty

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc")


def test_a_program_that_keeps_its_connection_to_the_model_is_reported_with_the_time() -> None:
    """The program itself needs some time too, which the same program without the delay shows."""
    with scripted_model() as model:
        prompt, late = (measure(Faulty(f"clings {s}"), CASES[0], model, turns=1) for s in (0, 1.5))
    assert prompt.closed_ms[0] is not None
    assert late.closed_ms[0] is not None
    assert 1350 < late.closed_ms[0] - prompt.closed_ms[0] < 1650
