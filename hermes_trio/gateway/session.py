"""Sessions at work: one actor for each, which runs one turn after the other.

The row is the session; an actor is a cache that is started when there is something to do and leaves
when there has been nothing for a while. The inbox is its queue: a wake-up is only a hint to look there.
So nothing is lost by an actor that leaves, and nothing is done twice by one that is woken twice.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import structlog
import trio

from ..errors import GatewayError
from ..state import inbox, sessions, settle, turns
from ..state.entry import SessionEntry
from ..state.inbox import Received
from ..state.policy import is_fresh
from ..state.transcript import Message
from ..state.turns import Outcome, Turn
from ..state.undo import undo
from . import burst, words
from .notes import with_note
from .resume import ends_in_tool_result, judge_tail, tail_time
from .run import Task, run_turn

if TYPE_CHECKING:
    from .gateway import Gateway

IDLE = 300.0
RETRY_AFTER = 30.0

log = structlog.wrap_logger(logging.getLogger(__name__))

Job = Callable[[], Awaitable[None]]


class Actor:
    """A session that is being looked after."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.task: Task | None = None
        """The turn that runs now."""
        self.resume: Turn | None = None
        """The cut turn that is to be taken up first."""
        self.jobs: deque[Job] = deque()
        """What is to be done when no turn runs."""
        self.told_at = -math.inf
        """When somebody was told last what becomes of a message."""
        self._hint = trio.Event()

    def wake(self) -> None:
        """There may be something to do."""
        self._hint.set()

    async def woken(self) -> None:
        """Wait for that."""
        await self._hint.wait()
        self._hint = trio.Event()


class Sessions:
    """The actors there are. Lives with the `work` nursery, in which they run."""

    def __init__(self, gateway: Gateway, work: trio.Nursery) -> None:
        self._gateway, self._work = gateway, work
        self._actors: dict[str, Actor] = {}
        self.running: set[Actor] = set()
        """Those with a turn at this moment."""
        most = gateway.config.gateway.max_running_turns
        self._room = trio.CapacityLimiter(most or math.inf)
        self._closed = False

    @property
    def open(self) -> bool:
        """Whether new turns may begin. Looked at in the step that would begin one."""
        control = self._gateway.control
        return not self._closed and control.current is None and not control.held

    def wake(self, key: str, *, resume: Turn | None = None) -> bool:
        """See to it that this session is looked after. False if no turn may begin now."""
        actor = self._actors.get(key)
        if actor is None:
            if not self.open:
                return False
            actor = self._begin(key)
        actor.resume = resume or actor.resume
        actor.wake()
        return self.open

    def _begin(self, key: str) -> Actor:
        actor = self._actors[key] = Actor(key)
        self._work.start_soon(self._run, actor, name=f"session {key}")
        return actor

    def actor(self, key: str) -> Actor | None:
        """The actor of this session, if it has one."""
        return self._actors.get(key)

    async def between_turns(self, key: str, job: Job) -> None:
        """Do something with a session while none of its turns runs: as soon as the one that does has
        ended, or now if none can begin."""
        actor = self._actors.get(key) or (self._begin(key) if self.open else None)
        if actor is None:
            await job()
        else:
            actor.jobs.append(job)
            actor.wake()

    def close(self) -> None:
        """Let no turn begin any more: who is idle leaves now, who is busy after its turn."""
        self._closed = True
        self.let_idle_ones_go()

    def let_idle_ones_go(self) -> None:
        """Let everybody look whether there still is something to wait for."""
        for actor in self._actors.values():
            actor.wake()

    async def _run(self, actor: Actor) -> None:
        try:
            while self.open or actor.jobs:
                try:
                    while actor.jobs:
                        await actor.jobs.popleft()()
                    if await self._next_turn(actor):
                        continue
                except GatewayError as error:
                    # The disk is full, say. The message waits in the inbox, and so do we.
                    log.error("a turn could not be run", session=actor.key, error=str(error))
                    with trio.move_on_after(RETRY_AFTER):
                        await actor.woken()
                    continue
                with trio.move_on_after(IDLE) as patience:
                    await actor.woken()
                if patience.cancelled_caught:
                    return
        finally:
            del self._actors[actor.key]

    async def _next_turn(self, actor: Actor) -> bool:
        """Run the turn that is due, if one is."""
        gateway, resume = self._gateway, actor.resume
        if resume is not None:
            actor.resume = None
            async with gateway.resumes:
                # Asked again: since it was decided, the platform may have come back a second time.
                if await gateway.database.read(turns.was_resumed, resume.turn_id):
                    return True
                await self._run_turn(actor, await self._of(resume), [], resumes=resume.turn_id)
            return True
        rows = await self._said(actor)
        if not rows:
            return False
        if self._room.available_tokens < 1:
            gateway.reply(rows[0].event, words.waits_for_room(int(self._room.total_tokens)))
        async with self._room:
            rows = await self._said(actor)  # while we waited more may have come, or all may have gone
            if rows and self.open:
                entry = await gateway.store.get_or_create_session(rows[0].event.source, key=actor.key)
                await self._run_turn(actor, entry, rows)
        return True

    async def _said(self, actor: Actor) -> list[Received]:
        """The messages that the next turn answers. An album arrives picture by picture: it is waited for."""
        gateway = self._gateway
        patience = trio.current_time() + burst.LONGEST_WAIT
        while True:
            waiting = await gateway.database.read(inbox.pending, actor.key)
            rows = burst.first_of(waiting)
            more_until = burst.may_go_on_until(rows)
            wait = min(more_until - gateway.world.time(), patience - trio.current_time())
            if wait <= 0 or not self.open:
                return rows
            with trio.move_on_after(wait):
                await actor.woken()

    async def _of(self, turn: Turn) -> SessionEntry:
        entry = await self._gateway.database.read(sessions.by_id, turn.session_id)
        assert entry is not None  # noqa: S101 - a turn's session cannot go before it
        return entry

    async def _run_turn(
        self, actor: Actor, entry: SessionEntry, rows: list[Received], *, resumes: int | None = None
    ) -> Outcome | None:
        if not self.open:
            return None
        gateway = self._gateway
        actor.task = task = Task(rows, resumes, entry.origin)
        self.running.add(actor)
        gateway.turns_changed()
        try:
            history = await gateway.history(entry)
            text = "\n\n".join(row.event.text for row in rows)
            prompt = self._prompt(entry, history, text)
            return await run_turn(gateway, entry, task, prompt=prompt, history=history)
        finally:
            actor.task = None
            self.running.discard(actor)
            gateway.turns_changed()
            if gateway.report is not None:
                gateway.report.turn_is_over(actor.key)

    def _prompt(self, entry: SessionEntry, history: list[Message], text: str) -> str:
        gateway = self._gateway
        now, window = gateway.world.time(), gateway.config.agent.gateway_auto_continue_freshness
        marked_at = entry.mark.at if entry.mark else None
        fresh = is_fresh(tail_time(history), now, window) and (
            not entry.resume_pending or is_fresh(marked_at, now, window)
        )
        return with_note(
            text,
            tail=judge_tail(history),
            tool_tail=ends_in_tool_result(history),
            fresh=fresh,
            marked=entry.resume_pending,
            mark_reason=entry.resume_reason,
            reset_reason=entry.auto_reset_reason if not history else None,
        )


def stop(gateway: Gateway, key: str, how: Outcome) -> bool:
    """End the turn that runs in a session. False if none does."""
    actor = gateway.sessions.actor(key)
    if actor is None or actor.task is None:
        return False
    actor.task.end(how)
    return True


async def take_back(gateway: Gateway, key: str) -> str | None:
    """Forget the last exchange of a session; returns what had been said, None if there was nothing."""

    def step(db: sqlite3.Connection) -> str | None:
        entry = sessions.open_by_key(db, key)
        return undo(db, entry.session_id, gateway.world.time()) if entry is not None else None

    return await gateway.database.write(step)


async def begin_anew(gateway: Gateway, key: str) -> None:
    """End the session of a chat, with what runs in it, and with all that waits for it."""

    def step(db: sqlite3.Connection) -> SessionEntry | None:
        entry = sessions.open_by_key(db, key)
        if entry is not None:
            settle.end_session(db, entry.session_id, "session_reset", gateway.world.time())
        return entry

    stop(gateway, key, Outcome.RESET)
    entry = await gateway.database.write(step)
    if entry is not None:
        gateway.background.end_of(entry.session_id)
