"""What the benchmark puts around a program has its effect: a slow disk, a moved clock, a silent platform."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from bench.comparison.conditions import FSYNC_TAKES, around, moved_clock

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the benchmark reads /proc"),
    pytest.mark.skipif(not shutil.which("cc"), reason="no compiler"),
]

TIMES = 10
SYNC = "import os, sys, time; file = open(sys.argv[1], 'w'); began = time.monotonic()\n"
SYNC += f"for _ in range({TIMES}): os.fsync(file.fileno())\n"
SYNC += "print(time.monotonic() - began)"


@pytest.fixture(autouse=True)
def _compiled_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_BENCH_CACHE", str(tmp_path))


def said(script: str, *arguments: str, **environ: str) -> str:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def test_each_fsync_takes_its_time_on_the_slow_disk(tmp_path: Path) -> None:
    with around("slow disk") as beside:
        took = float(said(SYNC, str(tmp_path / "file"), **beside.environ))
    assert took * 1000 >= TIMES * FSYNC_TAKES


def test_a_clock_is_moved_forward_and_the_monotonic_one_is_not() -> None:
    script = "import time; print(time.time(), time.monotonic())"
    with moved_clock() as clock:
        clock.forward(1800)
        clock.forward(1800)
        began = time.time(), time.monotonic()
        shown, monotonic = map(float, said(script, **clock.environ).split())
    assert 3600 <= shown - began[0] < 3660
    assert 0 <= monotonic - began[1] < 60


def test_a_wedged_platform_is_there_and_does_not_answer() -> None:
    with around("wedged platform") as beside:
        assert beside.telegram is not None
        beside.strike()
        states = [one.status() for one in psutil.Process().children()]
        assert psutil.STATUS_STOPPED in states
