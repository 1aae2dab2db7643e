"""The command `/schedule`: list what is scheduled in a chat, add to it, and change it.

It may touch the schedule of the chat.
"""

from __future__ import annotations

from ...base.due_times import BadTime
from ...base.messages import SessionSource
from ...state.rules import schedule
from ...state.rules.schedule import JobRefused
from ...state.tables import jobs
from ..home.open_home import Home

_ACTIONS = ("pause", "resume", "remove", "run")
_USAGE = (
    "Write `/schedule WHEN: TEXT`, for example `/schedule daily 09:00: what is in my calendar?`, or "
    "`/schedule pause ID`, `resume ID`, `run ID`, `remove ID`."
)


async def schedule_command(home: Home, source: SessionSource, rest: str) -> str:
    """Obey the command with this text after its name, and return the reply."""
    database, world = home.database, home.world
    new_id, now, zone = world.new_id()[:8], world.time(), world.zone
    when, colon, text = rest.partition(": ")
    word, _, job_id = (part.strip() for part in rest.partition(" "))
    try:
        if not rest:
            return schedule.listed(await database.read(jobs.of_chat, source), zone)
        if word in _ACTIONS:
            await database.write(schedule.change, word, job_id, source, now=now, default=zone)
            reply = f"Done: {word} {job_id}."
        elif colon:
            job = await database.write(schedule.order, new_id, source, when, text, now=now, default=zone)
            reply = schedule.confirmed(job, zone)
        else:
            return _USAGE
    except (BadTime, JobRefused) as error:
        return str(error)
    home.schedule.set()
    return reply
