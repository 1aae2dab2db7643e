"""The guard ends what a killed gateway left behind: real gateways, real SIGKILL."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from hermes_trio.host.processes import guard as guards
from hermes_trio.host.processes import sweep
from hermes_trio.host.processes.guard import Guard, Lookout, open_guard
from hermes_trio.host.processes.leftovers import Leftover, end_leftovers
from hermes_trio.host.processes.process_identity import boot_time
from tests.host.children.kinds import KINDS, MORE, alive, is_dead, soon, token, until
from tests.logs import capture_logs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL and these commands are POSIX")

ROOT = Path(__file__).parents[3]
PROMISED = 1.0


@dataclass
class Gateway:
    """One that is going to be killed."""

    process: subprocess.Popen[str]
    token: str
    guard: int = 0
    rows: list[Row] = field(default_factory=list)

    def heard(self) -> dict[str, Any]:
        """The next thing it says."""
        assert self.process.stdout is not None
        line = "\n"
        while not line.startswith("{"):  # its log is none of our business
            line = self.process.stdout.readline()
            assert line, f"it ended with {self.process.wait()}"
        said: dict[str, Any] = json.loads(line)
        return said

    def commands(self) -> list[int]:
        """What is alive of its commands."""
        return [pid for pid in alive(self.token) if pid != self.process.pid]

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def die(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class Row:
    """What the table of processes remembers."""

    process_id: str
    pid: int
    pid_time: float
    started_at: float = field(default_factory=lambda: boot_time() + 60)


@contextmanager
def gateway(directory: Path, plan: str, *commands: str) -> Iterator[Gateway]:
    """A gateway that runs these commands; whatever it leaves alive is ended here."""
    mark = token()
    directory = directory / f"gateway-{mark}"
    directory.mkdir()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.host.children.gateway",
            str(directory),
            mark,
            plan,
            *(command.format(t=mark) for command in commands),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    it = Gateway(process, mark)
    try:
        said = it.heard()
        it.guard, it.rows = said["guard"], [Row(*row) for row in said["rows"]]
        yield it
    finally:
        process.kill()
        process.communicate()
        for pid in alive(mark):
            with suppress(ProcessLookupError):  # the guard is at it too
                os.kill(pid, signal.SIGKILL)


@contextmanager
def stranger(mark: str, **how: Any) -> Iterator[psutil.Process]:
    """A process that is not ours."""
    child = subprocess.Popen(["sleep", mark], start_new_session=True, **how)
    try:
        soon(lambda: alive(mark))
        yield psutil.Process(child.pid)
    finally:
        child.kill()
        child.wait()


def is_gone(pid: int) -> bool:
    try:
        return is_dead(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return True


# A killed gateway.


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_killed_gateway_is_alive_a_second_later(tmp_path: Path, kind: str) -> None:
    with gateway(tmp_path, "wait", KINDS[kind]) as it:
        assert it.commands()
        it.die()
        took = soon(lambda: not it.commands())
        print(f"{kind}: {took * 1000:.0f} ms after the kill")
        assert took < PROMISED
        soon(lambda: is_gone(it.guard))


def test_all_kinds_at_once(tmp_path: Path) -> None:
    with gateway(tmp_path, "wait", *KINDS.values(), *MORE.values()) as it:
        assert len(it.commands()) > 15
        it.die()
        took = soon(lambda: not it.commands())
        print(f"all kinds: {took * 1000:.0f} ms after the kill")
        assert took < 2 * PROMISED
        soon(lambda: is_gone(it.guard))


@pytest.mark.parametrize("after", [0.03, 0.07, 0.11, 0.16])
def test_killed_at_any_moment_of_a_storm_of_commands(tmp_path: Path, after: float) -> None:
    with gateway(tmp_path, "storm", "sleep {t} & sleep {t}") as it:
        time.sleep(after)
        it.die()
        soon(lambda: is_gone(it.guard))
        assert it.commands() == []


def test_a_gateway_that_just_exits(tmp_path: Path) -> None:
    with gateway(tmp_path, "exit at once", KINDS["a tree"]) as it:
        assert it.process.wait() == 7
        soon(lambda: not it.commands())


def test_killed_between_the_start_of_a_command_and_telling_its_pid(tmp_path: Path) -> None:
    if not sweep.HAS_PROC:
        pytest.skip("needs the environments of other processes")
    with gateway(tmp_path, "die before telling", KINDS["a tree"]) as it:
        it.process.wait()
        soon(lambda: not it.commands())
        soon(lambda: is_gone(it.guard))


def test_a_command_that_is_only_about_to_be_there(tmp_path: Path) -> None:
    # It was forked when its gateway was killed, and has not come to its own environment yet.
    if not sweep.HAS_PROC:
        pytest.skip("needs the environments of other processes")
    mark = token()
    sweeping = threading.Thread(target=sweep.end_all, args=([sweep.ProcessGroup(mark)],))
    sweeping.start()
    time.sleep(0.3)
    env = {**os.environ, sweep.MARKER: mark}
    with subprocess.Popen(["sleep", mark], env=env, start_new_session=True) as child:
        sweeping.join()
        try:
            assert child.wait(5) in (-signal.SIGTERM, -signal.SIGKILL)
        finally:
            child.kill()


@pytest.mark.parametrize("way", ["EMFILE", "EIO"])
def test_who_cannot_be_seen_is_not_dead(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if not sweep.HAS_PROC:
        pytest.skip("psutil raises by itself")

    def refuse(path: str, flags: int) -> int:
        raise OSError(getattr(errno, way), "refused", path)

    with stranger(token()) as process:
        group = sweep.ProcessGroup("x", process.pid, sweep.born(process.pid) or "")
        with monkeypatch.context() as broken:
            broken.setattr(os, "open", refuse)
            with pytest.raises(OSError, match="refused"):
                sweep.look()
            assert sweep.end_all([group], within=0.1) == [group]
        assert sweep.end_all([group]) == []


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only the pipe tells of the death here")
def test_who_holds_the_pipe_open_does_not_hide_the_death(tmp_path: Path) -> None:
    with gateway(tmp_path, "fork", KINDS["a tree"]) as it:
        forked = it.heard()["forked"]
        try:
            it.signal(signal.SIGKILL)
            soon(lambda: it.commands() == [forked])  # which is a copy of the gateway with all its words
            soon(lambda: is_gone(it.guard))
        finally:
            os.kill(forked, signal.SIGKILL)


def test_two_gateways_do_not_touch_each_other(tmp_path: Path) -> None:
    with (
        gateway(tmp_path, "wait", KINDS["a tree"], MORE["sets its session and orphans"]) as one,
        gateway(tmp_path, "wait", KINDS["a tree"], MORE["sets its session and orphans"]) as other,
    ):
        others = sorted(other.commands())
        one.die()
        soon(lambda: not one.commands())
        soon(lambda: is_gone(one.guard))
        assert sorted(other.commands()) == others
        assert not is_gone(other.guard)


def test_the_guard_of_a_gateway_below_a_killed_gateway(tmp_path: Path) -> None:
    # An agent started a second gateway with a command; what that one runs is neither of the first
    # one's session nor has its marker. Its own guard outlives it and ends it all.
    mark = token()
    inner = tmp_path / f"inner-{mark}"
    inner.mkdir()
    command = (
        f"cd {ROOT} && {sys.executable} -m tests.host.children.gateway {inner} {mark} wait 'sleep {mark}'"
    )
    with gateway(tmp_path, "wait", f"{command}; : {{t}}") as it:
        soon(lambda: len([pid for pid in alive(mark) if psutil.Process(pid).name() == "sleep"]) == 1)
        it.die()
        soon(lambda: not alive(mark))


# The guard itself.


def test_a_lost_guard_is_replaced_by_one_that_knows_all(tmp_path: Path) -> None:
    with gateway(tmp_path, "tell of the next guard", KINDS["a tree"], KINDS["ignores TERM"]) as it:
        before = sorted(it.commands())
        os.kill(it.guard, signal.SIGKILL)
        following = it.heard()["guard"]
        assert following != it.guard
        assert sorted(it.commands()) == before, "nothing was ended by that"
        it.die()
        soon(lambda: not it.commands())
        soon(lambda: is_gone(following))


def test_a_service_manager_and_a_terminal_do_not_end_it(tmp_path: Path) -> None:
    with gateway(tmp_path, "wait", KINDS["sleeps"]) as it:
        assert os.getsid(it.guard) == it.guard != os.getsid(it.process.pid)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            os.kill(it.guard, number)
        soon(lambda: psutil.Process(it.guard).status() == psutil.STATUS_SLEEPING)
        it.die()
        soon(lambda: not it.commands())
        soon(lambda: is_gone(it.guard))


async def test_a_guard_with_nothing_to_do_goes_with_the_block() -> None:
    async with open_guard() as guard:
        pid = guard.pid
        assert pid is not None
        assert not is_gone(pid)
    assert is_gone(pid)


async def test_a_guard_ends_what_is_on_its_list_when_the_block_is_left() -> None:
    mark = token()
    with stranger(mark) as process:
        async with open_guard() as guard:
            guard.started("x", process.pid, sweep.born(process.pid) or "")
        soon(lambda: is_gone(process.pid))


async def test_what_is_over_is_not_ended() -> None:
    mark = token()
    with stranger(mark) as process:
        async with open_guard() as guard:
            guard.expect("x")
            guard.started("x", process.pid, sweep.born(process.pid) or "")
            guard.over("x")
        assert alive(mark) == [process.pid]


async def test_a_reused_pid_never_ends_a_stranger() -> None:
    mark = token()
    with stranger(mark) as process:
        async with open_guard() as guard:
            guard.started("x", process.pid, str(int(sweep.born(process.pid) or 0) + 1))
        soon(lambda: is_gone(guard.pid or 0))
        assert alive(mark) == [process.pid]


async def test_a_flood_of_messages_is_survived() -> None:
    mark = token()
    with stranger(mark) as process:
        async with open_guard() as guard:
            pid = guard.pid
            assert pid is not None
            guard.started("x", process.pid, sweep.born(process.pid) or "")
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


async def test_a_guard_that_does_not_listen_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "PIPE_SIZE", 4096)
    mark = token()
    with stranger(mark) as process:
        async with open_guard() as guard:
            deaf = guard.pid
            assert deaf is not None
            os.kill(deaf, signal.SIGSTOP)
            guard.started("x", process.pid, sweep.born(process.pid) or "")
            with capture_logs() as logs:
                for number in range(5_000):
                    guard.expect(f"flood-{number}")
                    guard.over(f"flood-{number}")
                await until(lambda: guard.pid not in (None, deaf))
            assert is_gone(deaf)
            assert alive(mark), "its death is not ours"
            assert [entry["event"] for entry in logs] == [
                "the process guard does not listen; a new one is started",
                "the process guard ended",
            ]
        soon(lambda: is_gone(process.pid))


async def test_a_deaf_guard_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "LAST_SWEEP", 0.2)
    with capture_logs() as logs:
        async with open_guard() as guard:
            assert guard.pid is not None
            pid = guard.pid
            os.kill(pid, signal.SIGSTOP)
    assert is_gone(pid)
    assert [entry["event"] for entry in logs] == ["the process guard goes on without us"]


async def test_a_guard_that_cannot_be_started_is_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mark = token()
    command, commands = guards._command(), [["/no/such/python"]]
    monkeypatch.setattr(guards, "_command", lambda: commands[-1])
    with stranger(mark) as process, capture_logs() as logs:
        async with open_guard() as guard:
            assert logs[0]["event"] == "no process guard"
            guard.started("x", process.pid, sweep.born(process.pid) or "")
            commands.append(command)
            await until(lambda: guard.pid is not None)
        soon(lambda: is_gone(process.pid))


async def test_what_the_block_raises_leaves_it_bare() -> None:
    with pytest.raises(LookupError):
        async with open_guard():
            raise LookupError
    with trio.move_on_after(0.1) as scope:
        async with open_guard():
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_guard_is_small_and_there_at_once() -> None:
    start = trio.current_time()
    async with open_guard() as guard:
        assert guard.pid is not None
        one = psutil.Process(guard.pid)
        # It has read its list when it sleeps with all its signals set.
        await until(lambda: one.status() == psutil.STATUS_SLEEPING and one.memory_info().rss > 6 << 20)
        took = trio.current_time() - start
        memory = one.memory_full_info()
        print(f"guard: {took * 1000:.0f} ms, rss {memory.rss >> 10} KB, its own {memory.uss >> 10} KB")
        assert memory.rss < 24 << 20
    assert took < 5


async def test_a_guard_below_a_command_has_not_its_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(sweep.MARKER, "outer")
    async with open_guard() as guard:
        assert guard.pid is not None
        await trio.sleep(0.05)
        assert sweep.look().by_pid[guard.pid].marker is None


# Looking, for all groups together.


async def test_those_who_ask_together_share_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    lookout, looks, real = Lookout(), [], sweep.look
    monkeypatch.setattr(sweep, "look", lambda: looks.append(1) or real())  # type: ignore[func-returns-value]
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(lookout.look)
    assert len(looks) <= 2


async def test_a_look_is_never_older_than_its_question() -> None:
    lookout = Lookout()
    for _ in range(5):
        mark = token()
        with stranger(mark) as process:
            assert process.pid in (await lookout.look()).by_pid


async def test_a_look_waits_for_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    real, tries = sweep.look, []

    def scarce() -> sweep.ProcessTable:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(errno.EMFILE, "Too many open files")
        return real()

    monkeypatch.setattr(sweep, "look", scarce)
    assert os.getpid() in (await Lookout().look()).by_pid


async def test_who_leaves_while_a_look_is_due_holds_up_nobody() -> None:
    lookout = Lookout()
    await lookout.look()
    lookout._next = trio.current_time() + 0.1
    with trio.move_on_after(0.05):
        await lookout.look()
    with trio.fail_after(5):
        await lookout.look()


def test_who_leaves_the_process_group_in_this_moment_is_signalled_too() -> None:
    with stranger(token()) as leader, stranger(token()) as left:
        table = sweep.ProcessTable(
            [
                sweep.SeenProcess(leader.pid, 1, leader.pid, leader.pid, "5", True, None),
                sweep.SeenProcess(left.pid, 1, leader.pid, leader.pid, "5", True, None),
            ]
        )
        group = sweep.ProcessGroup("x", leader.pid, "5")
        group.signal(sweep.TERM, group.living(table), table)
        soon(lambda: is_gone(leader.pid) and is_gone(left.pid))


# What a gateway left behind that was killed together with its guard.


@contextmanager
def dead_with_its_guard(directory: Path, *commands: str) -> Iterator[Gateway]:
    with gateway(directory, "wait", *commands) as it:
        it.signal(signal.SIGSTOP)  # or it would start another guard
        os.kill(it.guard, signal.SIGKILL)
        it.die()
        yield it


async def swept(*rows: Row) -> list[Leftover]:
    return await end_leftovers(rows, Lookout().look, trio.Event())


async def test_leftovers_are_found_and_ended(tmp_path: Path) -> None:
    commands = [KINDS["a tree"], MORE["ends before its children"], MORE["sets its session and orphans"]]
    with dead_with_its_guard(tmp_path, *commands) as it:
        before = set(it.commands())
        assert len(before) > 5
        leftovers = await swept(*it.rows)
        assert it.commands() == []
    assert {leftover.process_id for leftover in leftovers} == {row.process_id for row in it.rows}
    assert {pid for leftover in leftovers for pid in leftover.pids} >= before
    assert all(leftover.ended for leftover in leftovers)
    assert await swept(*it.rows) == []
    assert await swept() == []


async def test_a_leader_without_its_marker_is_known_by_pid_and_start(tmp_path: Path) -> None:
    with stranger(token()) as process:
        born = float(sweep.born(process.pid) or 0)
        wrong = [
            Row("x", process.pid, born + 1),
            Row("x", process.pid, born - 1),
            Row("x", process.pid, born, started_at=boot_time() - 60),
        ]
        assert await swept(*wrong) == []
        assert not is_gone(process.pid)
        (leftover,) = await swept(Row("x", process.pid, born))
        assert leftover == Leftover("x", (process.pid,), True)
        assert is_gone(process.pid)


async def test_a_group_that_cannot_be_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermes_trio.host.processes.process_groups.PATIENCE", 0.1)
    monkeypatch.setattr("hermes_trio.host.processes.process_groups.PROOF", 0.1)
    monkeypatch.setattr(sweep.ProcessGroup, "signal", lambda *_: None)
    with stranger(token()) as process:
        (leftover,) = await swept(Row("x", process.pid, float(sweep.born(process.pid) or 0)))
        assert not leftover.ended


def test_the_guard_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    # The program's own functions, where a debugger and a coverage report can see them.
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


def test_the_guard_gives_up_at_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep.ProcessGroup, "signal", lambda *_: None)
    with stranger(token()) as process:
        group = sweep.ProcessGroup("x", process.pid, sweep.born(process.pid) or "")
        assert sweep.end_all([group], within=0.1) == [group]
        assert not is_gone(process.pid)


def test_a_guard_knows_nobody_without_being_told() -> None:
    assert Guard().listed == ()
    assert sweep.end_all([]) == []
