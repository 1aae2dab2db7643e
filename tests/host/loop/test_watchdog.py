"""The watchers of a loop that does not answer: during a shutdown the process is ended, else the place where
it hangs is reported. These tests run on the real clock: a virtual clock cannot show that a loop is
blocked."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from hermes_trio.base.errors import HomeUnusable
from hermes_trio.base.world import World
from hermes_trio.host.loop.watchdog import LARGEST_LOG, last_resort, watch_loop
from tests.logs import capture_logs

PRELUDE = """
import ctypes, sys, time, trio
from pathlib import Path
from hermes_trio.host.loop.watchdog import last_resort, watch_loop
from hermes_trio.base.world import World
log = Path(sys.argv[1])
"""


def start(code: str, log: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + code, str(log)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, log: Path) -> tuple[int, str, float]:
    """Return the exit code of a program, its output, and the seconds from its first line to its end."""
    with start("print('begins', flush=True)\n" + code, log) as process:
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        out, _ = process.communicate(timeout=30)
        return process.returncode, out, time.monotonic() - began


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "gateway-watchdog.log"


def test_a_watchdog_log_that_cannot_be_made_is_an_error_with_a_remedy(log: Path) -> None:
    log.mkdir(parents=True)
    with pytest.raises(HomeUnusable, match=r"logs/gateway-watchdog\.log cannot be written"), last_resort(log):
        pass


@pytest.mark.parametrize(
    "hangs",
    [
        "time.sleep(60)",
        "trio.run(trio.sleep_forever)",
        "ctypes.PyDLL(None).sleep(60)",  # keeps the lock of the interpreter: no Python runs meanwhile
    ],
    ids=["blocked", "waiting", "in C"],
)
def test_a_program_that_does_not_end_is_ended_by_the_last_resort(log: Path, hangs: str) -> None:
    code, _, took = run(f"with last_resort(log) as arm:\n    arm(0.3)\n    {hangs}", log)
    assert code == 1
    assert 0.2 < took < 10
    text = log.read_text("utf-8")
    assert "Timeout" in text
    assert "<module>" in text
    if os.name == "posix":
        assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("arms", ["arm(50); arm(0.3)", "arm(0.3); arm(50)", "arm(50); arm(0)", "arm(-5)"])
def test_the_earliest_last_resort_counts(log: Path, arms: str) -> None:
    code, _, took = run(f"with last_resort(log) as arm:\n    {arms}\n    time.sleep(40)", log)
    assert code == 1
    assert took < 10
    assert "Timeout" in log.read_text("utf-8")


@pytest.mark.parametrize("armed", ["arm(0.2)", "pass"])
def test_a_program_that_ends_in_time_is_left_alone(log: Path, armed: str) -> None:
    code, out, _ = run(f"with last_resort(log) as arm:\n    {armed}\ntime.sleep(0.6)\nprint('well')", log)
    assert (code, out.strip()) == (0, "well")
    assert log.read_text("utf-8") == ""


def test_the_last_resort_is_disarmed_when_the_block_fails(log: Path) -> None:
    with pytest.raises(LookupError), last_resort(log) as arm:  # noqa: PT012
        arm(0.1)
        raise LookupError
    time.sleep(0.3)  # this process is still alive


async def hang(seconds: float) -> None:
    """Block the loop by mistake."""
    time.sleep(seconds)  # noqa: ASYNC251 - the mistake


def written(log: Path) -> str:
    return log.read_text("utf-8") if log.exists() else ""


def events(logs: list[Any]) -> list[str]:
    return [entry["event"] for entry in logs]


async def test_a_stall_is_reported_once_with_all_threads_and_tasks(log: Path, world: World) -> None:
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: watch_loop(log, world, stalled_after=0.2), name="watch")
            nursery.start_soon(trio.sleep_forever, name="somebody who waits")
            await trio.sleep(0.05)
            nursery.start_soon(hang, 1.2, name="somebody who hangs")
            await trio.sleep(1.6)
            nursery.cancel_scope.cancel()
    assert events(logs) == ["event loop does not answer", "event loop answers again"]
    assert 0.2 <= logs[0]["silent_seconds"] < 1
    assert 0.6 < logs[1]["silent_seconds"] < 2
    text = written(log)
    assert text.count("=== 2026-05-20 12:00:00 UTC, silent for") == 1
    threads, _, tasks = text.partition("=== tasks\n")
    assert " in hang\n" in threads
    assert threads.count("hread 0x") >= 2
    assert re.search(r"^ +somebody who waits  trio._timeouts:\d+ sleep_forever$", tasks, re.M)
    assert re.search(r"^ +somebody who hangs  .*test_watchdog:\d+ hang$", tasks, re.M)
    assert re.search(
        r"^ +watch \[-?\d\.\d s left\]  hermes_trio.host.loop.watchdog:\d+ watch_loop$", tasks, re.M
    )


async def test_each_stall_is_reported(log: Path, world: World) -> None:
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: watch_loop(log, world, stalled_after=0.2))
            await trio.sleep(0.05)
            for _ in range(2):
                await hang(0.6)
                await trio.sleep(0.3)
            nursery.cancel_scope.cancel()
    assert events(logs) == ["event loop does not answer", "event loop answers again"] * 2
    assert written(log).count(": threads\n") == 2


async def test_a_busy_loop_that_answers_is_left_alone(log: Path, world: World) -> None:
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: watch_loop(log, world, stalled_after=0.8))
            until = time.monotonic() + 1.3
            while time.monotonic() < until:
                await hang(0.02)
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
    assert logs == []
    assert written(log) == ""


async def test_the_watching_thread_ends_with_its_task(log: Path, world: World) -> None:
    before = set(threading.enumerate())  # threads of other tests may be ending
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: watch_loop(log, world))
        await wait_all_tasks_blocked()
        (watchdog,) = set(threading.enumerate()) - before
        assert watchdog.daemon
        assert watchdog.is_alive()
        nursery.cancel_scope.cancel()
    watchdog.join(10)
    assert not watchdog.is_alive()


async def test_a_report_that_cannot_be_written_does_not_end_the_watch(log: Path, world: World) -> None:
    os.makedirs(log)
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: watch_loop(log, world, stalled_after=0.2))
            await trio.sleep(0.05)
            await hang(0.6)
            await trio.sleep(0.3)
            nursery.cancel_scope.cancel()
    assert events(logs) == [
        "event loop does not answer",
        "report of the stall not written",
        "event loop answers again",
    ]


STALLS = """
async def main():
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: watch_loop(log, World(), stalled_after=0.2{limit}))
        await trio.sleep(0.05)
        time.sleep({seconds})
        nursery.cancel_scope.cancel()
trio.run(main)
print("well")
"""


def test_a_stall_ends_the_process_only_with_exit_after(log: Path) -> None:
    code, _, took = run(STALLS.format(limit=", exit_after=0.6", seconds=30), log)
    assert code == 1
    assert took < 10
    assert ": threads\n" in log.read_text("utf-8")
    code, out, _ = run(STALLS.format(limit="", seconds=0.8), log)
    assert (code, out.splitlines()[-1]) == (0, "well")


@pytest.mark.skipif(os.name != "posix", reason="suspends a process")
def test_a_process_that_was_suspended_has_not_stalled(log: Path) -> None:
    code = """
async def main():
    with trio.move_on_after(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: watch_loop(log, World(), stalled_after=0.6, exit_after=0.6))
            print("watched", flush=True)
            while True:  # so that the watchdog runs first after the suspension
                sum(range(3_000_000))
                await trio.lowlevel.checkpoint()
trio.run(main)
print("well")
"""
    with start(code, log) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "watched\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.2)
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=20)[0] == "well\n"
    assert not log.exists()


def test_a_large_watchdog_log_is_renamed(log: Path) -> None:
    log.parent.mkdir()
    log.write_bytes(b"x" * (LARGEST_LOG + 1))
    with last_resort(log):
        pass
    assert log.stat().st_size == 0
    assert log.with_suffix(".old").stat().st_size == LARGEST_LOG + 1
    log.write_bytes(b"x" * LARGEST_LOG)
    with last_resort(log):
        pass
    assert log.stat().st_size == LARGEST_LOG
