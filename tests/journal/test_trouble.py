"""Writing run journals after a crash, on a slow or hanging disk, and with cancelled writers."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from hermes_trio.base.errors import JournalBusy, JournalClosed, JournalUnwritable
from hermes_trio.base.events import MessageDelta, RunCancelled, RunCompleted
from hermes_trio.base.world import World
from hermes_trio.journal.reader import read_run
from hermes_trio.journal.writer import Journals, append_run_event, open_journals
from tests.disk import Disk
from tests.journal.seams import CUT, JournalFile, line, texts
from tests.logs import capture_logs

# --- torn ends after a crash --------------------------------------------------------------------------


def torn_ends() -> dict[str, bytes]:
    whole = line(3, "wörld")
    return {
        "one byte": whole[:1],
        "half a line": whole[: len(whole) // 2],
        "half a character": whole[: whole.index("ö".encode()) + 1],
        "all but the last brace": whole[:-2],
        "zeros": b"\0" * 4096,
        "half a line, then zeros": whole[:50] + b"\0" * 300,
    }


@pytest.mark.parametrize(
    "torn",
    [
        "one byte",
        "half a line",
        "half a character",
        "all but the last brace",
        "zeros",
        "half a line, then zeros",
    ],
)
async def test_a_torn_last_line_is_cut_off_and_the_next_event_is_complete(
    journals: Journals, root: Path, file: JournalFile, torn: str
) -> None:
    """Regression: it was joined with the next event, and both were lost."""
    whole, rest = line(1, "a") + line(2, "b"), torn_ends()[torn]
    file.becomes(whole + rest)
    with capture_logs() as logs:
        await append_run_event(journals, "s1", "run-1", "message.delta", {"delta": "c"})
    assert [(log["log_level"], log["run"], log["offset"], log["bytes"]) for log in logs] == [
        ("warning", "run-1", len(whole), len(rest))
    ]
    reading = read_run(root, "s1", "run-1")
    assert (texts(reading), reading.last_seq, reading.complete) == (["a", "b", "c"], 3, True)
    assert file.content.startswith(whole)


async def test_a_last_line_without_its_newline_gets_one(
    journals: Journals, root: Path, file: JournalFile
) -> None:
    file.becomes((line(1, "a") + line(2, "b")).removesuffix(b"\n"))
    with capture_logs() as logs:
        await append_run_event(journals, "s1", "run-1", "message.delta", {"delta": "c"})
    assert logs == []
    assert len(file.content.splitlines()) == 3
    assert (texts(read_run(root, "s1", "run-1"))) == ["a", "b", "c"]


@pytest.mark.parametrize("end", [b"  \t", b'{"version":1,"event_id":"run-1:3","se'])
async def test_a_new_line_begins_on_its_own_after_any_torn_end(
    journals: Journals, root: Path, file: JournalFile, end: bytes
) -> None:
    """Also if the newline before the torn part was lost."""
    file.becomes(line(1, "a") + line(2, "b").removesuffix(b"\n") + end)
    await append_run_event(journals, "s1", "run-1", "message.delta", {"delta": "c"})
    assert file.content.splitlines()[-1].startswith(b'{"version":1,"event_id":"run-1:3"')
    assert texts(read_run(root, "s1", "run-1")) == ["a", "b", "c"]


async def test_a_damaged_line_is_kept_and_its_seq_not_reused(
    journals: Journals, root: Path, file: JournalFile
) -> None:
    """Somebody may have seen that event: another one must not get its id."""
    damaged = line(3, "c").replace(b'"seq":3', b'"seq"#3')
    file.becomes(line(1, "a") + line(2, "b") + damaged)
    record = await append_run_event(journals, "s1", "run-1", "message.delta", {"delta": "d"})
    assert record.seq == 4
    assert damaged in file.content
    reading = read_run(root, "s1", "run-1")
    assert (texts(reading), len(reading.damage)) == (["a", "b", "d"], 1)


# --- cancelled writers and hanging disks --------------------------------------------------------------


async def test_events_of_a_cancelled_writer_are_written(root: Path, world: World) -> None:
    async with open_journals(root, world) as journals:
        with await journals.open_run("s1", "run-1") as run:
            with trio.CancelScope() as scope:
                scope.cancel()
                await run.append(MessageDelta("its last words"), RunCancelled())
            assert scope.cancelled_caught
            assert run.last_seq == 2
    assert [record.event for record in read_run(root, "s1", "run-1").records] == [
        "message.delta",
        "run.cancelled",
    ]


async def test_a_cancelled_append_on_a_hanging_disk_leaves_at_once(
    root: Path, world: World, disk: Disk, autojump_clock: trio.testing.MockClock
) -> None:
    async with open_journals(root, world, worker=disk.worker) as journals:
        with await journals.open_run("s1", "run-1") as run:
            disk.hangs = True
            for text in ("a", "b"):
                began = trio.current_time()
                with trio.move_on_after(1) as scope:
                    await run.append(MessageDelta(text))
                assert scope.cancelled_caught
                assert trio.current_time() == began + 1
            disk.recovers()
            [record] = await run.append(MessageDelta("c"))
            assert record.seq == 3
    assert texts(read_run(root, "s1", "run-1")) == ["a", "b", "c"]


async def test_append_nowait_does_not_wait_and_its_event_is_in_the_file_after_closing(
    root: Path, world: World, disk: Disk, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        async with open_journals(root, world, worker=disk.worker) as journals:
            with await journals.open_run("s1", "run-1") as run:
                await run.append(MessageDelta("a"))
                disk.hangs = True
                [record] = run.append_nowait(CUT)
                assert (record.seq, run.ended) == (2, True)
                with pytest.raises(JournalClosed):
                    run.append_nowait(MessageDelta("behind the end"))
            assert trio.current_time() == 0

            async def mend() -> None:
                await trio.sleep(1)
                disk.recovers()

            nursery.start_soon(mend)
        assert trio.current_time() == 1, "closing waits for the event"
    reading = read_run(root, "s1", "run-1")
    assert [record.event for record in reading.records] == ["message.delta", "run.failed"]


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_hanging_disk_delays_no_run_and_closing_by_two_seconds(
    root: Path, world: World, disk: Disk, autojump_clock: trio.testing.MockClock, cancelled: bool
) -> None:
    with capture_logs() as logs, trio.CancelScope() as everything:
        async with open_journals(root, world, worker=disk.worker) as journals:
            with await journals.open_run("s1", "run-1") as run:
                await run.append(MessageDelta("a"))
                disk.hangs = True
                with trio.move_on_after(5):
                    await run.append(MessageDelta("b"))
                left = trio.current_time()
            assert trio.current_time() == left == 5
            if cancelled:
                everything.cancel()
        assert trio.current_time() == left + 2
    assert [log["event"] for log in logs] == ["disk hangs; run journals not closed"]
    disk.recovers()
    assert texts(read_run(root, "s1", "run-1")) == ["a", "b"], "written after the disk has recovered"


async def test_closing_waits_for_a_slow_disk(
    root: Path, world: World, disk: Disk, autojump_clock: trio.testing.MockClock
) -> None:
    async with trio.open_nursery() as nursery:
        async with open_journals(root, world, worker=disk.worker) as journals:
            with await journals.open_run("s1", "run-1") as run:
                disk.hangs = True
                with trio.move_on_after(0):
                    await run.append(MessageDelta("a"), RunCompleted("a"))

            async def in_a_second() -> None:
                await trio.sleep(1)
                disk.recovers()

            nursery.start_soon(in_a_second)
        assert trio.current_time() == 1
    assert read_run(root, "s1", "run-1").terminal is not None


# --- open files ---------------------------------------------------------------------------------------


async def open_nothing(journals: Journals, places: Sequence[tuple[str, str]]) -> None:
    for session_id, run_id in places:
        with pytest.raises(JournalUnwritable):
            await append_run_event(journals, session_id, run_id, "note")


def open_files() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.skipif(sys.platform == "win32", reason="handles are counted differently")
async def test_closing_leaves_no_journal_file_open(root: Path, world: World) -> None:
    (root / "s1" / "directory.jsonl").mkdir(parents=True)
    before = open_files()
    async with open_journals(root, world) as journals:
        for number in range(5):
            await append_run_event(journals, "s1", f"run-{number}", "note")
        with await journals.open_run("s1", "run-1"):
            with pytest.raises(JournalBusy):
                await append_run_event(journals, "s1", "run-1", "note")
            await journals.read("s1", "run-1")
        await open_nothing(journals, [("s1", "directory")])
        with trio.CancelScope() as scope:
            scope.cancel()
            with await journals.open_run("s1", "run-0"):
                pytest.fail("the opening was cancelled")
        with pytest.raises(ZeroDivisionError), await journals.open_run("s1", "run-0") as run:
            await run.append(MessageDelta(str(1 / 0)))
    assert open_files() == before
