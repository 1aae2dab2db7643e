"""Run journals of any size, read in little memory, and read by other processes while they are written."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import trio

from hermes_trio.base.events import MessageDelta, RunCompleted
from hermes_trio.base.world import World
from hermes_trio.journal.reader import Damage, scan
from hermes_trio.journal.record import LONGEST_LINE
from hermes_trio.journal.writer import open_journals
from tests.journal.seams import JournalFile, StartChild, line


def peak_of_reading(path: Path) -> tuple[int, int, int]:
    """Scan a file; return the numbers of records and damages, and the peak memory."""
    records = damages = 0
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            for found in scan(file, "s1", "run-1"):
                if isinstance(found, Damage):
                    damages += 1
                else:
                    records += 1
        return records, damages, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_journal_of_a_hundred_megabytes_is_read_in_the_memory_of_a_line(file: JournalFile) -> None:
    block = line(1, "x" * 20_000)
    file.becomes(b"")
    with file.path.open("wb") as out:
        for _ in range(100):
            out.write(block * 50)
    records, damages, peak = peak_of_reading(file.path)
    assert (records, damages) == (5000, 0)
    assert peak < 4_000_000


def test_a_line_of_a_hundred_megabytes_is_one_damage(file: JournalFile) -> None:
    """A disk that was filled with zeros by a crash."""
    file.becomes(line(1, "a"))
    with file.path.open("r+b") as out:
        out.truncate(100_000_000)
    records, damages, peak = peak_of_reading(file.path)
    assert (records, damages) == (1, 1)
    assert peak < 6 * LONGEST_LINE


WATCHES_A_RUN = """
import sys
from pathlib import Path
from hermes_trio.journal.reader import read_run

seen = looks = 0
while True:
    reading = read_run(Path(sys.argv[1]), "s1", "run-1")
    assert not reading.damage, reading.damage
    assert [record.seq for record in reading.records] == list(range(1, reading.last_seq + 1))
    assert reading.last_seq >= seen
    if not seen:
        print("watching")
    seen, looks = reading.last_seq, looks + 1
    if reading.terminal is not None:
        break
print(seen, looks)
"""


async def test_another_process_can_read_a_journal_while_it_is_written(
    root: Path, world: World, start_child: StartChild
) -> None:
    async with open_journals(root, world) as journals:
        with await journals.open_run("s1", "run-1") as run:
            await run.append(MessageDelta("a"))
            watcher = start_child(WATCHES_A_RUN, root)
            assert watcher.stdout is not None
            assert watcher.stdout.readline() == "watching\n"
            for number in range(300):
                await run.append(MessageDelta(f"{number} ö" * 300), MessageDelta("b"))
                await trio.lowlevel.checkpoint()
            await run.append(RunCompleted("a"))
            answer = await trio.to_thread.run_sync(watcher.stdout.read)
            seen, looks = map(int, answer.splitlines()[-1].split())
    assert seen == run.last_seq == 602
    assert looks > 1, "it has read before the last event was written"
    assert watcher.wait() == 0
