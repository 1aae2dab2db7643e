"""A run journal with any truncation and any changed bytes: undamaged records are read unchanged, none is
invented, and the run can be continued."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import trio
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_trio.base.world import World
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.journal.reader import Reading, read_run
from hermes_trio.journal.record import Record
from hermes_trio.journal.writer import open_journals

bounded = settings(max_examples=250)

A_RECORD_OF_THE_RUN = {
    "version": 1, "event_id": "run-1:2", "seq": 2, "run_id": "run-1", "session_id": "s1", "event": "note",
    "type": "note", "created_at": 1.0, "terminal": True, "terminal_state": "completed", "payload": {},
}  # fmt: skip

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["\n", "\u2028", '{"version":1,"event_id":"run-1:2"', "🌍" * 5])
    | st.just(A_RECORD_OF_THE_RUN),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
events = st.tuples(
    st.sampled_from(["message.delta", "tool.started", "note", "größer"]),
    st.dictionaries(st.text(max_size=5), json_values, max_size=4),
)
batches = st.lists(st.lists(events, min_size=1, max_size=4), min_size=1, max_size=4)


@dataclass(frozen=True)
class Damaging:
    """The damage to a file. Positions are given by line and byte, both modulo the actual number."""

    flips: Sequence[tuple[int, int, int]]
    cut: int | None

    def hits(self, ends: Sequence[int]) -> dict[int, int]:
        """Return the changed offsets, each with its XOR mask."""
        starts = [0, *ends]
        hit: dict[int, int] = {}
        for line, byte, mask in self.flips:
            start, end = starts[line % len(ends)], ends[line % len(ends)]
            hit[start + byte % (end - start)] = mask
        return hit

    def kept(self, size: int) -> int:
        return size if self.cut is None else self.cut % (size + 1)


flips = st.tuples(
    st.integers(0, 20),
    st.integers(0, 400) | st.just(-1),  # the last byte of a line is its newline
    st.integers(1, 255) | st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]),
)
damagings = st.builds(
    Damaging, flips=st.lists(flips, max_size=5), cut=st.none() | st.integers(0, 5000) | st.just(-2)
)


def run_of(root: Path, *happened: tuple[str, dict[str, Any]]) -> list[Record]:
    """Append events to run-1 of s1 with a new writer; return their records."""

    async def write() -> list[Record]:
        async with open_journals(root, World(), worker=inline_worker) as journals:
            with await journals.open_run("s1", "run-1") as run:
                return await run.append(*happened)

    return trio.run(write)


def damaged(data: bytes, damaging: Damaging, ends: Sequence[int]) -> bytes:
    changed = bytearray(data)
    for at, mask in damaging.hits(ends).items():
        changed[at] ^= mask
    return bytes(changed[: damaging.kept(len(data))])


def surely_readable(before: Reading, data: bytes, damaging: Damaging, ends: Sequence[int]) -> list[Record]:
    """Return the records without damage, from their first byte to their newline.

    The newline before a record belongs to the previous record: if it was damaged, that record is lost, and
    this one is still found by its beginning. There is one exception: a newline that became a comma makes the
    two look like a list inside a record.
    """
    hit, kept = damaging.hits(ends), damaging.kept(len(data))
    whole = []
    for record, start, end in zip(before.records, [0, *ends], ends, strict=False):
        untouched = end <= kept and not any(start <= at < end for at in hit)
        joined = start - 1 in hit and data[start - 1] ^ hit[start - 1] == ord(",")
        if untouched and not joined:
            whole.append(record)
    return whole


@given(written=batches, damaging=damagings)
@example(written=[[("note", {})]], damaging=Damaging([], 0))
@example(written=[[("note", {"a": A_RECORD_OF_THE_RUN})] * 3], damaging=Damaging([], -2))
@example(written=[[("note", {})] * 3], damaging=Damaging([(0, -1, ord("\n") ^ ord(" "))], None))
@bounded
def test_undamaged_records_are_read_unchanged_and_none_is_invented(
    written: list[list[tuple[str, dict[str, Any]]]], damaging: Damaging
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for batch in written:
            run_of(root, *batch)
        path = root / "s1" / "run-1.jsonl"
        before, data = read_run(root, "s1", "run-1"), path.read_bytes()
        assert before.complete
        said = [(record.event, record.payload) for record in before.records]
        assert said == [event for batch in written for event in batch]

        ends = list(accumulate(len(line) for line in data.splitlines(keepends=True)))
        assert len(ends) == len(before.records)
        path.write_bytes(damaged(data, damaging, ends))
        after = read_run(root, "s1", "run-1")
        for record in surely_readable(before, data, damaging, ends):
            assert record in after.records
        other = [record for record in after.records if record not in before.records]
        assert len(other) <= len(damaging.hits(ends)), "only damaged records may be read as others"
        if after.complete and not other:
            assert after.records == before.records[: len(after.records)], "only last records can be missing"

        [record] = run_of(root, ("note", {"last": "words"}))
        assert all(record.seq > read.seq for read in after.records)
        last = read_run(root, "s1", "run-1")
        assert last.records == [*after.records, record]
        assert path.read_bytes().endswith(b'"payload":{"last":"words"}}\n')


@given(written=batches, place=st.tuples(st.integers(0, 20), st.integers(0, 400), st.integers(1, 255)))
@settings(bounded, max_examples=120)
def test_a_changed_byte_causes_no_reused_seq(
    written: list[list[tuple[str, dict[str, Any]]]], place: tuple[int, int, int]
) -> None:
    """Somebody may have seen the damaged event; the next one must not get its id."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        for batch in written:
            run_of(root, *batch)
        path = root / "s1" / "run-1.jsonl"
        data = path.read_bytes()
        ends = list(accumulate(len(line) for line in data.splitlines(keepends=True)))
        damaging = Damaging([place], None)
        if len(data) - 1 in damaging.hits(ends):
            return  # a last line without its newline looks torn, like a line shown to nobody
        path.write_bytes(damaged(data, damaging, ends))
        [record] = run_of(root, ("note", {}))
        assert record.seq > len(ends)
