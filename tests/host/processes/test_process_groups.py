"""A command and all that comes of it end with their block. The processes are real, and whether they are
alive is seen by a number on their command line, not by the code under test."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
import trio.testing

from hermes_trio.base.errors import GatewayError, InvalidId
from hermes_trio.host.processes import process_groups, spool, sweep
from hermes_trio.host.processes.guard import Guard, open_guard
from hermes_trio.host.processes.process_groups import (
    ChildProcess,
    CommandNotFound,
    DirectoryUnusable,
    NotExecutable,
    ProcessUnstartable,
    SpoolUnwritable,
    running,
)
from hermes_trio.host.processes.process_identity import find
from tests.host.children.kinds import KINDS, MORE, alive, soon, token, until
from tests.logs import capture_logs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")

Command = list[str] | str


@dataclass
class Place:
    """Where commands are run."""

    directory: Path
    guard: Guard
    ending: trio.Event = field(default_factory=trio.Event)

    @property
    def spool(self) -> Path:
        return self.directory / "spools" / "one"

    def run(self, command: Command, **how: object) -> AbstractAsyncContextManager[ChildProcess]:
        options = {
            "cwd": self.directory,
            "env": dict(os.environ),
            "spool": self.spool,
            "guard": self.guard,
            "ending": self.ending,
            **how,
        }
        return running(token(), command, **options)  # type: ignore[arg-type]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with open_guard() as guard:
        yield Place(tmp_path, guard)


# Whatever it does, it ends.


@pytest.mark.parametrize("kind", [*KINDS, *MORE])
async def test_nothing_outlives_the_block(place: Place, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_groups, "PATIENCE", 0.5)
    mark = token()
    async with place.run({**KINDS, **MORE}[kind].format(t=mark)):
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


async def test_nobody_gets_away_by_forking_while_we_look(place: Place) -> None:
    """As whoever becomes a daemon does: the command ends at once, and each of the others behind it."""
    for _ in range(30):
        mark = token()
        async with place.run([sys.executable, "-S", "-E", "-c", _BECOMES_A_DAEMON, mark]) as process:
            await process.wait()
        assert alive(mark) == []


@pytest.mark.skipif(not sweep.HAS_PROC, reason="elsewhere it is psutil that looks")
def test_who_becomes_another_program_while_we_look_keeps_its_mark(tmp_path: Path) -> None:
    script = tmp_path / "again.sh"
    script.write_text('exec sh "$0"\n')
    again = subprocess.Popen(["sh", script], env={**os.environ, sweep.MARKER: "mine"})
    try:
        soon(lambda: b"again.sh" in Path(f"/proc/{again.pid}/cmdline").read_bytes())
        looks = [sweep.look().by_pid[again.pid].marker for _ in range(300)]
    finally:
        again.kill()
        again.wait()
    # Of 300 some 20 fall into that moment. A busy machine may make it a long one.
    assert looks.count("mine") >= 297


@pytest.mark.parametrize("way", ["error", "cancelled", "deadline", "break"])
async def test_nothing_outlives_the_block_however_it_is_left(place: Place, way: str) -> None:
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


async def test_what_the_block_raises_wins_over_being_cancelled(place: Place) -> None:
    async def fail_while_cancelled() -> None:
        with trio.CancelScope() as scope:
            async with place.run(["sleep", token()]):
                scope.cancel(reason="test")
                raise LookupError

    with pytest.raises(LookupError):
        await fail_while_cancelled()
    async with place.run(["sleep", token()]):  # and the next one is not touched by any of it
        await trio.lowlevel.checkpoint()


async def test_children_of_a_command_that_has_ended_live_until_the_block_ends(place: Place) -> None:
    mark = token()
    async with place.run(MORE["ends before its children"].format(t=mark)) as process:
        assert await process.wait() == 3
        await until(lambda: len(alive(mark)) == 2)
        assert psutil.Process(process.id.pid).status() == psutil.STATUS_ZOMBIE, "its number is kept for us"
    assert alive(mark) == []
    assert not psutil.pid_exists(process.id.pid)


@pytest.mark.skipif(not sweep.HAS_PROC, reason="elsewhere such a process does not look dead")
async def test_who_has_lost_its_first_thread_is_not_dead(place: Place) -> None:
    script = (
        "import ctypes, threading, time; "
        "threading.Thread(target=time.sleep, args=(300,)).start(); "
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    async with place.run([sys.executable, "-S", "-c", script]) as process:
        await until(lambda: psutil.Process(process.id.pid).status() == psutil.STATUS_ZOMBIE)
    assert not psutil.pid_exists(process.id.pid)
    assert process.exit_code == -signal.SIGTERM


async def test_what_hides_in_every_way_is_not_found(place: Place) -> None:
    # Documented: another session, no parent, no environment. Docker and systemd-run are the same to us.
    mark = token()
    async with place.run(f"(env -i setsid sleep {mark} &); exit 0") as process:
        await process.wait()
        await until(lambda: alive(mark))
        await trio.sleep(0.1)
    (survivor,) = alive(mark)
    os.kill(survivor, signal.SIGKILL)


async def test_a_polite_command_is_asked_once_and_heard_out(place: Place) -> None:
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


async def test_patience_ends(place: Place) -> None:
    mark = token()
    async with place.run(KINDS["ignores TERM"].format(t=mark)):
        await until(lambda: len(alive(mark)) == 2)
        start = trio.current_time()
    assert process_groups.PATIENCE <= trio.current_time() - start < 10
    assert alive(mark) == []


@pytest.mark.parametrize("when", ["before", "meanwhile"])
async def test_there_is_no_patience_while_the_gateway_is_ending(
    place: Place, when: str, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    monkeypatch.setattr(process_groups, "PATIENCE", 60.0)
    mark = token()
    async with place.run(KINDS["ignores TERM"].format(t=mark)):
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


async def test_two_hundred_end_together(place: Place) -> None:
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


async def test_what_cannot_be_ended_is_told_and_stays_with_the_guard(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stands for another user's process, or one that hangs in the kernel: signals do nothing.
    for name in ("PATIENCE", "PROOF"):
        monkeypatch.setattr(process_groups, name, 0.2)
    monkeypatch.setattr(sweep.ProcessGroup, "signal", lambda *_: None)
    monkeypatch.setattr(sweep.ProcessGroup, "signal_whole", lambda *_: None)
    mark = token()
    with capture_logs() as logs:
        async with place.run(["sleep", mark]) as process:
            await until(lambda: alive(mark))
    assert [entry["event"] for entry in logs] == ["a process group could not be ended"]
    assert len(place.guard.listed) == 1
    assert not process.is_over
    assert process.exit_code is None
    os.kill(process.id.pid, signal.SIGKILL)
    await process._child.wait()


async def test_a_shield_ends_even_if_nothing_does(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PATIENCE", "PROOF", "LAST_WORDS"):
        monkeypatch.setattr(process_groups, name, 0.1)
    mark = token()
    with trio.fail_after(10), capture_logs():
        async with trio.open_nursery() as watchers:
            with trio.CancelScope() as scope:
                async with place.run(KINDS["ignores TERM"].format(t=mark)) as process:
                    await until(lambda: len(alive(mark)) == 2)
                    # Nobody waits for output that cannot come.
                    watchers.start_soon(process.output.beyond, 1 << 40)
                    monkeypatch.setattr(process_groups, "end_group", _hang)
                    scope.cancel(reason="test")
                    await trio.lowlevel.checkpoint()
            assert not process.is_over, "nobody looked"
            soon(lambda: not alive(mark))  # but the last resort is not to look
    await process._child.wait()


async def _hang(*_: object) -> None:
    await trio.sleep_forever()


# Cancelled while starting, used again and again: nothing is left.


class CancelAt(trio.abc.Instrument):
    """Cancels a scope at the n-th step of the task that made this."""

    def __init__(self, scope: trio.CancelScope, step: int) -> None:
        self._scope, self._left = scope, step
        self._task = trio.lowlevel.current_task()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel(reason="this step")


async def test_cancelled_at_any_step_leaves_nothing(place: Place) -> None:
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
async def test_two_hundred_runs_leak_nothing(place: Place) -> None:
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
        kept.append(process)  # whoever still knows them holds nothing open
    await until(lambda: held()[1] == 0)
    assert held()[0] <= before[0]
    assert held()[2] <= before[2]


async def test_the_guard_expects_a_command_before_it_is_there(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = []
    start = process_groups._start

    async def watched(*arguments: Any) -> trio.Process:
        listed.append(place.guard.listed)
        return await start(*arguments)

    monkeypatch.setattr(process_groups, "_start", watched)
    async with place.run(["true"]):
        listed.append(place.guard.listed)
    assert len(listed[0]) == 1
    assert listed[0] == listed[1]


# Exit code and output.


async def test_exit_code_and_output(place: Place) -> None:
    async with place.run("echo out; echo err >&2; exit 5") as process:
        assert await process.wait() == 5
        assert sorted(process.output.tail.split()) == [b"err", b"out"]
    assert process.exit_code == 5
    assert sorted(place.spool.read_bytes().split()) == [b"err", b"out"]
    assert place.spool.stat().st_mode & 0o777 == 0o600


async def test_all_output_is_there_when_the_command_is_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = spool.Spool.write

    def slowly(it: spool.Spool, data: bytes) -> None:
        time.sleep(0.02)
        write(it, data)

    monkeypatch.setattr(spool.Spool, "write", slowly)
    async with place.run("head -c 300000 /dev/zero") as process:
        await process.wait()
        assert process.output.total == place.spool.stat().st_size == 300_000


async def test_a_list_is_not_for_the_shell(place: Place) -> None:
    async with place.run(["printf", "%s|", "$HOME", "a b", "'"]) as process:
        await process.wait()
    assert process.output.tail == b"$HOME|a b|'|"


async def test_directory_and_environment_are_what_was_given(place: Place) -> None:
    work = place.directory.resolve() / "work"
    work.mkdir()
    env = {"PATH": os.environ["PATH"], "ONLY": "this"}
    async with place.run("pwd -P; env", cwd=work, env=env) as process:
        await process.wait()
    lines = process.output.tail.decode().splitlines()
    assert lines[0] == str(work)
    names = {line.partition("=")[0] for line in lines[1:]} - {"PWD", "OLDPWD", "SHLVL", "_"}
    assert names == {"PATH", "ONLY", "HERMES_TRIO_GROUP"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
async def test_a_signal_that_ended_it_is_its_exit_code(place: Place, number: signal.Signals) -> None:
    async with place.run(f"ulimit -c 0; kill -{number.value} $$") as process:
        assert await process.wait() == -number
    assert process.exit_code == -number


async def test_ended_by_us_is_its_exit_code_too(place: Place) -> None:
    async with place.run(["sleep", token()]) as process:
        pass
    assert process.exit_code == -signal.SIGTERM


async def test_it_reads_nothing_unless_it_is_talked_to(place: Place) -> None:
    async with place.run(["cat"]) as process:
        assert process.stdin is None
        assert await process.wait() == 0
    async with place.run(["cat"], talk=True) as process:
        assert process.stdin is not None
        await process.stdin.send_all(b"hello")
        await process.output.beyond(4)
        await process.stdin.aclose()
        assert await process.wait() == 0
    assert process.output.tail == b"hello"


async def test_its_identity_is_the_one_that_others_find(place: Place) -> None:
    async with place.run(["sleep", token()]) as process:
        assert find(process.id.pid) == process.id
    async with place.run(["true"]) as process:
        await process.wait()
        assert process.id.started > 0, "known although it had ended by then"


async def test_who_inherited_the_output_does_not_hold_up_the_wait(place: Place) -> None:
    async with place.run(f"sleep {token()} & echo done") as process:
        with trio.fail_after(10):
            assert await process.wait() == 0
        assert process.output.tail == b"done\n"
        assert not process.output.ended


async def test_the_last_words_of_one_who_is_asked_to_end_are_read(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = (
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(os.write(1, b'x' * 60_000) - 60_000))\n"
        "os.write(1, b'ready')\n"
        "while True: signal.pause()\n"
    )

    async def end_without_a_pause(*_: object) -> bool:
        os.kill(process.id.pid, signal.SIGTERM)
        soon(lambda: not find(process.id.pid))
        return True

    async with place.run([sys.executable, "-S", "-c", script]) as process:
        await process.output.beyond(0)
        monkeypatch.setattr(process_groups, "end_group", end_without_a_pause)
    assert process.output.total == len("ready") + 60_000
    assert place.spool.stat().st_size == process.output.total


async def test_a_flood_bounds_memory_and_disk(place: Place) -> None:
    ours = psutil.Process()
    async with place.run(["yes", "x" * 99]) as process:
        await process.output.beyond(spool.LIMIT)
        before = peak = ours.memory_info().rss
        with trio.move_on_after(5):
            while process.output.total < 20 * spool.LIMIT:
                await process.output.beyond(process.output.total + spool.LIMIT)
                peak = max(peak, ours.memory_info().rss)
                assert place.spool.stat().st_size <= spool.LIMIT + spool.CHUNK
    grown = (peak - before) >> 10
    print(f"{process.output.total >> 20} MB of flood, {grown} KB more memory")
    assert process.output.total > 3 * spool.LIMIT
    assert grown < 16 << 10
    assert len(process.output.tail) == spool.TAIL


async def test_the_spool_keeps_beginning_and_end(place: Place) -> None:
    async with place.run(["seq", "4000000"]) as process:
        await process.wait()
    kept = place.spool.read_bytes()
    head, note, end = kept[: spool.HEAD], *kept[spool.HEAD + 1 :].split(b"\n", 1)
    assert head.startswith(b"1\n2\n3\n")
    assert end.endswith(b"3999999\n4000000\n")
    assert len(kept) <= spool.LIMIT
    left_out = int(note.split()[1])
    assert len(head) + left_out + len(end) == process.output.total
    whole = b"".join(b"%d\n" % number for number in range(1, 4_000_001))
    assert whole.startswith(head)
    assert whole.endswith(end)
    assert process.output.tail == whole[-spool.TAIL :]


async def test_one_line_without_an_end(place: Place) -> None:
    async with place.run("head -c 8000000 /dev/zero") as process:
        assert await process.wait() == 0
    assert process.output.total == 8_000_000
    assert place.spool.read_bytes() == bytes(8_000_000)


async def test_any_bytes_pass(place: Place) -> None:
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"
    async with place.run([sys.executable, "-S", "-c", script]) as process:
        await process.wait()
    assert place.spool.read_bytes() == bytes(range(256)) * 1000


async def test_watchers_are_woken_and_told_when_no_more_comes(place: Place) -> None:
    async with place.run("echo one; sleep 0.05; echo two") as process:
        seen, position = [], 0
        with trio.fail_after(10):
            while (total := await process.output.beyond(position)) > position:
                seen.append(process.output.since(position))
                position = total
        assert b"".join(seen) == b"one\ntwo\n"
        assert process.output.since(4) == b"two\n"
        assert process.output.since(8) == b""


async def test_a_full_disk_ends_the_spool_and_not_the_command(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: spool.Spool, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(spool.Spool, "_put", full)
    with capture_logs() as logs:
        async with place.run("seq 100000; exit 4") as process:
            assert await process.wait() == 4
    assert process.output.tail.endswith(b"99999\n100000\n")
    assert [entry["event"] for entry in logs] == ["output of a process is no longer stored"]


# Commands that cannot be started.


async def refused(place: Place, command: Command, **how: object) -> ProcessUnstartable:
    with pytest.raises(ProcessUnstartable) as caught:
        async with place.run(command, **how):
            raise AssertionError("it does not start")
    assert isinstance(caught.value, GatewayError)
    assert place.guard.listed == ()
    await until(lambda: not place.spool.is_file())
    return caught.value


async def test_no_such_command(place: Place) -> None:
    error = await refused(place, ["no-such-command", "--token=secret"])
    assert type(error) is CommandNotFound
    assert "no-such-command" in str(error)
    assert "Install it" in str(error)
    assert "secret" not in str(error)


async def test_a_script_without_its_interpreter(place: Place) -> None:
    script = place.directory / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o700)
    assert type(await refused(place, [str(script)])) is CommandNotFound


async def test_no_such_directory(place: Place) -> None:
    gone, file = place.directory / "gone", place.directory / "file"
    file.touch()
    for where in (gone, file):
        error = await refused(place, ["true"], cwd=where)
        assert type(error) is DirectoryUnusable
        assert str(where) in str(error)
        assert type(await refused(place, "true", cwd=where)) is DirectoryUnusable


@pytest.mark.parametrize("mode", [0o600, 0o700])
async def test_not_executable(place: Place, mode: int) -> None:
    file = place.directory / "file"
    file.write_bytes(b"\x00 not a program")
    file.chmod(mode)
    error = await refused(place, [str(file)])
    assert type(error) is NotExecutable
    assert "chmod" in str(error)


async def test_a_character_that_no_command_can_have(place: Place) -> None:
    assert type(await refused(place, ["echo", "a\0b"])) is ProcessUnstartable


async def test_arguments_beyond_every_limit(place: Place) -> None:
    error = await refused(place, ["echo", "x" * (64 << 20)])
    assert type(error) is ProcessUnstartable
    assert len(str(error)) < 300


async def test_a_spool_that_cannot_be(place: Place) -> None:
    (place.directory / "spools").touch()
    error = await refused(place, ["true"])
    assert type(error) is SpoolUnwritable


async def test_an_id_that_is_none(place: Place) -> None:
    with pytest.raises(InvalidId):
        async with running(
            "two words", ["true"], cwd=place.directory, env={}, spool=place.spool,
            guard=place.guard, ending=place.ending,
        ):  # fmt: skip
            pass


# Systems other than Linux.


async def test_without_proc_psutil_looks(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "HAS_PROC", False)
    monkeypatch.setattr(process_groups, "PATIENCE", 0.5)
    for kind in ("a tree", "sets its session and orphans", "ignores TERM"):
        mark = token()
        async with place.run({**KINDS, **MORE}[kind].format(t=mark)):
            await until(partial(alive, mark))
            await trio.sleep(0.1)
        assert alive(mark) == []


async def test_without_process_groups_the_tree_is_ended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "HAS_PROC", False)
    monkeypatch.setattr(sweep, "HAS_GROUPS", False)
    monkeypatch.setattr(os, "killpg", None)
    monkeypatch.setattr(sweep, "KILL", sweep.TERM)
    mark = token()
    async with place.run(KINDS["a tree"].format(t=mark)):
        await until(lambda: len(alive(mark)) > 3)
    assert alive(mark) == []


async def test_without_peeking_the_command_is_reaped(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_groups, "CAN_PEEK", False)
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    mark = token()
    async with place.run(MORE["ends before its children"].format(t=mark)) as process:
        assert await process.wait() == 3
        await until(lambda: len(alive(mark)) == 2)
    assert alive(mark) == []
    assert process.exit_code == 3


async def test_a_command_whose_birth_cannot_be_seen(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # The last descriptor went to the command itself.
    def scarce(pid: int) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    mark = token()
    with monkeypatch.context() as scarcity:
        scarcity.setattr(sweep, "_read_stat" if sweep.HAS_PROC else "look", scarce)
        opened = place.run(["sleep", mark])
        process = await opened.__aenter__()
    assert process.id.started == 0
    await opened.__aexit__(None, None, None)
    assert alive(mark) == []
    assert process.is_over


async def test_no_descriptor_is_left_when_it_has_to_end(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = token()
    place.ending.set()
    with capture_logs():
        async with place.run(["sleep", mark]) as process:
            await until(lambda: alive(mark))
            monkeypatch.setattr(sweep, "look", _out_of_descriptors)
            start = trio.current_time()
    assert trio.current_time() - start < 10
    assert not process.is_over, "nobody could look"
    assert process.exit_code == -signal.SIGKILL, "it was killed blindly, and reaped"
    assert not alive(mark)


def _out_of_descriptors() -> sweep.ProcessTable:
    raise OSError(errno.EMFILE, "Too many open files")


async def test_somebody_else_reaps_our_child(place: Place) -> None:
    async with place.run("exit 3") as process:
        os.waitpid(process.id.pid, 0)  # noqa: ASYNC222 - it ends at once
        assert await process.wait() is None


# Who is a member: on tables made by hand.


def seen(
    pid: int, parent: int = 1, session: int = 0, born: str = "5", marker: str | None = None
) -> sweep.SeenProcess:
    return sweep.SeenProcess(pid, parent, session, session, born, True, marker)


def found(group: sweep.ProcessGroup, *rows: sweep.SeenProcess) -> set[int]:
    return {one.pid for one in group.living(sweep.ProcessTable(rows))}


def test_members_are_of_the_session_marked_or_children_of_members() -> None:
    group = sweep.ProcessGroup("mine", 100, "5")
    rows = [
        seen(100, session=100),
        seen(101, 100, 100),
        seen(200, 1, 200, marker="mine"),
        seen(201, 200, 201),
        seen(300, 1, 300, marker="mine too"),
        seen(301, 300, 300),
    ]
    assert found(group, *rows) == {100, 101, 200, 201}


def test_a_number_that_is_somebody_elses_by_now_is_left_alone() -> None:
    stranger = [seen(100, session=100, born="6"), seen(101, 100, 100, born="7")]
    assert found(sweep.ProcessGroup("mine", 100, "5"), *stranger) == set()
    assert found(sweep.ProcessGroup("mine", 100, "6"), *stranger) == {100, 101}


def test_a_number_whose_birth_could_not_be_seen_is_that_of_our_child() -> None:
    # A command that has only just begun shows no marker yet.
    group = sweep.ProcessGroup("mine", 100, "")
    assert found(group, seen(os.getpid()), seen(100, os.getpid(), 100), seen(101, 100, 100)) == {100, 101}
    assert found(sweep.ProcessGroup("mine", 100, ""), seen(100, 1, 100)) == set()


def test_a_session_without_its_leader_is_still_ours() -> None:
    assert found(sweep.ProcessGroup("mine", 100, "5"), seen(101, 1, 100, born="7")) == {101}


def test_a_member_is_known_again_but_not_its_number() -> None:
    group = sweep.ProcessGroup("mine", 100, "5")
    assert found(group, seen(100, session=100), seen(101, 100, 101)) == {100, 101}
    assert found(group, seen(101, 1, 101)) == {101}
    assert found(group, seen(101, 1, 101, born="8")) == set()


def test_only_the_marker_is_known() -> None:
    assert found(sweep.ProcessGroup("mine"), seen(7, session=0), seen(8, session=8, marker="mine")) == {8}


def test_a_gateway_below_the_group_ends_neither_itself_nor_who_waits_for_it() -> None:
    us = os.getpid()
    rows = [
        seen(100, session=100, marker="mine"),
        seen(us, 100, 100, marker="mine"),
        seen(102, us, 100, marker="mine"),
        seen(103, 100, 100, marker="mine"),
    ]
    assert found(sweep.ProcessGroup("mine", 100, "5"), *rows) == {102, 103}


def test_the_two_ways_to_look_see_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    if not sweep.HAS_PROC:
        pytest.skip("there is only one here")
    child = subprocess.Popen(["sleep", token()], env={"HERMES_TRIO_GROUP": "x", "PATH": os.environ["PATH"]})
    try:
        soon(lambda: sweep.look().by_pid[child.pid].marker)
        by_proc = sweep.look().by_pid[child.pid]
        assert sweep.born(child.pid) == by_proc.born
        monkeypatch.setattr(sweep, "HAS_PROC", False)
        by_psutil = sweep.look().by_pid[child.pid]
        assert sweep.born(child.pid) == by_psutil.born
        for name in ("pid", "parent", "group", "session", "alive", "marker"):
            assert getattr(by_proc, name) == getattr(by_psutil, name), name
        assert by_psutil.marker == "x"
    finally:
        child.kill()
        child.wait()


def test_a_member_is_found_where_its_session_has_no_number() -> None:
    """As in a container, for what was started from outside of it."""
    inside = ["unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("no namespace of one's own to be had here")
    look = (
        "from hermes_trio.host.processes import sweep; me = sweep.look().by_pid[1]; "
        "print(me.session, me.marker)"
    )
    env = {**os.environ, "HERMES_TRIO_GROUP": "x"}
    seen = subprocess.run([*inside, sys.executable, "-c", look], env=env, capture_output=True, check=True)
    assert seen.stdout == b"0 x\n"


def test_any_name_of_a_program_can_be_read(tmp_path: Path) -> None:
    odd = tmp_path / "a) S 1 (b\n"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(odd), token()])
    try:
        start = time.monotonic()
        one = sweep.look().by_pid[child.pid]
        assert (one.parent, one.alive) == (os.getpid(), True)
        assert time.monotonic() - start < 10
    finally:
        child.kill()
        child.wait()
    assert sweep.born(child.pid) is None
