"""Operations that a run journal refuses, with a remedy and without partial effects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import trio

from hermes_trio.base.errors import InvalidId, JournalBusy, JournalClosed, JournalError, JournalUnwritable
from hermes_trio.base.events import MessageDelta, ToolStarted
from hermes_trio.base.world import World
from hermes_trio.journal.reader import read_run, summary
from hermes_trio.journal.record import LONGEST_LINE, journal_path, session_path
from hermes_trio.journal.replay import parse_cursor, replay_session
from hermes_trio.journal.writer import Journals, append_run_event, open_journals
from tests.journal.seams import StartChild


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


NO_EVENTS: dict[str, Any] = {
    "an object": ("note", object()),
    "a text": ("note", "text"),
    "an empty text": ("note", ""),
    "a number": ("note", 5),
    "zero": ("note", 0),
    "false": ("note", False),
    "a list": ("note", ["a", "b"]),
    "an empty list": ("note", []),
    "an object inside": ("note", {"a": object()}),
    "a key that is a pair": ("note", {("a", "b"): 1}),
    "half a character": ("note", {"a": "\ud83d"}),
    "too deep": ("note", {"a": nested(100_000)}),
    "too long": ("note", {"a": "x" * LONGEST_LINE}),
    "a mapping JSON cannot take": ToolStarted("terminal", args=MappingProxyType({"command": "ls"})),
    "no name": ("", {}),
    "a blank name": (" \t", {}),
    "half a character in the name": ("\ud83d", {}),
}


@pytest.mark.parametrize("bad", NO_EVENTS.values(), ids=NO_EVENTS.keys())
async def test_an_invalid_event_is_refused_and_uses_no_seq(journals: Journals, root: Path, bad: Any) -> None:
    with await journals.open_run("s1", "run-1") as run:
        for batch in ([bad], [MessageDelta("good"), bad], [bad, MessageDelta("good")]):
            with pytest.raises(JournalError, match="run-1"):
                await run.append(*batch)
            assert run.last_seq == 0
        await run.append(MessageDelta("good"))
    reading = read_run(root, "s1", "run-1")
    assert [(record.seq, record.payload) for record in reading.records] == [(1, {"delta": "good"})]


async def test_an_event_without_a_payload_gets_an_empty_one(journals: Journals) -> None:
    assert (await append_run_event(journals, "s1", "run-1", "note", None)).payload == {}


async def test_a_line_of_the_maximum_length_is_written_and_read(journals: Journals, root: Path) -> None:
    with await journals.open_run("s1", "run-1") as run:
        [short] = await run.append(("note", {"a": ""}))
        room = LONGEST_LINE - (read_run(root, "s1", "run-1").size - 1)
        with pytest.raises(JournalError, match="bytes"):
            await run.append(("note", {"a": "x" * (room + 1)}))
        await run.append(("note", {"a": "x" * room}))
    reading = read_run(root, "s1", "run-1")
    assert reading.complete
    assert [len(record.payload["a"]) for record in reading.records] == [0, room]
    assert short.seq == 1


async def test_a_second_writer_of_a_run_is_refused(journals: Journals, root: Path) -> None:
    with await journals.open_run("s1", "run-1") as first:
        await first.append(MessageDelta("a"))
        for _ in range(2):
            with pytest.raises(JournalBusy, match="another writer"):
                await journals.open_run("s1", "run-1")
        await first.append(MessageDelta("b"))
        with await journals.open_run("s1", "run-2") as other_run:
            await other_run.append(MessageDelta("c"))
    with await journals.open_run("s1", "run-1") as successor:
        assert successor.last_seq == 2
    assert read_run(root, "s1", "run-1").complete


HOLDS_A_RUN = """
import sys, trio
from pathlib import Path
from hermes_trio.base.events import MessageDelta
from hermes_trio.journal.writer import open_journals
from hermes_trio.base.world import World

async def main(root):
    async with open_journals(Path(root), World()) as journals:
        with await journals.open_run("s1", "run-1") as run:
            await run.append(MessageDelta("a"))
            print("holding")
            await trio.sleep_forever()

trio.run(main, sys.argv[1])
"""


async def test_a_writer_in_another_process_excludes_others_until_it_dies(
    journals: Journals, root: Path, start_child: StartChild
) -> None:
    """Two processes that write one run would use one seq for two events."""
    holder = start_child(HOLDS_A_RUN, root)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "holding\n"
    with pytest.raises(JournalBusy):
        await append_run_event(journals, "s1", "run-1", "message.delta", {"delta": "b"})
    assert [record.seq for record in read_run(root, "s1", "run-1").records] == [1], "reading needs no lock"
    holder.kill()
    holder.wait()
    assert (await append_run_event(journals, "s1", "run-1", "message.delta", {"delta": "b"})).seq == 2


async def test_an_unwritable_journal_raises_with_a_remedy(journals: Journals, root: Path) -> None:
    (root / "s1" / "run-1.jsonl").mkdir(parents=True)
    (root / "s2").touch()
    for session_id in ("s1", "s2"):
        with pytest.raises(JournalUnwritable, match="Check the space") as refused:
            await append_run_event(journals, session_id, "run-1", "note")
        assert isinstance(refused.value.__cause__, OSError)


async def test_deleting_an_undeletable_journal_raises(journals: Journals, root: Path) -> None:
    (root / "s2").mkdir(parents=True)
    (root / "s1").touch()
    with pytest.raises(JournalUnwritable, match="s1"):
        await journals.delete_session("s1")


async def test_journals_raise_after_their_block(root: Path, world: World) -> None:
    """Their threads have ended: a caller would wait for ever."""
    async with open_journals(root, world) as journals:
        pass
    uses: list[Callable[[], Awaitable[object]]] = [
        lambda: journals.read("s1", "run-1"),
        lambda: journals.size("s1", "run-1"),
        lambda: journals.delete_session("s1"),
        lambda: append_run_event(journals, "s1", "run-1", "note"),
    ]
    for use in uses:
        with pytest.raises(JournalClosed, match="bug"), trio.fail_after(5):
            await use()


# --- ids ---------------------------------------------------------------------------------------------

LEAVES_OR_BREAKS = [
    "",
    ".",
    "..",
    "../s1",
    "a/../../b",
    "a..b",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "\\\\server\\share",
    "C:",
    "C:\\s1",
    "C:/s1",
    "s1\0",
    "s1\n",
    " s1 ",
    ".hidden",
    "-rf",
    "s1.",
    "nul",
    "CON",
    "aux.txt",
    "lpt1",
    "s" * 129,
    "sömething",
    "~",
    "*",
]


async def used(journals: Journals, use: Callable[[Journals, str], object], bad: str) -> None:
    result = use(journals, bad)
    if isinstance(result, Awaitable):
        await result


ROOT = Path("journal")
"""It does not exist: an id is refused before anything is looked for."""

BUILDS_A_PATH: dict[str, Callable[[Journals, str], object]] = {
    "journal_path, session": lambda _, bad: journal_path(ROOT, bad, "run-1"),
    "journal_path, run": lambda _, bad: journal_path(ROOT, "s1", bad),
    "session_path": lambda _, bad: session_path(ROOT, bad),
    "read_run, session": lambda _, bad: read_run(ROOT, bad, "run-1"),
    "read_run, run": lambda _, bad: read_run(ROOT, "s1", bad),
    "summary, session": lambda _, bad: summary(ROOT, bad, "run-1"),
    "summary, run": lambda _, bad: summary(ROOT, "s1", bad),
    "replay, session": lambda _, bad: replay_session(ROOT, bad, "run-1:1"),
    "replay without a cursor": lambda _, bad: replay_session(ROOT, bad, None),
    "open_run, session": lambda journals, bad: journals.open_run(bad, "run-1"),
    "open_run, run": lambda journals, bad: journals.open_run("s1", bad),
    "read, session": lambda journals, bad: journals.read(bad, "run-1"),
    "read, run": lambda journals, bad: journals.read("s1", bad),
    "size, session": lambda journals, bad: journals.size(bad, "run-1"),
    "size, run": lambda journals, bad: journals.size("s1", bad),
    "delete_session": lambda journals, bad: journals.delete_session(bad),
    "append_run_event, session": lambda journals, bad: append_run_event(journals, bad, "run-1", "note"),
    "append_run_event, run": lambda journals, bad: append_run_event(journals, "s1", bad, "note"),
}


def everything_below(path: Path) -> list[Path]:
    return sorted(path.rglob("*"))


@pytest.mark.parametrize("use", BUILDS_A_PATH.values(), ids=BUILDS_A_PATH.keys())
async def test_an_unsafe_id_is_refused_wherever_a_path_is_built(
    journals: Journals, tmp_path: Path, use: Callable[[Journals, str], object]
) -> None:
    """Regression: the session id `..` was the directory of all sessions."""
    await append_run_event(journals, "s1", "run-1", "note")
    before = everything_below(tmp_path)
    for bad in LEAVES_OR_BREAKS:
        with pytest.raises(InvalidId):
            await used(journals, use, bad)
    assert everything_below(tmp_path) == before


@pytest.mark.parametrize("bad", LEAVES_OR_BREAKS)
def test_a_cursor_with_an_unsafe_run_id_is_invalid(bad: str) -> None:
    assert parse_cursor(f"{bad}:1") is None or bad != bad.strip()
