"""The guard process: its list, its replacement and its end."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import psutil
import pytest
import trio
import trio.testing

from hermes_trio.host.processes import sweep
from hermes_trio.host.processes.guard import Guard, open_guard
from hermes_trio.host.processes.sweep import THIS_SYSTEM
from tests.host.children.kinds import KINDS, alive, soon, token, until
from tests.host.processes.gateways import gateway, is_gone, stranger
from tests.host.processes.systems import PowerlessSystem
from tests.logs import capture_logs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


def test_a_lost_guard_is_replaced_by_one_with_the_whole_list(tmp_path: Path) -> None:
    with gateway(tmp_path, "tell of the next guard", KINDS["a tree"], KINDS["ignores TERM"]) as it:
        before = sorted(it.commands())
        os.kill(it.guard, signal.SIGKILL)
        following = it.heard()["guard"]
        assert following != it.guard
        assert sorted(it.commands()) == before, "the loss of the guard ended no command"
        it.die()
        soon(lambda: not it.commands())
        soon(lambda: is_gone(following))


def test_signals_of_a_service_manager_or_a_terminal_do_not_end_the_guard(tmp_path: Path) -> None:
    with gateway(tmp_path, "wait", KINDS["sleeps"]) as it:
        assert os.getsid(it.guard) == it.guard != os.getsid(it.process.pid)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            os.kill(it.guard, number)
        soon(lambda: psutil.Process(it.guard).status() == psutil.STATUS_SLEEPING)
        it.die()
        soon(lambda: not it.commands())
        soon(lambda: is_gone(it.guard))


async def test_a_guard_with_an_empty_list_ends_with_the_block() -> None:
    async with open_guard() as guard:
        await guard.ready()
        pid = guard.pid
        assert pid is not None
        assert not is_gone(pid)
    assert is_gone(pid)


async def test_a_guard_ends_the_listed_groups_when_the_block_is_left() -> None:
    mark = token()
    with stranger(mark) as process:
        async with open_guard() as guard:
            await guard.ready()
            guard.started("x", process.pid, THIS_SYSTEM.born(process.pid) or "")
        soon(lambda: is_gone(process.pid))


async def test_a_guard_does_not_end_a_group_that_is_over() -> None:
    mark = token()
    with stranger(mark) as process:
        async with open_guard() as guard:
            await guard.ready()
            guard.expect("x")
            guard.started("x", process.pid, THIS_SYSTEM.born(process.pid) or "")
            guard.over("x")
        assert alive(mark) == [process.pid]


async def test_a_guard_does_not_end_a_process_with_a_reused_pid() -> None:
    mark = token()
    with stranger(mark) as process:
        async with open_guard() as guard:
            await guard.ready()
            guard.started("x", process.pid, str(int(THIS_SYSTEM.born(process.pid) or 0) + 1))
        soon(lambda: is_gone(guard.pid or 0))
        assert alive(mark) == [process.pid]


async def test_a_guard_survives_a_flood_of_messages() -> None:
    mark = token()
    with stranger(mark) as process:
        async with open_guard() as guard:
            await guard.ready()
            pid = guard.pid
            assert pid is not None
            guard.started("x", process.pid, THIS_SYSTEM.born(process.pid) or "")
            for number in range(100_000):
                guard.expect(f"flood-{number}")
                guard.over(f"flood-{number}")
                if number % 1000 == 0:
                    await trio.sleep(0.001)
            print(f"guard after 200,000 messages: {psutil.Process(pid).memory_info().rss >> 10} KB")
            assert guard.pid == pid
            assert psutil.Process(pid).memory_info().rss < 32 << 20
            assert guard.listed == ("x",)
        soon(lambda: is_gone(process.pid))


async def test_a_guard_that_does_not_read_is_replaced() -> None:
    mark = token()
    with stranger(mark) as process:
        async with open_guard(pipe_size=4096) as guard:
            await guard.ready()
            deaf = guard.pid
            assert deaf is not None
            os.kill(deaf, signal.SIGSTOP)
            guard.started("x", process.pid, THIS_SYSTEM.born(process.pid) or "")
            with capture_logs() as logs:
                for number in range(5_000):
                    guard.expect(f"flood-{number}")
                    guard.over(f"flood-{number}")
                await until(lambda: guard.pid not in (None, deaf))
            assert is_gone(deaf)
            assert alive(mark), "the death of the guard ended no command"
            assert [entry["event"] for entry in logs] == [
                "process guard does not read; starting another",
                "process guard ended",
            ]
        soon(lambda: is_gone(process.pid))


async def test_a_guard_that_does_not_read_does_not_delay_the_end() -> None:
    with capture_logs() as logs:
        async with open_guard(last_sweep=0.2) as guard:
            await guard.ready()
            assert guard.pid is not None
            pid = guard.pid
            os.kill(pid, signal.SIGSTOP)
    assert is_gone(pid)
    assert [entry["event"] for entry in logs] == ["process guard did not end in time"]


async def test_a_guard_that_cannot_be_started_is_logged_and_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark, python = token(), sys.executable
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with stranger(mark) as process, capture_logs() as logs:
        async with open_guard() as guard:
            await guard.ready()
            assert logs[0]["event"] == "process guard not started; retrying"
            guard.started("x", process.pid, THIS_SYSTEM.born(process.pid) or "")
            monkeypatch.setattr(sys, "executable", python)
            await until(lambda: guard.pid is not None)
        soon(lambda: is_gone(process.pid))


async def test_an_error_in_the_block_of_a_guard_is_raised_without_a_group() -> None:
    with pytest.raises(LookupError):
        async with open_guard():
            raise LookupError
    with trio.move_on_after(0.1) as scope:
        async with open_guard():
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_guard_is_small_and_starts_at_once() -> None:
    start = trio.current_time()
    async with open_guard() as guard:
        await guard.ready()
        assert guard.pid is not None
        one = psutil.Process(guard.pid)
        # It sleeps once its signal handlers are set and its list is read.
        await until(lambda: one.status() == psutil.STATUS_SLEEPING and one.memory_info().rss > 6 << 20)
        took = trio.current_time() - start
        memory = one.memory_full_info()
        print(f"guard: {took * 1000:.0f} ms, rss {memory.rss >> 10} KB, its own {memory.uss >> 10} KB")
        assert memory.rss < 24 << 20
    assert took < 5


async def test_a_guard_does_not_carry_the_marker_of_the_command_that_started_the_gateway(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(sweep.MARKER, "outer")
    async with open_guard() as guard:
        await guard.ready()
        assert guard.pid is not None
        await trio.sleep(0.05)
        assert THIS_SYSTEM.look().by_pid[guard.pid].marker is None


def test_the_guard_program_reads_its_list() -> None:
    # Calls the program's functions in this process, where a debugger and coverage can see them.
    reading, writing = os.pipe()
    os.write(writing, b"group a\ngroup b 12 34\ngroup a 5 6\nover b\ngroup c\n")
    os.close(writing)
    saved = os.dup(0)
    try:
        os.dup2(reading, 0)
        listed = sweep.listen(0)
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(reading)
    assert [(group.id, group.pid, group.born) for group in listed] == [("a", 5, "6"), ("c", 0, "")]


def test_the_guard_program_gives_up_in_the_end() -> None:
    with stranger(token()) as process:
        born = THIS_SYSTEM.born(process.pid) or ""
        group = sweep.ProcessGroup("x", process.pid, born, PowerlessSystem())
        assert sweep.end_all([group], within=0.1) == [group]
        assert not is_gone(process.pid)


def test_a_new_guard_has_an_empty_list() -> None:
    assert Guard().listed == ()
    assert sweep.end_all([]) == []
