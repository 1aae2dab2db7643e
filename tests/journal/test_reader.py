"""Reading a damaged journal: only damaged records are lost, and the reader reports their offsets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermes_trio.base.errors import JournalError
from hermes_trio.base.events import MessageDelta, RunFailed
from hermes_trio.journal.reader import Reading, read_run, summary
from hermes_trio.journal.record import LONGEST_LINE, PREFIX
from hermes_trio.journal.writer import Journals, append_run_event
from tests.journal.seams import JournalFile, line, texts


def test_a_missing_or_empty_journal_has_no_events(root: Path, file: JournalFile) -> None:
    assert read_run(root, "s1", "run-1") == Reading()
    file.becomes(b"")
    assert read_run(root, "s1", "run-1") == Reading()


def test_blank_lines_in_a_journal_are_ignored(root: Path, file: JournalFile) -> None:
    file.becomes(b"\n" + line(1, "a") + b"\n  \n\t\r\n" + line(2, "b") + b"\n\n")
    reading = read_run(root, "s1", "run-1")
    assert texts(reading) == ["a", "b"]
    assert reading.complete


NO_RECORDS: dict[str, bytes] = {
    "no JSON": b"!! not JSON !!",
    "no object": b'["a","list"]',
    "an empty object": b"{}",
    "no number": b'{"version":1,"event_id":"run-1:2","seq":NaN}',
    "zeros": b"\0" * 5000,
    "binary": bytes(range(11, 256)) * 20,
    "no UTF-8": b"\xff\xfe\xc3",
    "brackets without end": b"[" * 200_000,
    "objects without end": b'{"a":' * 200_000,
    "the beginning of a record": PREFIX,
    "a byte order mark alone": b"\xef\xbb\xbf",
    "too long": b"x" * (LONGEST_LINE + 1),
}


@pytest.mark.parametrize("junk", NO_RECORDS.values(), ids=NO_RECORDS.keys())
def test_a_line_that_is_no_record_is_one_damage(root: Path, file: JournalFile, junk: bytes) -> None:
    """Regression: one incomplete character made the whole journal unreadable."""
    file.becomes(line(1, "a") + junk + b"\n" + line(3, "c"))
    reading = read_run(root, "s1", "run-1")
    assert texts(reading) == ["a", "c"]
    [damage] = reading.damage
    assert (damage.offset, damage.length) == (len(line(1, "a")), len(junk))
    assert damage.reason
    assert not damage.torn
    assert not reading.complete


DOES_NOT_BELONG: dict[str, dict[str, Any]] = {
    "another run": {"run_id": "run-2"},
    "another run under our id": {"run_id": "run-2", "event_id": "run-1:2"},
    "another session": {"session_id": "s2"},
    "the id of another event": {"event_id": "run-1:7"},
    "the id of an event of another run": {"event_id": "run-2:2"},
    "a newer version": {"version": 2},
    "no name": {"event": ""},
    "a payload that is no object": {"payload": ["delta"]},
    "no payload": {"payload": None},
    "a seq that is no number": {"seq": "2"},
    "seq zero": {"seq": 0, "event_id": "run-1:0"},
    "a seq below zero": {"seq": -2, "event_id": "run-1:-2"},
    "a payload without end": {"payload": {"delta": "b", "more": []}},
}


@pytest.mark.parametrize("fields", DOES_NOT_BELONG.values(), ids=DOES_NOT_BELONG.keys())
def test_a_record_in_the_wrong_journal_or_place_is_damage(
    root: Path, file: JournalFile, fields: dict[str, Any]
) -> None:
    foreign = line(2, "b", **fields)
    if fields.get("payload") == {"delta": "b", "more": []}:
        foreign = foreign.replace(b"[]", b"[" * 100_000 + b"]" * 100_000)
    file.becomes(line(1, "a") + foreign + line(3, "c"))
    reading = read_run(root, "s1", "run-1")
    assert texts(reading) == ["a", "c"]
    [damage] = reading.damage
    assert (damage.offset, damage.length) == (len(line(1, "a")), len(foreign) - 1)


def test_unknown_events_and_fields_are_kept(root: Path, file: JournalFile) -> None:
    newer = line(1, event="tool.dreaming", type="tool.dreaming", payload={"of": ["sheep"]})
    file.becomes(newer.replace(b'"payload"', b'"mood":"fine","payload"'))
    [record] = read_run(root, "s1", "run-1").records
    assert (record.event, record.payload) == ("tool.dreaming", {"of": ["sheep"]})


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\v", "\f", "\x1c", "\r", "\r\n", "\n"])
async def test_no_character_of_a_text_splits_its_line(journals: Journals, root: Path, separator: str) -> None:
    """Regression: line and paragraph separators split the record that contained them."""
    text = f"one{separator}two"
    with await journals.open_run("s1", "run-1") as run:
        await run.append(MessageDelta(text), MessageDelta("next"))
    assert texts(read_run(root, "s1", "run-1")) == [text, "next"]


def test_records_without_a_newline_between_them_are_all_read(root: Path, file: JournalFile) -> None:
    file.becomes(b"".join(line(seq, f"{seq}").removesuffix(b"\n") for seq in range(1, 6)))
    reading = read_run(root, "s1", "run-1")
    assert texts(reading) == ["1", "2", "3", "4", "5"]
    assert (reading.damage, reading.torn) == ([], 0)


def test_a_record_written_into_another_one_is_read(root: Path, file: JournalFile) -> None:
    whole = line(2, "b")
    file.becomes(line(1, "a") + whole[:60] + line(3, "c") + whole[60:] + line(4, "d"))
    reading = read_run(root, "s1", "run-1")
    assert texts(reading) == ["a", "c", "d"]
    start = len(line(1, "a"))
    assert [(damage.offset, damage.length) for damage in reading.damage] == [
        (start, 60),
        (start + 60 + len(line(3, "c")), len(whole) - 61),
    ]


def test_bytes_before_a_record_are_damage_and_the_record_is_read(root: Path, file: JournalFile) -> None:
    file.becomes(b"\xef\xbb\xbf" + line(1, "a") + b"\0" * 512 + line(2, "b"))
    reading = read_run(root, "s1", "run-1")
    assert texts(reading) == ["a", "b"]
    assert [damage.length for damage in reading.damage] == [3, 512]


@pytest.mark.parametrize("lost", [1, 2, 3, 20])
def test_a_record_inside_a_payload_is_no_event_of_the_run(root: Path, file: JournalFile, lost: int) -> None:
    """A tool shows this journal, and a crash tears the line off after the shown record."""
    inside = {
        "version": 1, "event_id": "run-1:9", "seq": 9, "run_id": "run-1", "session_id": "s1",
        "event": "message.delta", "type": "message.delta", "created_at": 1.0, "terminal": False,
        "terminal_state": None, "payload": {"delta": "never said"},
    }  # fmt: skip
    shown = line(2, event="tool.started", type="tool.started", payload={"args": inside, "more": [inside]})
    for payload in (shown, line(2, payload=inside)):
        file.becomes(line(1, "a") + payload[:-lost])
        whole = [1, 2] if lost == 1 else [1]  # one lost byte is only the newline
        assert [record.seq for record in read_run(root, "s1", "run-1").records] == whole
        file.becomes(line(1, "a") + payload[:-lost].replace(b'"seq":2', b'"seq"#2') + line(3, "c"))
        assert texts(read_run(root, "s1", "run-1")) == ["a", "c"]


def test_a_repeated_seq_is_one_event_and_one_damage(root: Path, file: JournalFile) -> None:
    """Two programs wrote the run at the same time; the order in the file decides."""
    file.becomes(line(1, "a") + line(3, "c") + line(2, "b") + line(3, "other") + line(4, "d"))
    reading = read_run(root, "s1", "run-1")
    assert texts(reading) == ["a", "b", "c", "d"]
    assert ["seq 3" in damage.reason for damage in reading.damage] == [True]
    assert not reading.complete


def test_the_torn_end_of_a_live_journal_is_no_damage(root: Path, file: JournalFile) -> None:
    whole = line(2, "wörld")
    for torn in range(1, len(whole) - 1):
        file.becomes(line(1, "a") + whole[:torn])
        reading = read_run(root, "s1", "run-1")
        assert (texts(reading), reading.damage, reading.torn) == (["a"], [], torn)
        assert reading.size == len(line(1, "a")) + torn
    file.becomes(line(1, "a") + whole[:-1])
    assert texts(read_run(root, "s1", "run-1")) == ["a", "wörld"], "a line without only its newline is read"


@pytest.mark.parametrize("damaged", [line(2).replace(b"delta", b"d\0lta")[:-1], b"!! not JSON !!"])
def test_only_the_last_record_of_a_line_can_be_torn(root: Path, file: JournalFile, damaged: bytes) -> None:
    """Damage stays in the file; a torn end is cut off by the next writer."""
    file.becomes(line(1, "a") + damaged + line(3, "c")[:50])
    reading = read_run(root, "s1", "run-1")
    assert (texts(reading), reading.torn) == (["a"], 50)
    assert [damage.length for damage in reading.damage] == [len(damaged)]


def test_an_unreadable_journal_raises_with_a_remedy(root: Path, file: JournalFile) -> None:
    file.path.mkdir(parents=True)
    (root / "s2").touch()
    (root / "s3").mkdir()
    (root / "s3" / "run-1.jsonl").symlink_to("run-1.jsonl")
    for session_id in ("s1", "s2", "s3"):
        for read in (read_run, summary):
            with pytest.raises(JournalError, match=r"cannot be read.*Check the permissions") as refused:
                read(root, session_id, "run-1")
            assert isinstance(refused.value.__cause__, OSError)


async def test_a_summary_counts_the_events_and_states_the_end(journals: Journals, root: Path) -> None:
    async def told() -> tuple[int, int, str | None, str | None, bool, str]:
        said = summary(root, "s1", "run-1")
        assert (said.session_id, said.run_id) == ("s1", "run-1")
        return (
            said.event_count, said.last_seq, said.last_event_id, said.last_event, said.terminal, said.state
        )  # fmt: skip

    assert await told() == (0, 0, None, None, False, "unknown")
    await append_run_event(journals, "s1", "run-1", "message.delta", {"delta": "a"})
    assert await told() == (1, 1, "run-1:1", "message.delta", False, "running")
    await append_run_event(journals, "s1", "run-1", "run.failed", {"error": "no"})
    assert await told() == (2, 2, "run-1:2", "run.failed", True, "failed")


async def test_the_terminal_record_is_found_also_before_later_damage(
    journals: Journals, root: Path, file: JournalFile
) -> None:
    with await journals.open_run("s1", "run-1") as run:
        await run.append(MessageDelta("a"), RunFailed("no"))
    file.becomes(file.content + b"junk\n" + line(3, "behind the end"))
    terminal = read_run(root, "s1", "run-1").terminal
    assert terminal is not None
    assert terminal.seq == 2
