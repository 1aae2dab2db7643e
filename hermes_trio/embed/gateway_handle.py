"""The gateway as the program around it uses it: everything may be called on the loop of that program.

`say` and `run` differ in who owns the run. A message of `say` is answered like a message in a chat, also
after its caller is gone. A run of `run` belongs to its block, and ends with it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Self

from ..base.errors import GatewayError
from ..base.events import Event, RunCancelled, RunCompleted, RunFailed
from ..base.messages import SessionSource
from ..gateway.ending.endings_table import Ending
from ..gateway.facade import RunningGateway
from ..host.home.state_file import Status
from ..state.rules.store import key_of
from ..state.tables import sessions
from ..state.tables.session_entry import SessionEntry
from ..state.tables.transcript import TranscriptRow
from .followed_run import FollowedRun, begin_run
from .host_loop import HostLoop


class RunUnanswered(GatewayError):
    """A run ended without an answer. `code` is `cancelled`, `interrupted` if the gateway ended first,
    `failed`, or the code of the model's error."""

    def __init__(self, run_id: str, problem: str, code: str) -> None:
        super().__init__(f"run {run_id}: {problem or 'it was stopped'}")
        self.run_id, self.problem, self.code = run_id, problem, code


class Run:
    """A run and its events: iterate over it. After the last event the iteration ends."""

    def __init__(self, followed: FollowedRun, loop: HostLoop, session: str | SessionSource) -> None:
        self.run_id = followed.run_id
        self.session = session
        """The session or the source in which it runs; a later run with it continues the conversation."""
        self._followed, self._loop = followed, loop
        self._unread: deque[Event] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        if not self._unread:
            self._unread.extend(await self._loop.call(self._followed.next))
        if not self._unread:
            raise StopAsyncIteration
        return self._unread.popleft()

    async def result(self) -> str:
        """Wait for the end of the run, and return its answer. Raises `RunUnanswered`."""
        async for event in self:
            if isinstance(event, RunCompleted):
                return event.output
            if isinstance(event, RunFailed):
                raise RunUnanswered(self.run_id, event.error, event.code)
            if isinstance(event, RunCancelled):
                break
        raise RunUnanswered(self.run_id, "", "cancelled")

    async def answer(self, request_id: str, answer: str) -> bool:
        """Answer an approval (`once`, `session`, `always` or `deny`) or a question of this run. Return False
        if it is not open any more, or if this is no answer to it."""
        return await self._loop.call(partial(self._followed.answer, request_id, answer))


class Gateway:
    """A running gateway."""

    def __init__(self, running: RunningGateway, loop: HostLoop) -> None:
        self._running, self._loop = running, loop

    @property
    def home(self) -> Path:
        """The directory of the gateway."""
        return self._running.home.path

    @property
    def ending(self) -> Ending | None:
        """Why it ends or has ended: `kind`, `cause`, `grace` and `asked_by`; None while it serves."""
        return self._running.control.current

    def stop(self, *, restart: bool = False, grace: float | None = None, asked_by: str = "") -> bool:
        """Request the end, with the grace of the configuration if none is given. Return False if an earlier
        request stays in force. The body of the block is cancelled when the gateway has ended."""
        return self._running.stop(restart=restart, grace=grace, asked_by=asked_by)

    def status(self) -> Status:
        """Return the state, the number of running turns and the state of each platform."""
        return self._running.home.board.status

    async def metrics(self) -> str:
        """Return counters and measurements in the format of Prometheus."""
        from ..web.app import metrics_of  # loads the whole web

        return (await self._loop.call(metrics_of(self._running).text)).decode()

    async def say(self, session: str | SessionSource, text: str) -> str:
        """Store a message, and return its answer. The session is one of the program's own, by any id, or the
        chat of a source, which gets the answer too. The message is answered also if the caller is cancelled.
        Raises `RunUnanswered`, and `GatewayError` if the message is not stored."""
        begun = begin_run(self._running, session, text, ends_with_block=False)
        async with self._loop.entered(begun) as followed:
            return await Run(followed, self._loop, session).result()

    @asynccontextmanager
    async def run(self, text: str, *, session: str | SessionSource | None = None) -> AsyncIterator[Run]:
        """Store a message in this session or in a new one, and yield its run. Leaving the block ends the
        run. Raises `GatewayError` if the message is not stored."""
        place = self._running.home.world.new_id() if session is None else session
        begun = begin_run(self._running, place, text, ends_with_block=True)
        async with self._loop.entered(begun) as followed:
            yield Run(followed, self._loop, place)

    async def history(self, session: str | SessionSource) -> Sequence[TranscriptRow]:
        """Return the transcript of a session, with the recovered parts of cut turns; empty if it is not
        known."""
        return await self._loop.call(partial(self._history, session))

    async def _history(self, session: str | SessionSource) -> Sequence[TranscriptRow]:
        home = self._running.home
        if not isinstance(session, str):
            entry = await home.store.get_session_entry(key_of(session, home.config))
            session = entry.session_id if entry is not None else ""
        found = await home.reader.get_session(session)
        return found.messages if found is not None else ()

    async def sessions(self, *, limit: int = 50, offset: int = 0) -> Sequence[SessionEntry]:
        """Return sessions of all platforms, the most recently used first."""
        read = partial(self._running.home.database.read, sessions.newest, limit=limit, offset=offset)
        return await self._loop.call(read)
