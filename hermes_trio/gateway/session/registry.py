"""The registry of the sessions at work. Each is a task in the `work` nursery, started when it has work to do.

Other tasks reach a session only through this registry.
"""

from __future__ import annotations

import gc
from contextvars import copy_context
from functools import partial

import trio

from ...state.tables.turns import TurnRow
from .session import Job, Session, SessionParts

MOST_AT_ONCE = 500
"""Number of turns up to which all are cut together while Python's garbage collector is on."""
GROUP = 25
"""Number of turns in a group of more than that. A turn that is cut holds many objects until its end is
stored. With thousands of them at once, full garbage collections take longer than all the rest. Without the
collector groups would only cost time: the turns that wait to be cut go on with their answers meanwhile."""
CUT_WITHIN = 2.0
"""Seconds after which the last group is cut, however long the others take to end."""


class Sessions:
    """The sessions at work, by key."""

    def __init__(self, parts: SessionParts, work: trio.Nursery) -> None:
        self._parts, self._work = parts, work
        self._sessions: dict[str, Session] = {}
        self._context = copy_context()

    def wake(self, key: str, *, resume: TurnRow | None = None) -> Session | None:
        """Make the session of this key look for work. Return None if no turn may begin now."""
        if not self._parts.control.takes_turns:
            return None
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session(key, self._parts, leave=self._sessions.pop)
            # Not in the context of the task that wakes it: it would see that of its first message for ever.
            self._context.copy().run(partial(self._work.start_soon, session.run, name=f"session {key}"))
        session.wake(resume)
        return session

    def wake_unless_busy(self, key: str) -> None:
        """Make the session of this key look for work, if no turn of it runs."""
        session = self._sessions.get(key)
        if session is None or not session.runs_turn:
            self.wake(key)

    async def after_turn(self, key: str, job: Job) -> None:
        """Run a job as soon as no turn of this session runs: now, if none does."""
        session = self._sessions.get(key)
        if session is None or not session.runs_turn:
            await job()
        else:
            session.between_turns(job)

    async def turn_ended(self, key: str) -> None:
        """Wait until no turn of this session runs, and the jobs that were queued for that time are done."""
        session = self._sessions.get(key)
        if session is None or not session.runs_turn:
            await trio.lowlevel.checkpoint()
        else:
            await session.between_turns(trio.lowlevel.checkpoint).wait()

    async def cut(self) -> None:
        """Cut all turns. Many are cut in groups while Python's garbage collector is on: the next one when the
        one before has ended, or does not end soon."""
        sessions = list(self._sessions.values())
        size = GROUP if len(sessions) > MOST_AT_ONCE and gc.isenabled() else max(1, len(sessions))
        for first in range(0, len(sessions), size):
            group = [session.cut() for session in sessions[first : first + size]]
            with trio.move_on_after(CUT_WITHIN * len(group) / len(sessions)):
                for over in group:
                    await over.wait()

    def look_again(self) -> None:
        """Wake every session, so that it ends if no turn may begin any more."""
        for session in self._sessions.values():
            session.wake()
