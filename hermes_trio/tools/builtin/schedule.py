"""The tool `schedule`: messages that come at their time, into the chat where they were ordered."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ...base.due_times import BadTime
from ...base.messages import SessionSource
from ...state.db.engine import Db
from ...state.rules import schedule
from ...state.rules.schedule import JobRefused
from ...state.tables import jobs, sessions
from ..tool import Result, Tool, ToolFailed, Workplace


class ScheduleArguments(msgspec.Struct, frozen=True):
    action: Literal["add", "list", "pause", "resume", "remove", "run"] = "list"
    when: Annotated[
        str,
        Meta(
            max_length=100,
            description="For add: in 20m, 09:00, 2026-11-21 09:00, every 2h, daily 09:00, 0 9 * * 1-5.",
        ),
    ] = ""
    text: Annotated[
        str, Meta(max_length=schedule.LONGEST_TEXT, description="For add: what you are told to do then.")
    ] = ""
    zone: Annotated[str, Meta(max_length=60, description="Time zone, like Europe/Berlin.")] = ""
    missed: Annotated[
        Literal["once", "all", "skip"],
        Meta(description="What happens after a downtime: one message for all missed times, one each, none."),
    ] = "once"
    id: Annotated[str, Meta(max_length=40, description="The job, for other actions.")] = ""


async def _schedule(arguments: ScheduleArguments, place: Workplace) -> Result:
    source = await place.database.read(_source, place.session_id)
    world = place.world
    try:
        match arguments.action:
            case "list":
                return Result(schedule.listed(await place.database.read(jobs.of_chat, source), world.zone))
            case "add":
                job = await place.database.write(
                    schedule.order,
                    world.new_id()[:8],
                    source,
                    arguments.when,
                    arguments.text,
                    now=world.time(),
                    default=world.zone,
                    zone=arguments.zone,
                    missed=arguments.missed,
                )
                said = schedule.confirmed(job, world.zone)
            case action:
                await place.database.write(
                    schedule.change,
                    action,
                    arguments.id,
                    source,
                    now=world.time(),
                    default=world.zone,
                )
                said = f"Done: {action} {arguments.id}."
    except (BadTime, JobRefused) as error:
        raise ToolFailed(str(error)) from error
    place.schedule_changed()
    return Result(said)


def _source(db: Db, session_id: str) -> SessionSource:
    entry = sessions.by_id(db, session_id)
    if entry is None or entry.origin is None:
        raise ToolFailed("This conversation belongs to no chat, so nothing can be sent to it later.")
    return entry.origin


SCHEDULE = Tool(
    "schedule",
    "Reminders and repeated tasks of this chat. At its time you get the text as a message, and your answer "
    "goes to the chat.",
    ScheduleArguments,
    _schedule,
)
