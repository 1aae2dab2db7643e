"""The registry of the sessions at work. Each is a task in the `work` nursery, started when it has work to do.

Other tasks reach a session only through this registry.
"""

from __future__ import annotations

import trio

from ...state.tables.turns import TurnRow
from .session import Job, Session, SessionParts


class Sessions:
    """The sessions at work, by key."""

    def __init__(self, parts: SessionParts, work: trio.Nursery) -> None:
        self._parts, self._work = parts, work
        self._sessions: dict[str, Session] = {}

    def wake(self, key: str, *, resume: TurnRow | None = None) -> Session | None:
        """Make the session of this key look for work. Return None if no turn may begin now."""
        if not self._parts.control.takes_turns:
            return None
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = Session(key, self._parts, leave=self._sessions.pop)
            self._work.start_soon(session.run, name=f"session {key}")
        session.wake(resume)
        return session

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

    def look_again(self) -> None:
        """Wake every session, so that it ends if no turn may begin any more."""
        for session in self._sessions.values():
            session.wake()
