"""The output and the exit code of a command."""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
from io import FileIO
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
import trio.testing

from hermes_trio.host.processes import spool, sweep
from hermes_trio.host.processes.guard import Guard
from hermes_trio.host.processes.process_identity import find
from tests.host.children.kinds import soon, token
from tests.host.processes.place import Place
from tests.logs import capture_logs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


class _SlowFile(FileIO):
    """A file on a slow disk."""

    def __init__(self, path: Path) -> None:
        with spool.open_spool_file(path) as made:
            super().__init__(os.dup(made.fileno()), "r+")

    def write(self, data: Any) -> int:
        time.sleep(0.02)
        return super().write(data)


class _FileOnAFullDisk(_SlowFile):
    def write(self, data: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


class _EndsItWithoutACheckpoint(Guard):
    """A guard whose look ends a process and waits for its death before another task can run."""

    pid_to_end = 0

    async def look(self) -> sweep.ProcessTable:
        os.kill(self.pid_to_end, signal.SIGTERM)
        soon(lambda: not find(self.pid_to_end))
        return self.system.look()


async def test_exit_code_and_output_of_a_command(place: Place) -> None:
    async with place.run("echo out; echo err >&2; exit 5") as process:
        assert await process.wait() == 5
        assert sorted(process.output.tail.split()) == [b"err", b"out"]
    assert process.exit_code == 5
    assert sorted(place.spool.read_bytes().split()) == [b"err", b"out"]
    assert place.spool.stat().st_mode & 0o777 == 0o600


async def test_wait_returns_after_all_output_is_stored(
    place: Place,
) -> None:
    async with place.run("head -c 300000 /dev/zero", open_file=_SlowFile) as process:
        await process.wait()
        assert process.output.total == place.spool.stat().st_size == 300_000


async def test_a_command_given_as_a_list_is_not_interpreted_by_a_shell(place: Place) -> None:
    async with place.run(["printf", "%s|", "$HOME", "a b", "'"]) as process:
        await process.wait()
    assert process.output.tail == b"$HOME|a b|'|"


async def test_a_command_gets_exactly_the_given_directory_and_environment(place: Place) -> None:
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
async def test_the_exit_code_of_a_killed_command_is_minus_the_signal(
    place: Place, number: signal.Signals
) -> None:
    async with place.run(f"ulimit -c 0; kill -{number.value} $$") as process:
        assert await process.wait() == -number
    assert process.exit_code == -number


async def test_the_exit_code_of_a_command_that_we_ended_is_minus_term(place: Place) -> None:
    async with place.run(["sleep", token()]) as process:
        pass
    assert process.exit_code == -signal.SIGTERM


async def test_a_command_without_talk_reads_an_empty_stdin(place: Place) -> None:
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


async def test_the_identity_of_a_command_is_the_one_that_find_returns(place: Place) -> None:
    async with place.run(["sleep", token()]) as process:
        assert find(process.id.pid) == process.id
    async with place.run(["true"]) as process:
        await process.wait()
        assert process.id.started > 0, "known although the command had ended"


async def test_a_child_that_inherited_the_output_does_not_delay_wait(place: Place) -> None:
    async with place.run(f"sleep {token()} & echo done") as process:
        with trio.fail_after(10):
            assert await process.wait() == 0
        assert process.output.tail == b"done\n"
        assert not process.output.ended


async def test_the_last_output_of_a_terminated_command_is_read(
    tmp_path: Path,
) -> None:
    script = (
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: os._exit(os.write(1, b'x' * 60_000) - 60_000))\n"
        "os.write(1, b'ready')\n"
        "while True: signal.pause()\n"
    )
    guard = _EndsItWithoutACheckpoint()
    place = Place(tmp_path, guard)
    async with place.run([sys.executable, "-S", "-c", script]) as process:
        guard.pid_to_end = process.id.pid
        await process.output.beyond(0)
    assert process.output.total == len("ready") + 60_000
    assert place.spool.stat().st_size == process.output.total


async def test_a_flood_of_output_stays_bounded_in_memory_and_on_disk(place: Place) -> None:
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


async def test_a_long_spool_keeps_its_beginning_and_its_end(place: Place) -> None:
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


async def test_output_without_a_line_break_is_stored_whole(place: Place) -> None:
    async with place.run("head -c 8000000 /dev/zero") as process:
        assert await process.wait() == 0
    assert process.output.total == 8_000_000
    assert place.spool.read_bytes() == bytes(8_000_000)


async def test_binary_output_is_stored_unchanged(place: Place) -> None:
    script = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)"
    async with place.run([sys.executable, "-S", "-c", script]) as process:
        await process.wait()
    assert place.spool.read_bytes() == bytes(range(256)) * 1000


async def test_a_task_that_follows_the_output_sees_each_part_and_the_end(place: Place) -> None:
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
    place: Place,
) -> None:
    with capture_logs() as logs:
        async with place.run("seq 100000; exit 4", open_file=_FileOnAFullDisk) as process:
            assert await process.wait() == 4
    assert process.output.tail.endswith(b"99999\n100000\n")
    assert [entry["event"] for entry in logs] == ["process output no longer stored"]
