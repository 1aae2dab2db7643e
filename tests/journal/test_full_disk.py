"""A full disk: no line is torn, and unwritten lines are written when there is space."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_trio.journal.reader import Reading, read_run
from tests.journal.seams import texts

FILLS_THE_DISK = """
import os, resource, sys, trio
from pathlib import Path
from hermes_trio.base.errors import JournalUnwritable
from hermes_trio.base.events import MessageDelta, RunCompleted
from hermes_trio.journal.writer import open_journals
from hermes_trio.base.world import World

root, how, when = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
path = root / "s1" / "run-1.jsonl"
filler = root / "filler"

def fill():
    if how == "limit":
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 1000, resource.RLIM_INFINITY))
        return
    with filler.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
        file.truncate(max(0, file.tell() - 3 * 4096))

def make_room():
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    filler.unlink(missing_ok=True)

async def main():
    async with open_journals(root, World()) as journals:
        with await journals.open_run("s1", "run-1") as run:
            await run.append(MessageDelta("a"))
            fill()
            good = path.read_bytes()
            for batch in ([MessageDelta("b" * 50_000), MessageDelta("c")], [MessageDelta("d")]):
                try:
                    await run.append(*batch)
                except JournalUnwritable as error:
                    print(error)
                    assert path.read_bytes() == good, "a torn line was left behind"
            if when == "next":
                make_room()
                await run.append(MessageDelta("e"))
            else:
                try:
                    await run.append(RunCompleted("abcd"))
                except JournalUnwritable as error:
                    print(error)
                make_room()
    print(path.read_text())

trio.run(main)
"""


def run_on_a_full_disk(root: Path, how: str, when: str) -> tuple[list[str], Reading]:
    """Run a writer in a child process whose disk is full for a while; return its errors and its journal."""
    root.mkdir(parents=True)
    command = [sys.executable, "-c", FILLS_THE_DISK, str(root), how, when]
    if how == "mount":
        mount = 'mount -t tmpfs -o size=128k none "$0" && exec "$@"'
        mounted = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, str(root)]
        if shutil.which("unshare") is None or subprocess.run([*mounted, "true"], check=False).returncode:
            pytest.skip("this system does not allow mounting a disk")
        command = [*mounted, *command]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    told = [line for line in output.splitlines() if line.startswith("journal of run run-1: ")]
    path = root / "s1" / "run-1.jsonl"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("".join(f"{line}\n" for line in output.splitlines() if line.startswith("{")))
    return told, read_run(root, "s1", "run-1")


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no limit on the size of a file")
@pytest.mark.parametrize("how", ["limit", "mount"])
def test_a_full_disk_leaves_no_torn_line_and_unwritten_lines_come_first_later(root: Path, how: str) -> None:
    told, reading = run_on_a_full_disk(root, how, "next")
    assert len(told) == 2
    for told_once in told:
        assert "Check the space on the disk" in told_once
        assert how == "limit" or "No space left on device" in told_once
    assert texts(reading) == ["a", "b" * 50_000, "c", "d", "e"]
    assert reading.complete


@pytest.mark.skipif(sys.platform == "win32", reason="this system has no limit on the size of a file")
def test_unwritten_lines_are_retried_when_the_run_is_closed(root: Path) -> None:
    """The end of a run has no later event whose write would include it."""
    told, reading = run_on_a_full_disk(root, "limit", "close")
    assert len(told) == 3
    assert texts(reading) == ["a", "b" * 50_000, "c", "d"]
    assert reading.terminal is not None
    assert reading.complete
