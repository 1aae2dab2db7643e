"""The processes of a command end with its block. The processes are real; whether they are alive is read from
their command lines, not from the code under test."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
import trio.testing

from hermes_trio.host.processes import sweep
from hermes_trio.host.processes.guard import Guard, open_guard
from hermes_trio.host.processes.process_groups import (
    Patience,
)
from tests.host.children.kinds import KINDS, MORE, alive, soon, token, until
from tests.host.processes.place import Command, Place
from tests.host.processes.systems import PowerlessSystem
from tests.logs import capture_logs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


@pytest.mark.parametrize("kind", [*KINDS, *MORE])
async def test_no_member_of_the_group_outlives_the_block(place: Place, kind: str) -> None:
    mark = token()
    async with place.run({**KINDS, **MORE}[kind].format(t=mark), patience=Patience(after_term=0.5)):
        await until(lambda: alive(mark))
        await trio.sleep(0.15)  # time for a shell to start all its children
        assert alive(mark)
    assert alive(mark) == []
    assert place.guard.listed == ()


_BECOMES_A_DAEMON = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
for _ in range(40):
    if os.fork(): os._exit(0)
os.execvp("sleep", ["sleep", sys.argv[1]])
"""


async def test_daemons_that_fork_during_a_look_are_ended_too(place: Place) -> None:
    """The command ends at once, and so does each process in the chain of forks."""
    for _ in range(30):
        mark = token()
        async with place.run([sys.executable, "-S", "-E", "-c", _BECOMES_A_DAEMON, mark]) as process:
            await process.wait()
        assert alive(mark) == []


@pytest.mark.parametrize("way", ["error", "cancelled", "deadline", "break"])
async def test_no_member_outlives_the_block_however_it_is_left(place: Place, way: str) -> None:
    mark = token()
    with trio.move_on_after(1 if way == "deadline" else 30) as scope:
        for _ in range(1):
            try:
                async with place.run(KINDS["a tree"].format(t=mark)):
                    await until(lambda: alive(mark))
                    match way:
                        case "error":
                            raise LookupError("bare, not in a group")
                        case "cancelled":
                            scope.cancel(reason="test")
                        case "break":
                            break
                    await trio.sleep(20)
            except LookupError:
                assert way == "error"
    assert alive(mark) == []
    assert scope.cancelled_caught == (way in ("cancelled", "deadline"))


async def test_an_error_of_the_block_wins_over_its_cancellation(place: Place) -> None:
    async def fail_while_cancelled() -> None:
        with trio.CancelScope() as scope:
            async with place.run(["sleep", token()]):
                scope.cancel(reason="test")
                raise LookupError

    with pytest.raises(LookupError):
        await fail_while_cancelled()
    async with place.run(["sleep", token()]):  # the next command is not affected
        await trio.lowlevel.checkpoint()


async def test_children_of_a_command_that_has_ended_live_until_the_block_ends(place: Place) -> None:
    mark = token()
    async with place.run(MORE["ends before its children"].format(t=mark)) as process:
        assert await process.wait() == 3
        await until(lambda: len(alive(mark)) == 2)
        assert psutil.Process(process.id.pid).status() == psutil.STATUS_ZOMBIE, "its pid is reserved for us"
    assert alive(mark) == []
    assert not psutil.pid_exists(process.id.pid)


@pytest.mark.skipif(not sweep.HAS_PROC, reason="elsewhere such a process is not shown as dead")
async def test_a_process_whose_first_thread_has_ended_counts_as_alive(place: Place) -> None:
    script = (
        "import ctypes, threading, time; "
        "threading.Thread(target=time.sleep, args=(300,)).start(); "
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    async with place.run([sys.executable, "-S", "-c", script]) as process:
        await until(lambda: psutil.Process(process.id.pid).status() == psutil.STATUS_ZOMBIE)
    assert not psutil.pid_exists(process.id.pid)
    assert process.exit_code == -signal.SIGTERM


async def test_a_process_that_hides_in_every_way_is_not_found(place: Place) -> None:
    # Documented: another session, no parent, no environment. The processes of docker and systemd-run are
    # hidden too.
    mark = token()
    async with place.run(f"(env -i setsid sleep {mark} &); exit 0") as process:
        await process.wait()
        await until(lambda: alive(mark))
        await trio.sleep(0.1)
    (survivor,) = alive(mark)
    os.kill(survivor, signal.SIGKILL)


async def test_a_command_gets_term_once_and_its_last_output_is_read(place: Place) -> None:
    script = (
        "import signal, sys, time\n"
        "asked = []\n"
        "signal.signal(signal.SIGTERM, lambda *_: asked.append(1))\n"
        "print('ready', flush=True)\n"
        "while not asked: time.sleep(0.01)\n"
        "time.sleep(0.3)\n"
        "print(f'asked {len(asked)} times', 'x' * 200_000, flush=True)\n"
    )
    async with place.run([sys.executable, "-S", "-c", script]) as process:
        await process.output.beyond(0)
    assert process.output.total == len("ready\nasked 1 times \n") + 200_000
    assert place.spool.read_bytes().startswith(b"ready\nasked 1 times x")
    assert process.exit_code == 0


async def test_a_command_that_ignores_term_is_killed(place: Place) -> None:
    mark = token()
    async with place.run(KINDS["ignores TERM"].format(t=mark)):
        await until(lambda: len(alive(mark)) == 2)
        start = trio.current_time()
    assert Patience().after_term <= trio.current_time() - start < 10
    assert alive(mark) == []


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_a_command_that_ignores_term_is_killed_at_once_while_the_gateway_is_ending(
    place: Place, when: str, nursery: trio.Nursery
) -> None:
    mark = token()
    async with place.run(KINDS["ignores TERM"].format(t=mark), patience=Patience(after_term=60)):
        await until(lambda: len(alive(mark)) == 2)
        if when == "before":
            place.ending.set()
        else:
            nursery.start_soon(_set_later, place.ending)
        start = trio.current_time()
    assert trio.current_time() - start < 20
    assert alive(mark) == []


async def _set_later(event: trio.Event) -> None:
    await trio.sleep(0.2)
    event.set()


async def test_two_hundred_groups_end_together(place: Place) -> None:
    mark = token()

    async def one(number: int) -> None:
        async with place.run(["sleep", mark], spool=place.directory / f"{number}"):
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        for number in range(200):
            nursery.start_soon(one, number)
        await until(lambda: len(alive(mark)) == 200)
        place.ending.set()
        start = trio.current_time()
        nursery.cancel_scope.cancel(reason="drain")
    took = trio.current_time() - start
    print(f"200 groups ended in {took * 1000:.0f} ms")
    assert alive(mark) == []
    assert took < 5


async def test_a_group_that_cannot_be_ended_is_logged_and_stays_on_the_list_of_the_guard(
    tmp_path: Path,
) -> None:
    # Stands for another user's process, or one that hangs in the kernel.
    async with open_guard(system=PowerlessSystem()) as guard:
        place, mark = Place(tmp_path, guard), token()
        with capture_logs() as logs:
            async with place.run(["sleep", mark], patience=Patience(0.2, 0.2)) as process:
                await until(lambda: alive(mark))
        assert [entry["event"] for entry in logs] == ["process group not ended"]
        assert len(guard.listed) == 1
        assert not process.is_over
        assert process.exit_code is None
        os.kill(process.id.pid, signal.SIGKILL)
        await process._child.wait()


async def test_leaving_the_block_takes_bounded_time_even_if_no_look_returns(tmp_path: Path) -> None:
    place, mark = Place(tmp_path, _NeverLooks()), token()
    patience = Patience(0.1, 0.1, 0.1)
    with trio.fail_after(10), capture_logs():
        async with trio.open_nursery() as watchers:
            with trio.CancelScope() as scope:
                async with place.run(KINDS["ignores TERM"].format(t=mark), patience=patience) as process:
                    await until(lambda: len(alive(mark)) == 2)
                    # A task that waits for output must be woken, since none can come.
                    watchers.start_soon(process.output.beyond, 1 << 40)
                    scope.cancel(reason="test")
                    await trio.lowlevel.checkpoint()
            assert not process.is_over, "no look returned"
            soon(lambda: not alive(mark))  # the last resort needs no look
    await process._child.wait()


class _NeverLooks(Guard):
    """A guard whose looks hang, as on a machine that does not answer."""

    async def look(self) -> sweep.ProcessTable:
        await trio.sleep_forever()


class CancelAt(trio.abc.Instrument):
    """Cancels a scope at the n-th step of the task that created this object."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope, self._left = scope, step
        self._task = trio.lowlevel.current_task()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel(reason="this step")


async def test_a_run_cancelled_at_any_step_leaves_no_process_behind(place: Place) -> None:
    place.ending.set()
    steps = 0
    fds = len(os.listdir("/proc/self/fd")) if sys.platform == "linux" else 0
    for step in range(1, 80):
        mark, finished = token(), False
        with trio.CancelScope() as scope:
            instrument = CancelAt(scope, step)
            trio.lowlevel.add_instrument(instrument)
            try:
                async with place.run(f"sleep {mark} & sleep {mark}"):
                    await trio.lowlevel.checkpoint()
                finished = True
            finally:
                trio.lowlevel.remove_instrument(instrument)
        assert alive(mark) == []
        assert place.guard.listed == ()
        steps = step
        if finished and not scope.cancel_called:
            break
    assert 5 < steps < 79, "every step was tried"
    if sys.platform == "linux":
        await until(lambda: len(os.listdir("/proc/self/fd")) <= fds)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts descriptors in /proc")
async def test_two_hundred_runs_leak_no_descriptor_thread_or_process(place: Place) -> None:
    def held() -> tuple[int, int, int]:
        spools = sum(thread.name.startswith("spool") for thread in threading.enumerate())
        return len(os.listdir("/proc/self/fd")), spools, len(psutil.Process().children())

    async with place.run(["true"]) as process:
        await process.wait()
    before, kept = held(), []
    for number in range(200):
        command: Command = ["true"] if number % 3 else f"echo {number}; (exit {number % 7})"
        async with place.run(command, talk=number % 2 == 0) as process:
            await process.wait()
        kept.append(process)  # a reference to it keeps nothing open
    await until(lambda: held()[1] == 0)
    assert held()[0] <= before[0]
    assert held()[2] <= before[2]


async def test_the_guard_lists_a_group_before_its_command_starts(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = []
    start = trio.lowlevel.open_process

    async def watched(*arguments: Any, **options: Any) -> trio.Process:
        listed.append(place.guard.listed)
        return await start(*arguments, **options)

    monkeypatch.setattr(trio.lowlevel, "open_process", watched)
    async with place.run(["true"]):
        listed.append(place.guard.listed)
    assert len(listed[0]) == 1
    assert listed[0] == listed[1]
