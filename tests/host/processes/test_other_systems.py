"""Systems other than Linux, and a system that is out of descriptors."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from hermes_trio.host.processes import sweep
from hermes_trio.host.processes.guard import open_guard
from hermes_trio.host.processes.process_groups import (
    Patience,
)
from hermes_trio.host.processes.sweep import THIS_SYSTEM, System
from tests.host.children.kinds import KINDS, MORE, alive, soon, token, until
from tests.host.processes.place import Place
from tests.host.processes.systems import ScarceSystem
from tests.logs import capture_logs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


async def test_without_proc_psutil_finds_the_members(tmp_path: Path) -> None:
    async with open_guard(system=System(has_proc=False)) as guard:
        place = Place(tmp_path, guard)
        for kind in ("a tree", "sets its session and orphans", "ignores TERM"):
            mark = token()
            command = {**KINDS, **MORE}[kind].format(t=mark)
            async with place.run(command, patience=Patience(after_term=0.5)):
                await until(partial(alive, mark))
                await trio.sleep(0.1)
            assert alive(mark) == []


async def test_without_process_groups_the_tree_of_processes_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "killpg", None)
    mark = token()
    system = System(has_proc=False, has_groups=False, kill_signal=signal.SIGTERM)
    async with open_guard(system=system) as guard:
        async with Place(tmp_path, guard).run(KINDS["a tree"].format(t=mark)):
            await until(lambda: len(alive(mark)) > 3)
        assert alive(mark) == []


async def test_a_command_whose_end_cannot_be_peeked_at_is_reaped_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    mark = token()
    async with open_guard(system=System(can_peek=False)) as guard:
        place = Place(tmp_path, guard)
        async with place.run(MORE["ends before its children"].format(t=mark)) as process:
            assert await process.wait() == 3
            await until(lambda: len(alive(mark)) == 2)
        assert alive(mark) == []
        assert process.exit_code == 3


async def test_a_command_whose_start_time_cannot_be_read_is_ended(tmp_path: Path) -> None:
    # The command itself took the last descriptor.
    system, mark = ScarceSystem(refusals=math.inf), token()
    async with open_guard(system=system) as guard:
        opened = Place(tmp_path, guard).run(["sleep", mark])
        process = await opened.__aenter__()
        system.refusals = 0
        assert process.id.started == 0
        await opened.__aexit__(None, None, None)
        assert alive(mark) == []
        assert process.is_over


async def test_a_command_is_killed_without_a_look_when_no_descriptor_is_left(tmp_path: Path) -> None:
    system, mark = ScarceSystem(), token()
    async with open_guard(system=system) as guard:
        place = Place(tmp_path, guard)
        place.ending.set()
        with capture_logs():
            async with place.run(["sleep", mark]) as process:
                await until(lambda: alive(mark))
                system.refusals = math.inf
                start = trio.current_time()
        assert trio.current_time() - start < 10
        assert not process.is_over, "no look succeeded"
        assert process.exit_code == -signal.SIGKILL, "killed without a look, and reaped"
        assert not alive(mark)


async def test_a_command_reaped_by_another_part_of_the_program_has_no_exit_code(place: Place) -> None:
    async with place.run("exit 3") as process:
        os.waitpid(process.id.pid, 0)  # noqa: ASYNC222 - it ends at once
        assert await process.wait() is None


def test_proc_and_psutil_show_the_same() -> None:
    if not sweep.HAS_PROC:
        pytest.skip("there is only one here")
    child = subprocess.Popen(["sleep", token()], env={"HERMES_TRIO_GROUP": "x", "PATH": os.environ["PATH"]})
    try:
        soon(lambda: THIS_SYSTEM.look().by_pid[child.pid].marker)
        by_proc = THIS_SYSTEM.look().by_pid[child.pid]
        assert THIS_SYSTEM.born(child.pid) == by_proc.born
        psutils = System(has_proc=False)
        by_psutil = psutils.look().by_pid[child.pid]
        assert psutils.born(child.pid) == by_psutil.born
        for name in ("pid", "parent", "group", "session", "alive", "marker"):
            assert getattr(by_proc, name) == getattr(by_psutil, name), name
        assert by_psutil.marker == "x"
    finally:
        child.kill()
        child.wait()


def test_a_marker_is_read_in_a_container_where_the_session_has_no_number() -> None:
    """As for a process that was started from outside of the container."""
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("no namespace of one's own to be had here")
    look = (
        "from hermes_trio.host.processes.sweep import THIS_SYSTEM; me = THIS_SYSTEM.look().by_pid[1]; "
        "print(me.session, me.marker)"
    )
    env = {**os.environ, "HERMES_TRIO_GROUP": "x"}
    seen = subprocess.run([*inside, sys.executable, "-c", look], env=env, capture_output=True, check=True)
    assert seen.stdout == b"0 x\n"


def test_a_process_whose_program_has_an_odd_name_can_be_read(tmp_path: Path) -> None:
    odd = tmp_path / "a) S 1 (b\n"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(odd), token()])
    try:
        start = time.monotonic()
        one = THIS_SYSTEM.look().by_pid[child.pid]
        assert (one.parent, one.alive) == (os.getpid(), True)
        assert time.monotonic() - start < 10
    finally:
        child.kill()
        child.wait()
    assert THIS_SYSTEM.born(child.pid) is None


@pytest.mark.skipif(not sweep.HAS_PROC, reason="psutil lists the processes here")
def test_a_process_that_execs_during_a_look_keeps_its_marker(tmp_path: Path) -> None:
    script = tmp_path / "again.sh"
    script.write_text('exec sh "$0"\n')
    again = subprocess.Popen(["sh", script], env={**os.environ, sweep.MARKER: "mine"})
    try:
        soon(lambda: b"again.sh" in Path(f"/proc/{again.pid}/cmdline").read_bytes())
        looks = [THIS_SYSTEM.look().by_pid[again.pid].marker for _ in range(300)]
    finally:
        again.kill()
        again.wait()
    # Some 20 of 300 looks fall into that moment. On a busy machine it may last long.
    assert looks.count("mine") >= 297
