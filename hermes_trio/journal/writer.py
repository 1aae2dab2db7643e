"""Writing run journals: for each run one owner and one file, with complete lines in order.

Events get their seq when they happen. Events that are appended together reach the file in one write, and
`append` returns after it. So a caller that shows an event only after `append` loses nothing it has shown when
the process is killed. Only a terminal record is fsynced, and not that of a cut run, where the turn's row is
the durable fact.

Lines that could not be written are not lost: they are written first with the next write, and retried a last
time when the run is closed. A caller that is cancelled while it waits leaves at once; its events are written
nevertheless.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import outcome
import trio

from ..base.errors import JournalClosed, JournalError
from ..base.events import Event
from ..base.world import World
from ..host.loop.worker import (
    Batcher,
    BatchTimes,
    Pending,
    Runner,
    Worker,
    finished,
    perform_each,
    together,
    worker_thread,
)
from ..log import Log
from .broadcast import Broadcast
from .file_shelf import FileShelf
from .reader import Reading
from .record import (
    TERMINAL,
    VERSION,
    Record,
    TerminalState,
    lines_of,
    terminal_state,
)
from .replay import KnownRun, MissedEvents, missed_events
from .shelf import OpenRun, Shelf

FsyncPolicy = Literal["terminal-only", "eager"]
Jobs = Batcher[Callable[[], Any], Any]

T = TypeVar("T")

MAX_BATCH = 512
CLOSE_WITHIN = 2.0

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class _Unsynced:
    """The result of a job that has written lines which are to be durable before its caller continues."""

    file: OpenRun
    then: Callable[[], None]
    """The rest of the job, after that."""


def _perform(batch: Sequence[Pending[Callable[[], Any], Any]]) -> None:
    """Run the jobs of a batch, then sync together what they have written: hundreds of runs may end in one
    moment, and each would wait for the disk as often as all before it."""
    perform_each(batch)
    unsynced = [
        (pending, pending.result.value)
        for pending in batch
        if isinstance(pending.result, outcome.Value) and isinstance(pending.result.value, _Unsynced)
    ]
    files = list({one.file for _, one in unsynced})
    synced = dict(zip(files, together([file.sync for file in files]), strict=True))
    for pending, one in unsynced:
        result = synced[one.file]
        # An outcome can be unwrapped only once, and a file may have several.
        failed = outcome.Error(result.error) if isinstance(result, outcome.Error) else None
        pending.result = failed or outcome.capture(one.then)


class RunWriter:
    """The one writer of a run, for as long as its block. Created by `Journals.open_run`."""

    def __init__(self, file: OpenRun, journals: Journals) -> None:
        self._file, self._journals = file, journals
        self._unseen: list[Sequence[Record]] = []
        """Records that are not in the file yet. Used only by the writing thread."""
        self.last_seq = file.last_seq
        """The seq of the latest event."""
        self.ended = file.ended
        """True if the latest event is the last one of the run."""
        self._open = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file after the last write, without waiting for it: a disk that hangs delays nothing."""
        self._open = False
        if not self._file.closed:
            self._journals._jobs.hand_over(self._file.close)

    async def append(self, *happened: Event | tuple[str, Any]) -> list[Record]:
        """Append events in this order, and return their records after they are in the file.

        An event is a value of `base.events`, or a name with a JSON value. No event may follow a terminal
        one. Raises `JournalClosed`, `JournalUnwritable`, or `JournalError` for an event that cannot be
        encoded, which uses no seq.
        """
        if not happened:
            return []
        records, write = self._taken(happened)
        await self._journals._jobs.performed(write)
        return records

    def append_nowait(self, *happened: Event | tuple[str, Any]) -> list[Record]:
        """Append events like `append`, without waiting: they are queued when this returns, and in the file
        when the journals are closed. A failure to write them is logged."""
        records, write = self._taken(happened)
        self._journals._jobs.hand_over(write)
        return records

    def _taken(self, happened: Iterable[Event | tuple[str, Any]]) -> tuple[list[Record], Callable[[], Any]]:
        """Return the records of these events, with their seqs, and a function that writes them."""
        records, lines = self._lines(happened)
        last = records[-1]
        self.last_seq, self.ended = last.seq, last.terminal
        sync = self._journals._fsync == "eager" or (
            last.terminal and last.terminal_state != TerminalState.CUT
        )

        def write() -> _Unsynced | None:
            self._unseen.append(records)
            self._file.write(lines, sync=sync)
            if sync:
                return _Unsynced(self._file, publish)
            publish()
            return None

        def publish() -> None:
            self._journals._written.extend(self._unseen)
            self._unseen.clear()
            if last.terminal:
                self._file.close()  # here, because that needs no job of its own

        return records, write

    def _lines(self, happened: Iterable[Event | tuple[str, Any]]) -> tuple[list[Record], bytes]:
        run, session, at = self._file.run_id, self._file.session_id, self._journals._event_time()
        if not self._open:
            raise JournalClosed(run, "written to after its block", "This is a bug: report it.")
        records, ended = [], self.ended
        for seq, item in enumerate(happened, start=self.last_seq + 1):
            name, payload = (item.event, item) if isinstance(item, Event) else _checked(run, *item)
            if ended:
                raise JournalClosed(run, f"{name!r} after the end of the run", "This is a bug: report it.")
            state = terminal_state(name, payload) if name in TERMINAL else None
            ended = state is not None
            records.append(
                Record(VERSION, f"{run}:{seq}", seq, run, session, name, name, at, ended, state, payload)
            )
        return records, lines_of(records)


def _checked(run: str, name: str, payload: object) -> tuple[str, Mapping[str, Any]]:
    payload = {} if payload is None else payload
    if not name.strip() or not isinstance(payload, Mapping):
        raise JournalError(
            run, f"{name!r} has no name, or its payload is no mapping", "Pass both, in JSON values."
        )
    return name, payload


class Journals:
    """The run journals of one home, or of a server. Created by `open_journals`."""

    def __init__(
        self, shelf: Shelf, world: World, fsync: FsyncPolicy, writer: Runner, reader: Runner
    ) -> None:
        self.shelf = shelf
        self._world = world
        self._fsync = fsync
        self.live = Broadcast()
        """The live events of all runs, for subscribers."""
        self._written: deque[Sequence[Record]] = deque()
        """Records that are in their file and not yet published, each batch of one run."""
        self._last_event_time = 0.0
        self._jobs: Jobs = Batcher(self._publishing(writer), _perform, limit=MAX_BATCH)
        self._reader = reader
        self._open = True

    @property
    def took(self) -> BatchTimes:
        """The durations of the writes."""
        return self._jobs.took

    async def open_run(self, session_id: str, run_id: str, *, is_new: bool = False) -> RunWriter:
        """Open the journal of a run for writing: `with await journals.open_run(...) as run`. With `is_new` no
        server is asked what the run has. A second writer of the same run gets `JournalBusy`, also in another
        process; from a server with its first event."""
        self._check_open(run_id)
        opened: list[OpenRun] = []

        def open_it() -> OpenRun:
            opened.append(self.shelf.open_run(session_id, run_id, is_new=is_new))
            return opened[0]

        def close_it() -> None:
            for file in opened:
                file.close()

        try:
            return RunWriter(await self._jobs.performed(open_it), self)
        except trio.Cancelled:
            self._jobs.hand_over(close_it)
            raise

    async def read(self, session_id: str, run_id: str) -> Reading:
        """Return the current content of a run's journal. Raises `JournalError` if it cannot be read."""
        self._check_open(run_id)
        return await finished(self._reader, lambda: self.shelf.read(session_id, run_id))

    async def missed(self, runs: Sequence[KnownRun], cursor: str, *, margin: float = 0.0) -> MissedEvents:
        """Return the events of these runs after a cursor, and the runs whose events are not complete. See
        `missed_events`."""
        self._check_open("*")
        return await finished(self._reader, lambda: missed_events(self.shelf.read, runs, cursor, margin))

    async def end_subscriptions(self) -> None:
        """Publish the events queued so far, then end all subscriptions."""
        await self._jobs.performed(lambda: None)
        self.live.end()

    async def size(self, session_id: str, run_id: str) -> int:
        """Return the size of a run's journal in bytes; 0 if there is none. Raises `JournalError` like
        `read`."""
        self._check_open(run_id)
        return await finished(self._reader, lambda: self.shelf.size(session_id, run_id))

    async def session_ids(self) -> list[str]:
        """Return the ids of the sessions that have journals."""
        self._check_open("*")
        return await finished(self._reader, self.shelf.session_ids)

    async def written(self, session_id: str) -> dict[str, float]:
        """Return the run ids of the journals of a session, with the time of the last write to each."""
        self._check_open(f"{session_id}/*")
        return await finished(self._reader, lambda: self.shelf.runs(session_id))

    async def delete_runs(self, session_id: str, run_ids: Iterable[str]) -> None:
        """Delete the journals of ended runs."""
        self._check_open(f"{session_id}/*")
        runs = list(run_ids)
        # One job of the thread that also opens runs: a starting run finds its directory, or creates it.
        await self._jobs.performed(lambda: self.shelf.delete_runs(session_id, runs))

    async def delete_session(self, session_id: str) -> None:
        """Delete all journals of a session."""
        self._check_open(f"{session_id}/*")
        await self._jobs.performed(lambda: self.shelf.delete_session(session_id))

    def _event_time(self) -> float:
        """Return the current time, never less than before: the times of events give their order in all runs,
        even if the system clock is set back."""
        self._last_event_time = max(self._world.time(), self._last_event_time)
        return self._last_event_time

    def _publishing(self, writer: Runner) -> Runner:
        """Return `writer`, extended to publish after each job the records that the job has written."""

        def run(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
            def publish_first(result: outcome.Outcome[T]) -> None:
                while self._written:
                    records = self._written.popleft()
                    if self.live.watchers:
                        self.live.publish(records)
                done(result)

            writer(job, publish_first)

        return run

    def _check_open(self, run_id: str) -> None:
        if not self._open:  # the threads have ended: a caller would wait for ever
            raise JournalClosed(run_id, "used after the journals were closed", "This is a bug: report it.")


async def append_run_event(
    journals: Journals, session_id: str, run_id: str, event: str, payload: Any = None
) -> Record:
    """Append one event to the journal of a run without a writer, to end or repair it."""
    with await journals.open_run(session_id, run_id) as run:
        (record,) = await run.append((event, payload))
    return record


@asynccontextmanager
async def open_journals(
    root: Path,
    world: World,
    *,
    fsync: FsyncPolicy = "terminal-only",
    worker: Worker = worker_thread,
    close_by: Callable[[], float] = lambda: math.inf,
    shelf: Shelf | None = None,
) -> AsyncIterator[Journals]:
    """Open the run journals on a shelf; left out: as files below `root`. When the block ends, the appended
    events are written and everything is closed, within `CLOSE_WITHIN` seconds even if the disk hangs, and not
    later than the time that `close_by` returns then."""
    with ExitStack() as threads:
        writer = threads.enter_context(worker("journal-writer"))
        reader = threads.enter_context(worker("journal-reader"))
        shelf = shelf or FileShelf(root)
        journals = Journals(shelf, world, fsync, writer, reader)
        try:
            yield journals
        finally:
            journals._open = False
            journals._jobs.flush()
            by = min(trio.current_time() + CLOSE_WITHIN, close_by())
            with trio.move_on_at(by, shield=True) as patience:
                await journals._jobs.performed(shelf.close)
            if patience.cancelled_caught:
                log.error("disk hangs; run journals not closed")
