"""Waiting for the end of the turn that runs in a session."""

from __future__ import annotations

import trio

from ..session.registry import Sessions


async def wait_for_turn_end(sessions: Sessions, key: str) -> None:
    """Wait until the turn of this session has ended, and all jobs that were queued for its end are done.
    Return at once if no turn runs."""
    ended = trio.Event()

    async def job() -> None:
        await trio.lowlevel.checkpoint()
        ended.set()

    await sessions.after_turn(key, job)
    await ended.wait()
