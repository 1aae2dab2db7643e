"""One gateway per home: which process has it, the refusal of others, and that a look never hinders a
start."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from hermes_trio.base.errors import HomeBusy, HomeError, HomeFull, HomeUnusable, home_error
from hermes_trio.host.files.file_lock import try_lock
from hermes_trio.host.home.home_lock import LOCK_FILE, handed_home, is_locked, locked_home, recorded_holder
from hermes_trio.host.processes.process_identity import own

GATEWAY = """
import sys
from pathlib import Path
from hermes_trio.base.errors import HomeBusy
from hermes_trio.host.home.home_lock import locked_home
try:
    with locked_home(Path(sys.argv[1])):
        print("in", flush=True)
        sys.stdin.read()
except HomeBusy:
    print("busy", flush=True)
"""

GATEWAY_WITH_CHILD = """
import subprocess, sys, time
from pathlib import Path
from hermes_trio.host.home.home_lock import locked_home
with locked_home(Path(sys.argv[1])):
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    print(child.pid, flush=True)
    time.sleep(60)
"""

ONLOOKER = """
import json, sys, threading
from pathlib import Path
from hermes_trio.host.home.home_lock import is_locked
told = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), told.set()), daemon=True).start()
seen = [0, 0]
print("looking", flush=True)
while not told.is_set():
    seen[is_locked(Path(sys.argv[1]))] += 1
print(json.dumps(seen))
"""

Program = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def program(home: Path) -> Iterator[Program]:
    """Return a function that starts a program with the home of this test; it is killed at the end."""
    with ExitStack() as programs:

        def start(code: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-c", code, str(home)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            programs.enter_context(process)
            programs.callback(process.kill)
            return process

        yield start


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill_without_reaping(process: subprocess.Popen[str]) -> None:
    """Kill a process, and wait for its end without reaping it."""
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)


def test_the_first_gateway_makes_the_home_and_records_itself(home: Path) -> None:
    assert not is_locked(home)
    with locked_home(home) as lock:
        assert lock.process == own() == recorded_holder(home)
        assert json.loads((home / LOCK_FILE).read_bytes())["pid"] == os.getpid()
        assert is_locked(home)
        if os.name == "posix":
            assert home.stat().st_mode & 0o777 == 0o700
            assert (home / LOCK_FILE).stat().st_mode & 0o777 == 0o600
    assert not is_locked(home)
    assert recorded_holder(home) is None


def test_the_lock_file_stays_the_same_file_in_every_life(home: Path) -> None:
    with locked_home(home):
        first = (home / LOCK_FILE).stat().st_ino
    with locked_home(home):
        assert (home / LOCK_FILE).stat().st_ino == first
    assert (home / LOCK_FILE).stat().st_ino == first


def test_a_second_gateway_is_refused_with_the_pid_of_the_first_and_a_remedy(
    home: Path, program: Program
) -> None:
    gateway = program(GATEWAY)
    assert first_line(gateway) == "in"
    for _ in range(2):  # a refusal changes nothing
        with pytest.raises(HomeBusy, match=r"hermes-trio stop.*HERMES_HOME") as refused, locked_home(home):
            pass
        assert refused.value.pid == gateway.pid
        assert refused.value.exit_code == 1
        assert str(gateway.pid) in str(refused.value)
    assert is_locked(home)


def test_a_gateway_that_ends_leaves_the_home_free(home: Path, program: Program) -> None:
    gateway = program(GATEWAY)
    assert first_line(gateway) == "in"
    gateway.communicate(timeout=20)
    assert gateway.returncode == 0
    assert not is_locked(home)
    with locked_home(home):
        pass


def test_a_killed_gateway_has_no_home_even_before_it_is_reaped(home: Path, program: Program) -> None:
    gateway = program(GATEWAY)
    assert first_line(gateway) == "in"
    kill_without_reaping(gateway)
    assert not is_locked(home)
    assert recorded_holder(home) is None
    assert json.loads((home / LOCK_FILE).read_bytes())["pid"] == gateway.pid  # a stale record
    with locked_home(home) as lock:
        assert recorded_holder(home) == lock.process


def test_a_child_of_a_killed_gateway_does_not_hold_its_home(home: Path, program: Program) -> None:
    gateway = program(GATEWAY_WITH_CHILD)
    child = int(first_line(gateway))
    try:
        kill_without_reaping(gateway)
        os.kill(child, 0)  # it is alive
        assert not is_locked(home)
        with locked_home(home):
            pass
    finally:
        os.kill(child, 9)


def test_two_hundred_starts_succeed_while_other_processes_look(home: Path, program: Program) -> None:
    with locked_home(home):
        onlookers = [program(ONLOOKER) for _ in range(3)]
        assert [first_line(onlooker) for onlooker in onlookers] == ["looking"] * 3
    for _ in range(200):
        with locked_home(home):
            time.sleep(0.001)
        time.sleep(0.001)
    for onlooker in onlookers:
        free, locked = json.loads(onlooker.communicate(timeout=20)[0])
        assert free > 200
        assert locked > 200


def test_of_many_gateways_that_start_at_once_exactly_one_gets_the_home(home: Path, program: Program) -> None:
    starters = [program(GATEWAY) for _ in range(6)]
    assert sorted(map(first_line, starters)) == ["busy"] * 5 + ["in"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the lamp")
@pytest.mark.parametrize("record", [b"", b"{", b"[]", b'{"pid": 2147483646, "started": 1.0}'])
def test_the_lamp_shows_a_locked_home_whatever_the_record_says(home: Path, record: bytes) -> None:
    """The record may be from another container, where pids mean other processes."""
    with locked_home(home):
        (home / LOCK_FILE).write_bytes(record)
        assert recorded_holder(home) is None
        assert is_locked(home)
        with pytest.raises(HomeBusy, match="another gateway") as refused, locked_home(home):
            pass
        assert refused.value.pid is None


def test_without_a_lamp_the_record_of_a_living_process_shows_a_locked_home(home: Path) -> None:
    home.mkdir()
    (home / LOCK_FILE).write_bytes(msgspec.json.encode(own()))
    assert is_locked(home)


@pytest.mark.parametrize(
    "record",
    [b"", b"\xff", b"[1]", b'{"pid": 1}', b'{"pid": 2147483646, "started": 1.0}', b" " * 100_000],
    ids=["empty", "no-text", "no-object", "no-start", "nobody", "huge"],
)
def test_a_record_that_names_no_living_process_means_nothing(home: Path, record: bytes) -> None:
    home.mkdir()
    (home / LOCK_FILE).write_bytes(record)
    assert not is_locked(home)
    with locked_home(home) as lock:
        assert recorded_holder(home) == lock.process


def test_a_lock_that_another_program_took_is_respected(home: Path) -> None:
    home.mkdir()
    with open(home / LOCK_FILE, "wb") as file:
        assert try_lock(file.fileno())
        with pytest.raises(HomeBusy) as refused, locked_home(home):
            pass
        assert refused.value.pid is None
    with locked_home(home):
        pass


def test_a_path_that_cannot_be_a_home_is_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    (tmp_path / "odd" / LOCK_FILE).mkdir(parents=True)
    for home in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "odd"):
        with pytest.raises(HomeUnusable, match="HERMES_HOME") as refused, locked_home(home):
            pass
        assert refused.value.exit_code == 78


@pytest.mark.parametrize(
    ("number", "kind", "code", "remedy"),
    [
        (errno.ENOSPC, HomeFull, 1, "Free some space on its disk."),
        (errno.EACCES, HomeUnusable, 78, "Repair the directory, or set HERMES_HOME to another one."),
    ],
)
def test_a_full_disk_is_retried_by_a_restart_and_a_wrong_directory_is_not(
    tmp_path: Path, number: int, kind: type[HomeError], code: int, remedy: str
) -> None:
    error = home_error(tmp_path, OSError(number, os.strerror(number)), "gateway.lock")
    assert (type(error), error.exit_code) == (kind, code)
    assert str(error) == f"{tmp_path}: gateway.lock cannot be written ({os.strerror(number)}). {remedy}"


def test_an_error_in_the_block_is_raised_unchanged_and_frees_the_home(home: Path) -> None:
    with pytest.raises(OSError, match="the disk"), locked_home(home):
        raise OSError("the disk")
    assert not is_locked(home)


posix = pytest.mark.skipif(os.name != "posix", reason="Windows cannot remove an open file")


@posix
def test_a_removed_lock_file_admits_no_second_gateway(home: Path, program: Program) -> None:
    """Other programs have a file of this name too, and remove it as stale."""
    gateway = program(GATEWAY)
    assert first_line(gateway) == "in"
    (home / LOCK_FILE).unlink()
    assert first_line(program(GATEWAY)) == "busy"
    if sys.platform == "linux":
        assert is_locked(home)
    gateway.communicate(timeout=20)
    with locked_home(home) as lock:
        assert recorded_holder(home) == lock.process


@posix
@pytest.mark.parametrize("replaced", [False, True])
def test_a_removed_lock_file_is_restored(home: Path, *, replaced: bool) -> None:
    with locked_home(home) as lock:
        assert not lock.restore_file()
        (home / LOCK_FILE).unlink()
        if replaced:
            (home / LOCK_FILE).write_text("{}")
        assert lock.restore_file()
        assert recorded_holder(home) == own()
        with open(home / LOCK_FILE, "rb") as file:
            assert not try_lock(file.fileno())
        assert not lock.restore_file()
    assert (home / LOCK_FILE).read_bytes() == b""
    assert not is_locked(home)


@posix
def test_a_lock_file_that_another_program_made_and_locked_is_left_to_it(home: Path) -> None:
    with locked_home(home) as lock:
        (home / LOCK_FILE).unlink()
        with open(home / LOCK_FILE, "w") as file:
            assert try_lock(file.fileno())
            file.write("another program's")
            file.flush()
            assert not lock.restore_file()
    assert (home / LOCK_FILE).read_text() == "another program's"


@posix
def test_a_directory_in_place_of_the_lock_file_is_an_error(home: Path) -> None:
    with locked_home(home) as lock:
        (home / LOCK_FILE).unlink()
        (home / LOCK_FILE).mkdir()
        with pytest.raises(OSError, match="directory"):
            lock.restore_file()


@pytest.mark.skipif(os.name != "posix", reason="no file is passed to another process there")
def test_a_home_that_is_handed_on_is_locked_all_the_time(tmp_path: Path) -> None:
    with ExitStack() as second:
        with locked_home(tmp_path) as lock:
            lock.restore_file()
            sent = [os.dup(one) for one in lock.descriptors]
            heir = second.enter_context(handed_home(tmp_path, sent))
            lock.hand_on()
            assert (lock.is_held, heir.is_held) == (False, True)
            assert recorded_holder(tmp_path) == own()
        assert is_locked(tmp_path), "the one who handed it on has released it"
        with pytest.raises(HomeBusy), locked_home(tmp_path):
            pass
    assert not is_locked(tmp_path)
    with locked_home(tmp_path):
        pass


@pytest.mark.skipif(os.name != "posix", reason="no file is passed to another process there")
def test_a_lock_is_taken_back_from_an_heir_that_has_ended(tmp_path: Path) -> None:
    with locked_home(tmp_path) as lock:
        with handed_home(tmp_path, [os.dup(one) for one in lock.descriptors]):
            pass
        assert recorded_holder(tmp_path) is None
        lock.take_back()
        assert is_locked(tmp_path)
        assert recorded_holder(tmp_path) == own()
        with pytest.raises(HomeBusy), locked_home(tmp_path):
            pass


@pytest.mark.skipif(os.name != "posix", reason="no file is passed to another process there")
def test_a_lock_that_a_third_process_has_taken_is_not_taken_back(tmp_path: Path) -> None:
    with locked_home(tmp_path) as lock:
        with handed_home(tmp_path, [os.dup(one) for one in lock.descriptors]):
            pass
        with locked_home(tmp_path), pytest.raises(HomeBusy):
            lock.take_back()
