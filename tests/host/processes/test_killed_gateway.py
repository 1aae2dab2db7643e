"""The guard ends the commands of a killed gateway: real gateways, real SIGKILL."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from hermes_trio.host.processes import sweep
from hermes_trio.host.processes.sweep import THIS_SYSTEM
from tests.host.children.kinds import KINDS, MORE, alive, soon, token
from tests.host.processes.gateways import ROOT, gateway, is_gone, stranger

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


PROMISED = 1.0
"""Seconds after the kill in which every process of the gateway is ended."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_process_of_a_killed_gateway_is_alive_a_second_later(tmp_path: Path, kind: str) -> None:
    with gateway(tmp_path, "wait", KINDS[kind]) as it:
        assert it.commands()
        it.die()
        took = soon(lambda: not it.commands())
        print(f"{kind}: {took * 1000:.0f} ms after the kill")
        assert took < PROMISED
        soon(lambda: is_gone(it.guard))


def test_commands_of_all_kinds_end_together_after_a_kill(tmp_path: Path) -> None:
    with gateway(tmp_path, "wait", *KINDS.values(), *MORE.values()) as it:
        assert len(it.commands()) > 15
        it.die()
        took = soon(lambda: not it.commands())
        print(f"all kinds: {took * 1000:.0f} ms after the kill")
        assert took < 2 * PROMISED
        soon(lambda: is_gone(it.guard))


@pytest.mark.parametrize("after", [0.03, 0.07, 0.11, 0.16])
def test_a_gateway_killed_during_a_storm_of_commands_leaves_none_alive(tmp_path: Path, after: float) -> None:
    with gateway(tmp_path, "storm", "sleep {t} & sleep {t}") as it:
        time.sleep(after)
        it.die()
        soon(lambda: is_gone(it.guard), within=60)  # each look takes long while a storm ends
        assert it.commands() == []


def test_the_commands_of_a_gateway_that_exits_without_cleanup_are_ended(tmp_path: Path) -> None:
    with gateway(tmp_path, "exit at once", KINDS["a tree"]) as it:
        assert it.process.wait() == 7
        soon(lambda: not it.commands())


def test_a_command_whose_pid_was_not_told_before_the_kill_is_ended(tmp_path: Path) -> None:
    if not sweep.HAS_PROC:
        pytest.skip("needs the environments of other processes")
    with gateway(tmp_path, "die before telling", KINDS["a tree"]) as it:
        it.process.wait()
        soon(lambda: not it.commands())
        soon(lambda: is_gone(it.guard))


def test_a_command_that_appears_during_the_sweep_is_ended(tmp_path: Path) -> None:
    # Forked just before the kill of its gateway, and without its own environment yet.
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
def test_a_process_that_cannot_be_seen_does_not_count_as_dead(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if not sweep.HAS_PROC:
        pytest.skip("psutil raises such errors itself")

    def refuse(path: str, flags: int) -> int:
        raise OSError(getattr(errno, way), "refused", path)

    with stranger(token()) as process:
        group = sweep.ProcessGroup("x", process.pid, THIS_SYSTEM.born(process.pid) or "")
        with monkeypatch.context() as broken:
            broken.setattr(os, "open", refuse)
            with pytest.raises(OSError, match="refused"):
                THIS_SYSTEM.look()
            assert sweep.end_all([group], within=0.1) == [group]
        assert sweep.end_all([group]) == []


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only the pipe shows the death here")
def test_a_fork_that_holds_the_pipe_open_does_not_hide_the_death_of_the_gateway(tmp_path: Path) -> None:
    with gateway(tmp_path, "fork", KINDS["a tree"]) as it:
        forked = it.heard()["forked"]
        try:
            it.signal(signal.SIGKILL)
            soon(lambda: it.commands() == [forked])  # a copy of the gateway with its command line
            soon(lambda: is_gone(it.guard))
        finally:
            os.kill(forked, signal.SIGKILL)


def test_two_gateways_do_not_end_each_others_commands(tmp_path: Path) -> None:
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


def test_a_gateway_that_a_killed_gateway_started_is_ended_with_its_commands(tmp_path: Path) -> None:
    # An agent started a second gateway with a command. The commands of the second one are neither in the
    # session of the first one nor carry its marker: the guard of the second one outlives it and ends them.
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
