"""Writing run journals: one owner for each run, one file for each run, whole lines, in order.

Events get their seq when they happen; those that are appended together reach the file in one write,
and `append` returns when they are there. So whoever shows an event only after `append` keeps the
promise that a killed process loses nothing it showed. Only a terminal record is waited for on the
disk itself, and not that of a cut run: there the durable fact is the turn's row.

What could not be written is not lost: it goes first in the next try, and has a last one when the run is
closed. Who is cancelled while waiting leaves at once; its events are written all the same.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import trio

from ..base.errors import JournalClosed, JournalError
from ..base.events import Event
from ..base.world import World
from ..host.loop.worker import Batcher, BatchTimes, Runner, Worker, finished, perform_each, worker_thread
from ..log import Log
from .broadcast import Broadcast
from .reader import Reading, journals_here, read_run, runs_here, unreadable
from .record import TERMINAL, VERSION, Record, journal_path, lines_of, session_path, terminal_state
from .replay import KnownRun, MissedEvents, missed_events
from .run_file import FsyncPolicy, RunFile, unwritable

Jobs = Batcher[Callable[[], Any], Any]

MAX_BATCH = 512
CLOSE_WITHIN = 2.0

log = Log(__name__)


class RunWriter:
    """The one writer of a run. Made by `Journals.open_run`."""

    def __init__(self, file: RunFile, jobs: Jobs, live: Broadcast) -> None:
        self._file, self._jobs, self._live = file, jobs, live
        self._unseen: list[Sequence[Record]] = []
        """What happened and is not in the file yet. In the hands of the writing thread."""
        self._last_seq = file.last_seq
        self._ended = file.ended
        self._open = True

    @property
    def last_seq(self) -> int:
        """The seq of the latest event."""
        return self._last_seq

    @property
    def ended(self) -> bool:
        """Whether the latest event is the last one of the run."""
        return self._ended

    async def append(self, *happened: Event | tuple[str, Any]) -> list[Record]:
        """Write down what happened, in this order, and return the records once they are in the file.

        An event is one of ours, or a name with a JSON value. Behind a terminal event nothing follows.
        Raises `JournalClosed`, `JournalUnwritable`, or `JournalError` for what cannot be written down;
        then no seq is used up.
        """
        if not happened:
            return []
        records, write = self._taken(happened)
        await self._jobs.performed(write)
        return records

    def leave(self, *happened: Event | tuple[str, Any]) -> list[Record]:
        """Like `append` for who has no time to wait: it is on its way when this returns, and in the file
        when the journals are closed. What cannot be written then is reported."""
        records, write = self._taken(happened)
        self._jobs.hand_over(write)
        return records

    def _taken(self, happened: Iterable[Event | tuple[str, Any]]) -> tuple[list[Record], Callable[[], None]]:
        """The records of what happened, which have their seqs now, and what writes them."""
        records, lines = self._lines(happened)
        self._last_seq += len(records)
        self._ended = records[-1].terminal
        sync = self._file.must_sync(records[-1].terminal_state)

        def write() -> None:
            self._unseen.append(records)
            self._file.write(lines, sync=sync)
            self._live.written(self._unseen)
            self._unseen.clear()

        return records, write

    def _lines(self, happened: Iterable[Event | tuple[str, Any]]) -> tuple[list[Record], bytes]:
        run, session, at = self._file.run_id, self._file.session_id, self._live.moment()
        if not self._open:
            raise JournalClosed(run, "written to after its block", "This is a bug: report it.")
        records, ended = [], self._ended
        for seq, item in enumerate(happened, start=self._last_seq + 1):
            name, payload = (item.event, item) if isinstance(item, Event) else _checked(run, *item)
            if ended:
                raise JournalClosed(run, f"{name!r} behind the end of the run", "This is a bug: report it.")
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
            run, f"{name!r} has no name or no mapping for a payload", "Give it both, in JSON values."
        )
    return name, payload


class Journals:
    """The run journals of one home. Made by `open_journals`."""

    def __init__(self, root: Path, world: World, fsync: FsyncPolicy, writer: Runner, reader: Runner) -> None:
        self.root = root
        self._fsync = fsync
        self.live = Broadcast(world)
        """What happens in all runs, for whoever watches."""
        self._jobs: Jobs = Batcher(self.live.telling(writer), perform_each, limit=MAX_BATCH)
        self._reader = reader
        self._open = True

    @property
    def took(self) -> BatchTimes:
        """How long writing has taken."""
        return self._jobs.took

    @asynccontextmanager
    async def open_run(self, session_id: str, run_id: str) -> AsyncIterator[RunWriter]:
        """The writer of a run, for as long as the block. A second one for the same run is refused with
        `JournalBusy`, also from another process. The file is closed behind the last write, without
        waiting for it: a disk that hangs delays nobody's end."""
        self._check_open(run_id)
        journal_path(self.root, session_id, run_id)  # refuses bad ids before anything is touched
        opened: list[RunFile] = []

        def open_it() -> RunFile:
            opened.append(RunFile(self.root, session_id, run_id, self._fsync))
            return opened[0]

        def close_it() -> None:
            for file in opened:
                file.close()

        writer: RunWriter | None = None
        try:
            writer = RunWriter(await self._jobs.performed(open_it), self._jobs, self.live)
            yield writer
        finally:
            if writer is not None:
                writer._open = False
            self._jobs.hand_over(close_it)

    async def read(self, session_id: str, run_id: str) -> Reading:
        """The journal of a run, as it is now. Raises `JournalError` where it cannot be read."""
        self._check_open(run_id)
        return await finished(self._reader, lambda: read_run(self.root, session_id, run_id))

    async def missed(self, runs: Sequence[KnownRun], cursor: str) -> MissedEvents:
        """What happened in these runs after a moment, and what of it cannot be told for sure."""
        self._check_open("*")
        return await finished(self._reader, lambda: missed_events(self.root, runs, cursor))

    async def nothing_more(self) -> None:
        """Let all who watch see what was handed over until now, and then the end."""
        await self._jobs.performed(lambda: None)
        self.live.end()

    async def size(self, session_id: str, run_id: str) -> int:
        """How many bytes the journal of a run has; 0 if there is none. `JournalError` like `read`."""
        self._check_open(run_id)
        path = journal_path(self.root, session_id, run_id)

        def look() -> int:
            try:
                return path.stat().st_size
            except FileNotFoundError:
                return 0
            except OSError as error:
                raise unreadable(run_id, error) from error

        return await finished(self._reader, look)

    async def session_ids(self) -> list[str]:
        """The sessions that have a directory here, be it empty."""
        self._check_open("*")
        return await finished(self._reader, lambda: journals_here(self.root))

    async def written(self, session_id: str) -> dict[str, float]:
        """The runs of a session that have a journal, and when each was last written to."""
        self._check_open(f"{session_id}/*")
        return await finished(self._reader, lambda: runs_here(self.root, session_id))

    async def delete_runs(self, session_id: str, run_ids: Iterable[str]) -> None:
        """Remove the journals of runs that are over, and the directory if nothing is left in it."""
        self._check_open(f"{session_id}/*")
        paths = [journal_path(self.root, session_id, run_id) for run_id in run_ids]

        def remove() -> None:
            try:
                for path in paths:
                    path.unlink(missing_ok=True)
                with suppress(OSError):  # something is left in it, or it is gone
                    session_path(self.root, session_id).rmdir()
            except OSError as error:
                raise unwritable(f"{session_id}/*", error) from error

        # Where runs are opened, in one job: a run that begins finds its directory, or makes it.
        await self._jobs.performed(remove)

    async def delete_session(self, session_id: str) -> None:
        """Remove the journals of a session, for ever."""
        self._check_open(f"{session_id}/*")
        directory = session_path(self.root, session_id)

        def remove() -> None:
            try:
                if directory.exists():
                    shutil.rmtree(directory)
            except OSError as error:
                raise unwritable(f"{session_id}/*", error) from error

        await self._jobs.performed(remove)

    def _check_open(self, run_id: str) -> None:
        if not self._open:  # the threads are gone: whoever waited for one would wait for ever
            raise JournalClosed(run_id, "used after the journals were closed", "This is a bug: report it.")


async def append_run_event(
    journals: Journals, session_id: str, run_id: str, event: str, payload: Any = None
) -> Record:
    """Append one event to the journal of a run that nobody is writing: to close it, or to mend it."""
    async with journals.open_run(session_id, run_id) as run:
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
) -> AsyncIterator[Journals]:
    """The run journals below `root`. Leaving waits until what was appended is written and every file
    is closed, or for `CLOSE_WITHIN` seconds of a disk that hangs, and not later than `close_by` says."""
    with ExitStack() as threads:
        writer = threads.enter_context(worker("journal-writer"))
        reader = threads.enter_context(worker("journal-reader"))
        journals = Journals(root, world, fsync, writer, reader)
        try:
            yield journals
        finally:
            journals._open = False
            journals._jobs.flush()
            by = min(trio.current_time() + CLOSE_WITHIN, close_by())
            with trio.move_on_at(by, shield=True) as patience:
                await journals._jobs.performed(lambda: None)
            if patience.cancelled_caught:
                log.error("the disk hangs; left the run journals unclosed")
