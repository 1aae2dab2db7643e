"""A session at work: its state, and the task that runs one turn after the other.

The row in the database is the session; this object is a cache, started when there is work and ended after a
while without any. The inbox is its queue, and a wake-up is only a hint to look there. So nothing is lost when
the object ends, and nothing is done twice when it is woken twice.

While a turn runs, the busy mode of a message decides:

| mode | |
|---|---|
| interrupt | the turn is cancelled, and the message begins the next one |
| queue | the message waits, in the order of arrival |
| steer | the message joins the running turn after the next tool result; else it waits |

While the agent is in a part that must not be interrupted, an interrupting message waits too.

A session may touch its rows, the chats and its turn; other sessions it does not know.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

import trio

from ...base.errors import ForeignChat, GatewayError
from ...base.messages import MessageEvent
from ...base.pulse import Wakeup
from ...log import Log
from ...state.tables import inbox, sessions
from ...state.tables.inbox import Received
from ...state.tables.turns import Outcome, TurnRow
from ..ending.control import Control
from ..home.open_home import Home
from ..links.access import Access
from ..outbound import texts
from ..outbound.chats import Chats
from ..outbound.rows import Chat
from ..turn.attachments import with_files
from ..turn.attribution import with_attribution
from ..turn.handle import TurnHandle
from ..turn.run import Turns
from .batching import LONGEST_WAIT, next_batch
from .running_turns import RunningTurns

IDLE = 300.0
"""Seconds without work after which the task of a session ends."""
RETRY_AFTER = 30.0
FOLLOW_UP = 3.0
"""Seconds from the begin of a turn in which its interruption is not announced: the new message completes the
one before."""
TELL_EVERY = 30.0
"""Seconds between two notices to people who have to wait."""

Mode = Literal["interrupt", "queue", "steer"]
Job = Callable[[], Awaitable[None]]

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class SessionParts:
    """The parts of the gateway that every session uses."""

    home: Home
    chats: Chats
    control: Control
    access: Access
    running: RunningTurns
    turns: Turns


class Session:
    """One session at work."""

    def __init__(self, key: str, parts: SessionParts, *, leave: Callable[[str], object]) -> None:
        """`leave` is called with the key at the end of the task."""
        self.key, self._leave = key, leave
        self._home, self._chats = parts.home, parts.chats
        self._control, self._access = parts.control, parts.access
        self._running, self._turns = parts.running, parts.turns
        self._handle: TurnHandle | None = None
        """The turn that runs now."""
        self._resume: TurnRow | None = None
        """The cut turn that is resumed first."""
        self._jobs: list[tuple[Job, trio.Event]] = []
        """Jobs for the time between two turns, each with the event that is set after it."""
        self._early: list[tuple[MessageEvent, int, Mode]] = []
        """Messages that arrived while no turn ran. The next turn may have been read from the inbox before
        them."""
        self._told_at = -math.inf
        self._hint = Wakeup()
        self._more_waits = True
        """False if the inbox was empty when the last turn ended, and nobody has woken the session since."""
        self._scope = trio.CancelScope()
        self._over = trio.Event()

    # --- for other tasks; none of these waits ---

    def wake(self, resume: TurnRow | None = None) -> None:
        """Look for work; resume this cut turn first, if one is given."""
        self._resume = resume or self._resume
        self._hint.set()

    def between_turns(self, job: Job) -> trio.Event:
        """Run a job as soon as no turn runs; repeat it until the disk takes what it stores. Return an event
        that is set when the job is done, or dropped because the gateway ends."""
        done = trio.Event()
        self._jobs.append((job, done))
        self._hint.set()
        return done

    def cut(self) -> trio.Event:
        """Cut the turn that runs, and end the task. Return an event that is set when it has ended."""
        self._scope.cancel(reason="the gateway ends")
        return self._over

    @property
    def runs_turn(self) -> bool:
        return self._handle is not None

    def may_tell(self) -> bool:
        """Return True if a person may be told now that the message waits: at most every `TELL_EVERY`
        seconds."""
        now = trio.current_time()
        if now - self._told_at < TELL_EVERY:
            return False
        self._told_at = now
        return True

    def meet(self, event: MessageEvent, inbox_id: int, mode: Mode) -> str | None:
        """Apply the busy mode of a stored message. Return the text to tell its sender, if it has to wait."""
        if event.kind == "internal":
            return None  # it interrupts nothing
        if self._handle is None:
            self._early.append((event, inbox_id, mode))
            return None
        return self._apply_mode(self._handle, event, inbox_id, mode)

    @staticmethod
    def _apply_mode(handle: TurnHandle, event: MessageEvent, inbox_id: int, mode: Mode) -> str | None:
        if any(row.inbox_id == inbox_id for row in handle.rows):
            return None  # the turn answers this very message
        if mode == "steer" and event.text.strip() and not event.attachments:
            handle.steered.append(inbox_id)
            return texts.steered()
        if mode != "interrupt":
            return texts.queued()
        if handle.uninterruptible:
            return texts.not_now(handle.uninterruptible[-1])
        handle.end(Outcome.SUPERSEDED)
        return texts.interrupting() if trio.current_time() - handle.began > FOLLOW_UP else None

    # --- the task ---

    async def run(self) -> None:
        """Run turns and jobs until there are none for a while, or no turn may begin any more."""
        try:
            with self._scope:
                await self._run()
        finally:
            self._leave(self.key)
            self._over.set()
            for _, done in self._jobs:
                done.set()

    async def _run(self) -> None:
        while self._control.takes_turns or self._jobs:
            self._more_waits |= self._hint.is_set()
            self._hint.clear()
            try:
                while self._jobs:
                    job, done = self._jobs[0]
                    await job()
                    self._jobs.pop(0)  # not before: it is repeated if the disk is full
                    done.set()
                if self._more_waits and await self._next_turn():
                    continue
            except ForeignChat:
                return  # what waits in this session is taken up by the owner of its chat
            except GatewayError as error:
                # A full disk, for example. The message waits in the inbox.
                log.error("turn not run; retrying", session=self.key, error=str(error))
                with trio.move_on_after(RETRY_AFTER):
                    await self._hint.wait()
                continue
            with trio.move_on_after(IDLE):
                await self._hint.wait()
            if not self._hint.is_set():  # it may have been set in the same moment in which the wait timed out
                return

    async def _next_turn(self) -> bool:
        """Run the turn that is due. Return False if none is."""
        home, running = self._home, self._running
        resume = self._resume
        if resume is not None:
            async with running.resumes, running.limit:
                self._early.clear()  # these messages come after the resumed turn
                entry = await home.database.read(sessions.by_id, resume.session_id)
                if entry is not None:  # else it was deleted meanwhile
                    await self._run_turn(TurnHandle([], entry.origin, resume.session_id, resume.turn_id))
            self._resume = None  # not before: it is repeated if the disk is full
            return True
        rows = await self._next_batch()
        if not rows:
            return False
        waits = not running.limit.has_room
        if waits and running.limit.is_reached and self.may_tell():
            self._chats.reply(rows[0].event, texts.waits_for_room(running.limit.running))
        async with running.limit:
            if waits:  # meanwhile more messages may have arrived, or all may have been dropped
                rows = await self._next_batch()
            if rows:
                await self._run_turn(TurnHandle(rows, rows[-1].event.source))
        return True

    async def _next_batch(self) -> list[Received]:
        """Return the messages that the next turn answers, once the batch is complete."""
        database, world = self._home.database, self._home.world
        patience = trio.current_time() + LONGEST_WAIT  # bounds the wait if the time of day is set back
        while True:
            self._hint.clear()
            early, self._early = self._early, []
            waiting = await database.read(inbox.pending, self.key)
            if early:
                ids = {row.inbox_id for row in waiting}
                self._early = [one for one in early if one[1] in ids] + self._early
            if not waiting:
                return []
            rows, complete_at = next_batch(waiting)
            if not await self._has_access(rows[0]):
                await database.write(inbox.drop, rows[0].inbox_id, world.time())
                continue
            wait = min(complete_at - world.time(), patience - trio.current_time())
            if wait <= 0 or not self._control.takes_turns:
                return rows
            with trio.move_on_after(wait):
                await self._hint.wait()

    async def _has_access(self, row: Received) -> bool:
        """Return True if the sender of a message, which may have waited long, still has access. A message
        with a promised run came through a door that asks for a key."""
        source = row.event.source
        if row.event.run_id or await self._access.may_talk(source):
            return True
        log.info("access lost while a message waited", platform=source.platform, user=source.user_id)
        return False

    async def _run_turn(self, handle: TurnHandle) -> None:
        if not self._control.takes_turns:
            return
        home, rows = self._home, handle.rows
        self._handle = handle
        early, self._early = self._early, []
        for event, inbox_id, mode in early:
            self._apply_mode(handle, event, inbox_id, mode)
        try:
            with self._running.turn(self.key, handle):
                if any(row.event.attachments for row in rows):
                    source = rows[0].event.source
                    connection = self._chats.connection(Chat.of(source))
                    entry = await home.store.get_or_create_session(source, key=self.key)
                    rows = await with_files(home, connection, entry.session_id, rows)
                handle.rows = [with_attribution(row, home.config) for row in rows]
                self._more_waits = await self._turns.run(self.key, handle, self._running.changed.set)
        finally:
            self._handle = None
