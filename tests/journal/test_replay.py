"""Replay after a cursor: all missed events, or the reason why the client must read everything again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_trio.base.events import MessageDelta, RunCompleted
from hermes_trio.journal.reader import Reading, read_run
from hermes_trio.journal.record import TerminalState, encode
from hermes_trio.journal.replay import (
    MAX_BYTES,
    MAX_ROWS,
    Cursor,
    ReplayStatus,
    closing_event,
    parse_cursor,
    replay_session,
)
from hermes_trio.journal.writer import Journals
from tests.journal.seams import JournalFile, line

if TYPE_CHECKING:
    from tests.conftest import Calendar


@pytest.fixture
def run(root: Path) -> Callable[..., Path]:
    """A function that writes a journal of `count` events from a time on, followed by the bytes `then`."""

    def put(run_id: str, count: int, at: float, then: bytes = b"", session_id: str = "s1") -> Path:
        path = root / session_id / f"{run_id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [
            line(seq, f"{run_id} {seq}", run_id=run_id, session_id=session_id, created_at=at + seq)
            for seq in range(1, count + 1)
        ]
        path.write_bytes(b"".join(lines) + then)
        os.utime(path, (at + count, at + count))
        return path

    return put


def replayed(root: Path, cursor: str | None, **limits: int) -> list[str]:
    """Return the event ids of a complete replay."""
    replay = replay_session(root, "s1", cursor, **limits)
    assert replay.status is ReplayStatus.OK
    return [record.event_id for record in replay.records]


def refused(root: Path, cursor: str, **limits: int) -> ReplayStatus:
    """Return the status of a replay that failed, and assert that it has no records."""
    replay = replay_session(root, "s1", cursor, **limits)
    assert replay.records == ()
    return replay.status


def test_a_replay_is_the_rest_of_the_run_and_every_later_run(root: Path, run: Callable[..., Path]) -> None:
    run("zeta", 3, at=100)
    run("alpha", 2, at=200)
    run("beta", 1, at=200)
    run("elsewhere", 2, at=300, session_id="s2")
    assert replayed(root, "zeta:1") == ["zeta:2", "zeta:3", "alpha:1", "alpha:2", "beta:1"]
    assert replayed(root, "zeta:3") == ["alpha:1", "alpha:2", "beta:1"]
    assert replayed(root, "alpha:2") == ["beta:1"]
    assert replayed(root, "beta:1") == []


def test_a_replay_without_a_cursor_is_empty(root: Path, run: Callable[..., Path]) -> None:
    run("run-1", 3, at=100)
    assert replayed(root, None) == []


@pytest.mark.parametrize(
    "cursor",
    ["", ":", "run-1", "run-1:", "run-1:0", "run-1:-1", "run-1:+1", "run-1:1.0", "run-1:x", "run-1:1_0",
     "run-1:²", "run-1:\u0661", ":1", "..:1", "a/b:1", "run-1:" + "9" * 5000, "run-1:1:x", "run 1:1",
     "nul:1"],
)  # fmt: skip
def test_an_invalid_cursor_has_the_status_cursor_invalid(
    root: Path, run: Callable[..., Path], cursor: str
) -> None:
    run("run-1", 3, at=100)
    assert parse_cursor(cursor) is None
    assert refused(root, cursor) is ReplayStatus.CURSOR_INVALID


def test_a_cursor_has_a_run_id_and_a_seq(root: Path, run: Callable[..., Path]) -> None:
    run("run-1", 3, at=100)
    assert parse_cursor(" run-1:2\n") == Cursor("run-1", 2)
    assert replayed(root, " run-1:2\n") == ["run-1:3"]
    assert parse_cursor("run-1:" + "9" * 18) == Cursor("run-1", 10**18 - 1)


def test_a_cursor_is_valid_only_in_its_session_and_run(root: Path, run: Callable[..., Path]) -> None:
    run("run-1", 3, at=100)
    run("run-2", 5, at=100, session_id="s2")
    assert refused(root, "run-2:1") is ReplayStatus.CURSOR_SESSION_MISMATCH
    assert refused(root, "run-3:1") is ReplayStatus.CURSOR_RUN_MISSING
    assert refused(root, "run-1:4") is ReplayStatus.CURSOR_EVENT_MISSING
    assert replayed(root, "run-1:3") == []


def test_a_cursor_in_a_home_without_journals_has_the_status_run_missing(root: Path) -> None:
    assert refused(root, "run-1:1") is ReplayStatus.CURSOR_RUN_MISSING
    (root / "s1").mkdir(parents=True)
    assert refused(root, "run-1:1") is ReplayStatus.CURSOR_RUN_MISSING


def test_a_cursor_in_an_empty_journal_has_the_status_event_missing(
    root: Path, run: Callable[..., Path]
) -> None:
    run("run-1", 0, at=100)
    assert refused(root, "run-1:1") is ReplayStatus.CURSOR_EVENT_MISSING


JUNK = b"!! not JSON !!\n"


def test_a_damaged_run_before_the_cursor_does_not_matter(root: Path, run: Callable[..., Path]) -> None:
    """Regression: one bad run prevented every replay of its session."""
    run("run-1", 2, at=100, then=JUNK)
    run("run-2", 0, at=200, then=line(7, run_id="run-2", created_at=200.0))
    run("run-3", 0, at=300, then=JUNK)
    (root / "s1" / "run-4.jsonl").mkdir()
    os.utime(root / "s1" / "run-4.jsonl", (400, 400))
    run("run-5", 2, at=500)
    run("run-6", 1, at=600)
    assert replayed(root, "run-5:1") == ["run-5:2", "run-6:1"]


@pytest.mark.parametrize(
    ("damage", "status"),
    [
        (lambda path: path.write_bytes(path.read_bytes() + JUNK), ReplayStatus.MALFORMED),
        (lambda path: path.write_bytes(JUNK + path.read_bytes()), ReplayStatus.MALFORMED),
        (lambda path: path.write_bytes(JUNK), ReplayStatus.MALFORMED),
        (lambda path: (path.unlink(), path.mkdir()), ReplayStatus.MALFORMED),
        (lambda path: (path.unlink(), path.symlink_to(path.name)), ReplayStatus.MALFORMED),
        (
            lambda path: path.write_bytes(path.read_bytes().split(b"\n", 1)[1]),
            ReplayStatus.NONCONTIGUOUS,
        ),
        (lambda path: path.write_bytes(path.read_bytes() * 2), ReplayStatus.NONCONTIGUOUS),
    ],
    ids=["at the end", "in front", "nothing but", "a directory", "a link to itself", "a gap", "twice"],
)
@pytest.mark.parametrize("where", ["run-2", "run-3"])
def test_a_gap_after_the_cursor_gives_only_a_status(
    root: Path, run: Callable[..., Path], damage: Callable[[Path], object], status: ReplayStatus, where: str
) -> None:
    """Also in a completely unreadable run: a client must not believe that it has all events."""
    run("run-1", 2, at=100)
    runs = {"run-2": run("run-2", 3, at=200), "run-3": run("run-3", 3, at=300)}
    damage(runs[where])
    assert refused(root, "run-1:1") is status


def test_a_cursor_in_a_damaged_run_is_refused(root: Path, run: Callable[..., Path]) -> None:
    run("run-1", 2, at=100, then=JUNK)
    assert refused(root, "run-1:1") is ReplayStatus.MALFORMED
    (root / "s1" / "run-2.jsonl").mkdir()
    assert refused(root, "run-2:1") is ReplayStatus.MALFORMED


def test_a_replay_ignores_files_that_are_no_journals(root: Path, run: Callable[..., Path]) -> None:
    run("run-1", 2, at=100)
    run("run-2", 1, at=200)
    for stray in ("-rf", "..run", ".hidden", "a b", "nul"):
        foreign = line(1, run_id=stray, created_at=300.0)
        (root / "s1" / f"{stray}.jsonl").write_bytes(foreign)
    (root / "s1" / "notes.txt").write_bytes(JUNK)
    assert replayed(root, "run-1:1") == ["run-1:2", "run-2:1"]


def test_a_replay_ignores_the_torn_end_of_a_run(root: Path, run: Callable[..., Path]) -> None:
    """The torn line is being written now, or was never shown."""
    torn = line(3, "x" * 100, run_id="run-1")[:-20]
    run("run-1", 2, at=100, then=torn)
    run("run-2", 1, at=200)
    assert replayed(root, "run-1:1") == ["run-1:2", "run-2:1"]
    run("run-3", 0, at=300, then=line(1, run_id="run-3")[:30])
    assert replayed(root, "run-2:1") == []


def test_a_replay_at_the_limit_is_returned_and_one_beyond_it_is_not(
    root: Path, run: Callable[..., Path]
) -> None:
    """Only replayed events count; events before the cursor do not."""
    run("run-1", 50, at=100)
    run("run-2", 3, at=200)
    assert len(replayed(root, "run-1:48", max_rows=5)) == 5
    assert refused(root, "run-1:48", max_rows=4) is ReplayStatus.LIMIT_ROWS
    size = sum(len(encode(record)) for record in replay_session(root, "s1", "run-1:48").records)
    assert len(replayed(root, "run-1:48", max_bytes=size)) == 5
    assert refused(root, "run-1:48", max_bytes=size - 1) is ReplayStatus.LIMIT_BYTES


def test_the_default_limits_of_a_replay_apply(root: Path, run: Callable[..., Path]) -> None:
    run("run-1", 1 + MAX_ROWS, at=100)
    assert len(replayed(root, "run-1:1")) == MAX_ROWS
    run("run-2", 1, at=20_000)
    assert refused(root, "run-1:1") is ReplayStatus.LIMIT_ROWS


async def test_a_replay_of_too_many_bytes_is_refused(journals: Journals, root: Path) -> None:
    with await journals.open_run("s1", "run-1") as run:
        await run.append(MessageDelta("a"), *[MessageDelta("x" * (MAX_BYTES // 2))] * 2)
    assert refused(root, "run-1:1") is ReplayStatus.LIMIT_BYTES
    assert replayed(root, "run-1:2") == ["run-1:3"]


@given(cursor=st.text() | st.from_regex(r"[a-z.\\/:-]{0,9}:[0-9]{0,3}"), seq=st.integers())
@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_replay_never_raises_for_any_cursor(
    root: Path, run: Callable[..., Path], cursor: str, seq: int
) -> None:
    run("run-1", 2, at=100)
    for text in (cursor, f"{cursor}:{seq}", f"run-1:{cursor}", f"run-1:{seq}"):
        replay = replay_session(root, "s1", text)
        assert replay.status in ReplayStatus
        known = parse_cursor(text)
        whole = known is not None and known.run_id == "run-1" and known.seq <= 2
        assert (replay.status is ReplayStatus.OK) == whole


# --- the closing event of a dead run -------------------------------------------------------------------


async def test_a_dead_run_gets_a_closing_event_that_is_not_stored(
    journals: Journals, root: Path, file: JournalFile, calendar: Calendar
) -> None:
    with await journals.open_run("s1", "run-1") as run:
        await run.append(MessageDelta("a"), MessageDelta("b"))
    written = file.content
    closing = closing_event(read_run(root, "s1", "run-1"), "s1", "run-1", calendar.time)
    assert closing is not None
    assert (closing.event, closing.event_id, closing.seq) == ("run.failed", "run-1:3", 3)
    assert (closing.session_id, closing.run_id, closing.created_at) == ("s1", "run-1", calendar.time)
    assert (closing.terminal, closing.terminal_state) == (True, TerminalState.CUT)
    assert (closing.payload["code"], closing.payload["synthetic"]) == ("interrupted", True)
    assert "restart" not in closing.payload["error"].lower(), "the cause is unknown"
    assert file.content == written


async def test_a_run_with_a_terminal_event_or_without_events_gets_no_closing_event(
    journals: Journals, root: Path
) -> None:
    assert closing_event(Reading(), "s1", "run-1", 1.0) is None
    with await journals.open_run("s1", "run-1") as run:
        await run.append(MessageDelta("a"), RunCompleted("a"))
    assert closing_event(read_run(root, "s1", "run-1"), "s1", "run-1", 1.0) is None


def test_a_closing_event_has_an_unused_id(root: Path, file: JournalFile) -> None:
    """The client has the event that was damaged later, and would ignore another one with its id."""
    file.becomes(line(1) + line(2) + line(3).replace(b"delta", b"d\0lta"))
    closing = closing_event(read_run(root, "s1", "run-1"), "s1", "run-1", 1.0)
    assert closing is not None
    assert closing.seq == 4
