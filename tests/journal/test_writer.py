"""Writing run journals: lines, seqs, permissions and durability."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from hermes_trio.base.errors import JournalClosed, JournalUnwritable
from hermes_trio.base.events import Event, MessageDelta, RunCancelled, RunCompleted, RunFailed, ToolStarted
from hermes_trio.base.world import World
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.journal.reader import read_run
from hermes_trio.journal.writer import FsyncPolicy, Journals, append_run_event, open_journals
from tests.journal.seams import CUT, JournalFile, StartChild
from tests.logs import capture_logs

if TYPE_CHECKING:
    from tests.conftest import Calendar


async def test_a_journal_line_is_compact_json_with_its_keys_in_order(
    journals: Journals, file: JournalFile, calendar: Calendar
) -> None:
    with await journals.open_run("s1", "run-1") as run:
        await run.append(MessageDelta('Grüße, "Kim"\n\u2028世界 🌍'))
    assert file.content.decode() == (
        '{"version":1,"event_id":"run-1:1","seq":1,"run_id":"run-1","session_id":"s1",'
        '"event":"message.delta","type":"message.delta",'
        f'"created_at":{calendar.time},"terminal":false,"terminal_state":null,'
        '"payload":{"delta":"Grüße, \\"Kim\\"\\n\u2028世界 🌍"}}\n'
    )


@pytest.mark.parametrize(
    ("last", "state"),
    [
        (MessageDelta("on"), None),
        (RunCompleted("All done."), "completed"),
        (RunCancelled(), "cancelled"),
        (RunFailed("The model is gone."), "failed"),
        (CUT, "cut"),
        (("run.completed", None), "completed"),
        (("run.failed", {"error": "no"}), "failed"),
        (("run.failed", {"error": "no", "code": "interrupted"}), "cut"),
        (("run.something_new", {"code": "interrupted"}), None),
    ],
)
async def test_the_last_line_states_how_the_run_ended(
    journals: Journals, file: JournalFile, last: Event | tuple[str, Any], state: str | None
) -> None:
    with await journals.open_run("s1", "run-1") as run:
        [record] = await run.append(last)
    written = json.loads(file.content)
    assert (written["terminal"], written["terminal_state"]) == (state is not None, state)
    assert (record.terminal, record.terminal_state) == (state is not None, state)


async def test_seqs_count_from_one_without_gaps_also_after_reopening(journals: Journals, root: Path) -> None:
    with await journals.open_run("s1", "run-1") as run:
        assert run.last_seq == 0
        assert await run.append() == []
        await run.append(MessageDelta("a"))
        await run.append(MessageDelta("b"), MessageDelta("c"))
    with await journals.open_run("s1", "run-1") as again:
        assert again.last_seq == 3
        [record] = await again.append(MessageDelta("d"))
        assert (record.seq, record.event_id) == (4, "run-1:4")
    with await journals.open_run("s1", "run-2") as other:
        [record] = await other.append(MessageDelta("another run counts for itself"))
        assert record.event_id == "run-2:1"
    reading = read_run(root, "s1", "run-1")
    assert [(record.seq, record.payload["delta"]) for record in reading.records] == [
        (1, "a"),
        (2, "b"),
        (3, "c"),
        (4, "d"),
    ]
    assert reading.complete


async def test_concurrent_appends_are_written_in_order_of_seq(
    root: Path, file: JournalFile, world: World
) -> None:
    """Regression: lines in the wrong order made a session impossible to replay."""
    async with open_journals(root, world) as journals:
        with await journals.open_run("s1", "run-1") as run:

            async def speak(name: str) -> None:
                for number in range(20):
                    [first, second] = await run.append(MessageDelta(f"{name} {number}"), MessageDelta("and"))
                    assert second.seq == first.seq + 1, "events appended together stay together"

            async with trio.open_nursery() as nursery:
                for name in "abcdefgh":
                    nursery.start_soon(speak, name)
    assert [json.loads(line)["seq"] for line in file.content.splitlines()] == list(range(1, 321))


@pytest.fixture(params=[0, 0o777, 0o022], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


async def test_journal_files_are_private_whatever_the_umask(root: Path, world: World, umask: int) -> None:
    async with open_journals(root, world, worker=inline_worker) as journals:
        with await journals.open_run("s1", "run-1") as run:
            await run.append(MessageDelta("a secret"))
    for directory in (root.parent, root, root / "s1"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700, directory.name
    assert stat.S_IMODE((root / "s1" / "run-1.jsonl").stat().st_mode) == 0o600


async def test_a_readable_journal_is_made_private_when_opened(journals: Journals, file: JournalFile) -> None:
    file.becomes(b"", mode=0o644)
    with await journals.open_run("s1", "run-1"):
        assert file.mode == 0o600


def _writes() -> int:
    """Return the number of writes that the kernel has counted for this thread."""
    counts = dict(row.split(": ") for row in Path("/proc/thread-self/io").read_text().splitlines())
    return int(counts["syscw"])


@pytest.mark.skipif(not Path("/proc/thread-self/io").exists(), reason="this kernel does not count writes")
async def test_events_appended_together_are_one_write(journals: Journals) -> None:
    with await journals.open_run("s1", "run-1") as run:
        before = _writes()
        await run.append(*[MessageDelta("x" * 1000)] * 50)
        assert _writes() - before == 1
        await run.append(MessageDelta("y"))
        assert _writes() - before == 2


SHOWS_EVERYTHING = """
import itertools, sys, trio
from pathlib import Path
from hermes_trio.base.events import MessageDelta
from hermes_trio.journal.writer import FsyncPolicy, open_journals
from hermes_trio.base.world import World

async def main(root):
    async with open_journals(Path(root), World()) as journals:
        with await journals.open_run("s1", "run-1") as run:
            for number in itertools.count():
                [record] = await run.append(MessageDelta(f"{number}" + "x" * 2000))
                print(record.seq)

trio.run(main, sys.argv[1])
"""


async def test_a_killed_writer_loses_no_appended_event_and_leaves_no_lock(
    root: Path, journals: Journals, start_child: StartChild
) -> None:
    shown = 0
    for _ in range(3):
        child = start_child(SHOWS_EVERYTHING, root)
        assert child.stdout is not None
        for _ in range(40):
            shown = int(child.stdout.readline())
        child.kill()
        shown = max([shown, *map(int, child.stdout.read().split())])
        child.wait()
        reading = read_run(root, "s1", "run-1")
        assert reading.complete
        assert reading.last_seq >= shown
    assert shown >= 120, "each life continued after the previous one was killed"
    with await journals.open_run("s1", "run-1") as run:
        assert run.last_seq >= shown


async def test_appended_records_are_visible_to_other_readers(journals: Journals, root: Path) -> None:
    with await journals.open_run("s1", "run-1") as run:
        for number in range(1, 6):
            written = await run.append(MessageDelta(f"piece {number}"), ToolStarted("terminal", "call-1"))
            seen = read_run(root, "s1", "run-1")
            assert [record.event_id for record in seen.records[-2:]] == [rec.event_id for rec in written]
            assert seen.last_seq == 2 * number


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
@pytest.mark.parametrize(
    ("policy", "last", "synced"),
    [
        ("terminal-only", MessageDelta("a"), False),
        ("terminal-only", RunCompleted(), True),
        ("terminal-only", RunCancelled(), True),
        ("terminal-only", RunFailed("no"), True),
        ("terminal-only", CUT, False),
        ("eager", MessageDelta("a"), True),
        ("eager", CUT, True),
    ],
)
async def test_a_terminal_record_is_fsynced_and_that_of_a_cut_run_is_not(
    root: Path, file: JournalFile, world: World, policy: FsyncPolicy, last: Event, synced: bool
) -> None:
    """The run file is a pipe: it accepts lines but cannot be fsynced, so every fsync causes an error."""
    file.path.parent.mkdir(parents=True)
    os.mkfifo(file.path, 0o600)
    reading = os.open(file.path, os.O_RDWR)
    try:
        with capture_logs() as logs:
            async with open_journals(root, world, fsync=policy, worker=inline_worker) as journals:
                with await journals.open_run("s1", "run-1") as run:
                    if synced:
                        with pytest.raises(JournalUnwritable):
                            await run.append(MessageDelta("before"), last)
                    else:
                        await run.append(MessageDelta("before"), last)
        lines = os.read(reading, 1 << 16).splitlines()
    finally:
        os.close(reading)
    assert [json.loads(line)["event"] for line in lines] == ["message.delta", last.event], "written first"
    assert len(logs) == synced, "a failed fsync is repeated when the run is closed"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
async def test_of_runs_that_end_together_only_the_one_that_cannot_be_synced_fails(
    root: Path, file: JournalFile, world: World
) -> None:
    """The file of run-1 is a pipe, as above."""
    file.path.parent.mkdir(parents=True)
    os.mkfifo(file.path, 0o600)
    failed: list[str] = []

    async def end(run_id: str) -> None:
        try:
            await append_run_event(journals, "s1", run_id, "run.completed")
        except JournalUnwritable:
            failed.append(run_id)

    reading = os.open(file.path, os.O_RDWR)
    try:
        async with open_journals(root, world) as journals, trio.open_nursery() as nursery:
            for run_id in ("run-1", "run-2", "run-3"):
                nursery.start_soon(end, run_id)
    finally:
        os.close(reading)
    assert failed == ["run-1"]
    assert all(read_run(root, "s1", run_id).terminal for run_id in ("run-2", "run-3"))


async def test_no_event_can_follow_a_terminal_one(journals: Journals, root: Path) -> None:
    """Not in the same block, not in the same batch, and not after reopening."""
    with await journals.open_run("s1", "run-1") as run:
        with pytest.raises(JournalClosed, match="after the end"):
            await run.append(MessageDelta("a"), RunCompleted("a"), MessageDelta("b"))
        assert run.last_seq == 0, "a batch is accepted completely or not at all"
        await run.append(MessageDelta("a"), RunCompleted("a"))
        for late in (MessageDelta("b"), RunCompleted("a"), CUT):
            with pytest.raises(JournalClosed, match="after the end"):
                await run.append(late)
    with pytest.raises(JournalClosed, match="after the end"):
        await append_run_event(journals, "s1", "run-1", "message.delta", {"delta": "b"})
    assert [record.event for record in read_run(root, "s1", "run-1").records] == [
        "message.delta",
        "run.completed",
    ]


async def test_a_writer_raises_after_its_block(journals: Journals, root: Path) -> None:
    with await journals.open_run("s1", "run-1") as run:
        pass
    with pytest.raises(JournalClosed, match="after its block"):
        await run.append(MessageDelta("late"))
    assert read_run(root, "s1", "run-1").size == 0


async def test_append_run_event_appends_to_a_run_without_a_writer(journals: Journals, root: Path) -> None:
    first = await append_run_event(journals, "s1", "run-1", "message.delta", {"delta": "a"})
    last = await append_run_event(journals, "s1", "run-1", "run.cancelled")
    assert (first.seq, last.seq, last.payload) == (1, 2, {})
    assert read_run(root, "s1", "run-1").terminal == last


async def test_deleting_a_session_deletes_all_its_journals_and_no_others(
    journals: Journals, root: Path
) -> None:
    for session_id, run_id in (("s1", "run-1"), ("s1", "run-2"), ("s10", "run-3")):
        await append_run_event(journals, session_id, run_id, "message.delta", {"delta": "a"})
    await journals.delete_session("s1")
    await journals.delete_session("s1")
    assert sorted(os.listdir(root)) == ["s10"]
    assert os.listdir(root / "s10") == ["run-3.jsonl"]
