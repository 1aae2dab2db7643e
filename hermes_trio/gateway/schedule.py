"""The task that sends the messages of jobs when they are due.

It waits for the next due time, or for a change of the schedule. A wait is measured by a clock that only goes
on, and due times are read from the clock on the wall, which people set and which a sleeping machine finds
changed. So no wait is longer than `LOOK_EVERY` while there are jobs.

It may touch the schedule and the sessions.
"""

from __future__ import annotations

import trio

from ..base.errors import StoreError
from ..log import Log
from ..state.rules.schedule import fire_due
from ..state.tables import jobs
from .ending.control import Control
from .home.open_home import Home
from .session.registry import Sessions

LOOK_EVERY = 30.0

log = Log(__name__)


async def keep_schedule(home: Home, control: Control, sessions: Sessions) -> None:
    """Store the messages of jobs when they are due, and wake their sessions. Never returns."""
    while True:
        home.schedule.clear()
        try:
            wait = await _seconds_to_next(home, control, sessions)
        except StoreError as error:
            log.warning("schedule not read", error=str(error))
            wait = LOOK_EVERY
        with trio.move_on_after(wait):
            await home.schedule.wait()


async def _seconds_to_next(home: Home, control: Control, sessions: Sessions) -> float:
    """Send what is due, and return the seconds to the next look."""
    world, database = home.world, home.database
    due = await database.read(jobs.next_due)
    if due is not None and due <= world.time() and control.takes_turns:
        keys = await database.write(fire_due, world.time(), world.zone, home.store.key_of)
        if keys:
            log.info("scheduled messages stored", sessions=len(set(keys)), messages=len(keys))
        if home.owner is None:  # of several gateways the owner of a chat finds its messages by itself
            for key in keys:
                sessions.wake(key)
        due = await database.read(jobs.next_due)
    if due is None:
        return LOOK_EVERY if home.owner is not None else float("inf")
    return min(max(due - world.time(), 0.0), LOOK_EVERY) if control.takes_turns else LOOK_EVERY
