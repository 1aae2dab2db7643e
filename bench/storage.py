"""The cost of storage. The bare limit is the same rows through plain sqlite3 in one thread in the same
batches, and the same records encoded and appended to plain files in the same batches.

Each measurement has a fixed number of operations; rounds of ours and of the bare limit alternate.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median

import psutil
import trio

from hermes_trio.base.events import MessageDelta
from hermes_trio.base.messages import SessionSource
from hermes_trio.base.world import World
from hermes_trio.config.schema import GatewayConfig
from hermes_trio.journal.record import VERSION, Record, encode
from hermes_trio.journal.writer import RunWriter, open_journals
from hermes_trio.state.db.database import open_database
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import open_connections
from hermes_trio.state.rules.store import SessionStore
from hermes_trio.state.tables import meta

from .figures import Figure, beside, show

ROUNDS = 5
WORLD = World()
VALUE = "x" * 100


def main() -> int:
    """Measure and print all figures; takes about a minute."""
    figures = [
        *(
            beside(
                f"grouped commits, {writers} writers",
                "commits/s",
                [(_ours(writers, writes), _bare(writers, writes)) for _ in range(ROUNDS)],
                at_least=0.5 if writers == 32 else None,
            )
            for writers, writes in ((1, 1_500), (32, 24_000), (256, 50_000))
        ),
        *(
            beside(
                f"journal, {runs} runs, batches of {batch}",
                "events/s",
                [_journal(runs, batch, total) for _ in range(ROUNDS)],
                at_least=0.5 if runs == 32 and batch > 1 else None,
            )
            for runs, batch, total in (
                (32, 64, 409_600),
                (32, 8, 102_400),
                (32, 1, 32_000),
                (1, 64, 204_800),
                (1, 1, 5_000),
            )
        ),
        *_lateness(),
        *_idle_sessions(),
    ]
    show("storage", figures)
    return 0


# --- commits -----------------------------------------------------------------------------------------


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        yield Path(name) / "home"


def _ours(writers: int, writes: int) -> float:
    """Return the commits per second of `writers` tasks, each of which waits for its own commit."""

    async def run() -> float:
        with _folder() as home:
            async with open_database(home / "gateway.db", WORLD) as database:

                async def writer(name: int) -> None:
                    for number in range(writes // writers):
                        await database.write(meta.put, f"{name}:{number}", VALUE)

                began = time.perf_counter()
                async with trio.open_nursery() as nursery:
                    for name in range(writers):
                        nursery.start_soon(writer, name)
                return writes / (time.perf_counter() - began)

    return trio.run(run)


def _bare(writers: int, writes: int) -> float:
    """Return the commits per second of one thread that writes the same rows, `writers` in a transaction."""
    with _folder() as home:
        connections = open_connections(home / "gateway.db", WORLD, shipped_steps())
        connections.reading.close()
        connection = connections.writing
        began = time.perf_counter()
        for number in range(writes // writers):
            connection.execute("BEGIN IMMEDIATE")
            for name in range(writers):
                meta.put(connection, f"{name}:{number}", VALUE)
            connection.execute("COMMIT")
        spent = time.perf_counter() - began
        connection.close()
        return writes / spent


# --- journal -----------------------------------------------------------------------------------------


def _journal(runs: int, batch: int, total: int) -> tuple[float, float]:
    """Return the events per second through `runs` run journals, each of which waits for a batch before the
    next; and the same for records that are encoded and appended to as many plain files in the same
    batches."""

    async def run() -> float:
        with _folder() as home:
            async with open_journals(home / "journal", WORLD) as journals:
                with ExitStack() as stack:
                    writers = [
                        stack.enter_context(await journals.open_run("s", f"r{name}")) for name in range(runs)
                    ]

                    async def stream(writer: RunWriter) -> None:
                        for _ in range(total // runs // batch):
                            await writer.append(*[MessageDelta("token ") for _ in range(batch)])

                    began = time.perf_counter()
                    async with trio.open_nursery() as nursery:
                        for writer in writers:
                            nursery.start_soon(stream, writer)
                    return total / (time.perf_counter() - began)

    return trio.run(run), _bare_journal(runs, batch, total)


def _bare_journal(runs: int, batch: int, total: int) -> float:
    with _folder() as home:
        home.mkdir()
        files = [os.open(home / f"{name}", os.O_CREAT | os.O_APPEND | os.O_WRONLY) for name in range(runs)]
        began = time.perf_counter()
        for number in range(total // runs // batch):
            for name, file in enumerate(files):
                lines = bytearray()
                for seq in range(number * batch + 1, (number + 1) * batch + 1):
                    lines += encode(_record(f"r{name}", seq)) + b"\n"
                os.write(file, lines)
        spent = time.perf_counter() - began
        for file in files:
            os.close(file)
        return total / spent


def _record(run: str, seq: int) -> Record:
    event = MessageDelta.event
    return Record(
        VERSION, f"{run}:{seq}", seq, run, "s", event, event, time.time(), False, None, MessageDelta("token ")
    )


# --- the loop ----------------------------------------------------------------------------------------


def _lateness() -> Iterator[Figure]:
    """Yield the lateness of a task that sleeps a millisecond, alone and with 32 writers."""

    async def run(writers: int) -> list[float]:
        late: list[float] = []
        with _folder() as home:
            async with (
                open_database(home / "gateway.db", WORLD) as database,
                trio.open_nursery() as nursery,
            ):

                async def writer(name: int) -> None:
                    for number in count():
                        await database.write(meta.put, f"{name}:{number}", VALUE)

                for name in range(writers):
                    nursery.start_soon(writer, name)
                for _ in range(1_000):
                    due = trio.current_time() + 0.001
                    await trio.sleep_until(due)
                    late.append((trio.current_time() - due) * 1000)
                nursery.cancel_scope.cancel()
        return sorted(late)

    rounds = [(trio.run(run, 32), trio.run(run, 0)) for _ in range(ROUNDS)]
    for name, part in (("p50", 0.5), ("p99", 0.99)):
        at = int(1_000 * part)
        ours, bare = (median(late[at] for late in side) for side in zip(*rounds, strict=True))
        added = median(beside_writers[at] - alone[at] for beside_writers, alone in rounds)
        yield Figure(
            f"lateness of the loop beside 32 writers, {name}",
            ours,
            "ms",
            bare=bare,
            ratio=ours / bare,
            goal="added < 1 ms" if name == "p99" else "",
            met=added < 1 if name == "p99" else None,
        )


# --- memory ------------------------------------------------------------------------------------------

SESSIONS = 10_000


def _idle_sessions() -> Iterator[Figure]:
    """Yield the cost of sessions that nobody uses: the store keeps none of them in memory. The bare
    alternative is an index of them in dicts. Each is measured in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as fresh:
        in_memory, on_disk = fresh.apply(_rows)
        dicts = fresh.apply(_dicts)
    name = f"{SESSIONS:,} idle sessions"
    yield Figure(f"{name}, memory", in_memory, "KB", bare=dicts, ratio=in_memory / dicts)
    yield Figure(f"{name}, file", on_disk, "KB")


def _sources() -> list[SessionSource]:
    return [SessionSource("telegram", str(chat), user_name="somebody") for chat in range(SESSIONS)]


def _rows() -> tuple[float, float]:
    async def run() -> tuple[float, float]:
        sources = _sources()
        with _folder() as home:
            async with open_database(home / "gateway.db", WORLD) as database:
                store = SessionStore(database, GatewayConfig(), WORLD)
                await store.get_or_create_session(SessionSource("telegram", "warm-up"))
                before = _resident()
                for source in sources:
                    await store.get_or_create_session(source)
                grown = _resident() - before
            return grown, (home / "gateway.db").stat().st_size / 1024

    return trio.run(run)


def _dicts() -> float:
    sources = _sources()
    before = _resident()
    kept = {source.chat_id: source.to_dict() for source in sources}
    grown = _resident() - before
    assert len(kept) == SESSIONS
    return grown


def _resident() -> float:
    gc.collect()
    return psutil.Process().memory_info().rss / 1024
