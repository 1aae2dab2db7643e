"""The identity of a process: its pid together with its start time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec
import psutil
import pytest

from hermes_trio.host.processes.process_identity import (
    ProcessId,
    boot_epoch,
    boot_time,
    find,
    find_by_psutil,
    find_in_proc,
    is_alive,
    own,
    parse_stat,
)

Find = Callable[[int], ProcessId | None]

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
finders = pytest.mark.parametrize(
    "find_it", [pytest.param(find_in_proc, marks=linux), find_by_psutil], ids=["proc", "psutil"]
)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def kill_without_reaping(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def test_our_own_process_is_alive() -> None:
    assert own().pid == os.getpid()
    assert own() == own()
    assert is_alive(own())


def test_another_process_finds_the_same_identity_for_us() -> None:
    """Otherwise no process could record which one it means."""
    code = (
        "import os, msgspec; from hermes_trio.host.processes.process_identity import find\n"
        "print(msgspec.json.encode(find(os.getppid())).decode())"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=20)
    assert msgspec.json.decode(seen.stdout, type=ProcessId) == own()


@finders
def test_a_child_is_found_until_it_is_killed(find_it: Find, child: subprocess.Popen[bytes]) -> None:
    living = find_it(child.pid)
    assert living is not None
    assert find_it(child.pid) == living
    kill_without_reaping(child)
    assert find_it(child.pid) is None  # a zombie
    child.wait()
    assert find_it(child.pid) is None


def test_is_alive_follows_a_child_to_its_end(child: subprocess.Popen[bytes]) -> None:
    process = find(child.pid)
    assert process is not None
    assert is_alive(process)
    os.kill(child.pid, signal.SIGSTOP)
    assert is_alive(process)  # suspended, not ended
    kill_without_reaping(child)
    assert not is_alive(process)


def test_a_process_with_a_reused_pid_is_another_one(child: subprocess.Popen[bytes]) -> None:
    process = find(child.pid)
    assert process is not None
    assert not is_alive(replace(process, started=process.started - 1))
    assert not is_alive(replace(process, boot="another"))


def test_two_processes_have_different_identities(child: subprocess.Popen[bytes]) -> None:
    process = find(child.pid)
    assert process is not None
    assert not process.names(own())
    assert process.started >= own().started


@finders
@pytest.mark.parametrize("pid", [0, -1, -(2**40), 2**31 - 1, 2**40, 2**70])
def test_an_impossible_pid_is_not_found(find_it: Find, pid: int) -> None:
    assert find_it(pid) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (ProcessId(7, 5.0, "b"), ProcessId(7, 5.0, "b"), True),
        (ProcessId(7, 5.0, "b"), ProcessId(7, 5.0), True),
        (ProcessId(7, 5.0), ProcessId(7, 5.0), True),
        (ProcessId(7, 5.0, "b"), ProcessId(7, 5.0, "c"), False),
        (ProcessId(7, 5.0, "b"), ProcessId(7, 6.0, "b"), False),
        (ProcessId(7, 5.0, "b"), ProcessId(8, 5.0, "b"), False),
    ],
)
def test_identities_are_equal_unless_a_known_part_differs(
    one: ProcessId, other: ProcessId, same: bool
) -> None:
    assert one.names(other) is same
    assert other.names(one) is same


@pytest.mark.parametrize("name", ["sh", "a b", ")", "(", "x) Z 1 2 3", "a\nb", "((()"])
def test_a_program_name_cannot_be_taken_for_a_state(name: str) -> None:
    fields = ["S", *map(str, range(4, 22)), "4711", "23"]
    assert parse_stat(f"812 ({name}) {' '.join(fields)}\n") == ("S", 4711)


@linux
def test_a_real_process_with_an_odd_name_is_found() -> None:
    code = (
        "import ctypes, time; ctypes.CDLL(None).prctl(15, b') Z 1 1 1', 0, 0, 0)\n"
        "print(flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = find(process.pid)
        process.kill()
    assert found is not None
    assert found.boot == own().boot
    assert found.started > own().started


def test_the_boot_time_is_in_the_past() -> None:
    assert boot_time() == pytest.approx(psutil.boot_time(), abs=2)
    assert boot_time() < time.time()


@linux
def test_the_boot_is_known_on_linux() -> None:
    assert boot_epoch() == own().boot != ""
