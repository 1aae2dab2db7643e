"""The schedule: all jobs of the gateway, and the changes that its owner makes."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import tzinfo
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ...base.due_times import BadTime, described, zone_named
from ...base.pulse import Wakeup
from ...base.world import World
from ...config.schema import GatewayConfig
from ...gateway.operations.api_sessions import find_or_create, new_session, reachable_origin, title_of
from ...state.db.database import Database
from ...state.db.engine import Db
from ...state.rules import schedule
from ...state.rules.schedule import JobRefused
from ...state.tables import jobs, sessions
from ...state.tables.jobs import Job
from ..http.http_errors import Refusal, json_response, read_json


class NewJob(msgspec.Struct, frozen=True):
    """The body with a new job. Its messages and their answers are part of the session; an unknown one is
    made."""

    session_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$")]
    when: Annotated[
        str,
        Meta(max_length=100, description="Like `in 20m`, `09:00`, `every 2h`, `daily 09:00`, `0 9 * * 1-5`."),
    ]
    text: Annotated[str, Meta(min_length=1, max_length=schedule.LONGEST_TEXT)]
    zone: Annotated[str, Meta(max_length=60)] = ""
    missed: Literal["once", "all", "skip"] = "once"


class JobChange(msgspec.Struct, frozen=True):
    """The body with a change of a job."""

    action: Literal["pause", "resume", "run"]


@dataclass(frozen=True, slots=True)
class ScheduleRoutes:
    """The handlers of the schedule."""

    database: Database
    config: GatewayConfig
    world: World
    connected: Container[tuple[str, str]]
    changed: Wakeup

    async def every(self, request: Request) -> Response:
        """`GET /api/schedule`: all jobs, the next one first."""
        found = await self.database.read(jobs.every)
        return json_response({"jobs": [_shown(job, self.world.zone) for job in found]})

    async def order(self, request: Request) -> Response:
        """`POST /api/schedule` `{session_id, when, text}`: order a job for a session. 201, with the job."""
        body = await read_json(request, NewJob)
        try:
            job = await self.database.write(self._order, body)
        except (BadTime, JobRefused) as error:
            raise Refusal(400, "bad_job", str(error), "Change the job, and send it again.") from error
        self.changed.set()
        return json_response({"job": _shown(job, self.world.zone)}, 201)

    def _order(self, db: Db, body: NewJob) -> Job:
        entry = sessions.by_id(db, body.session_id)
        if entry is None:
            new = new_session(self.config, self.world, body.session_id, title_of(body.text))
            entry, _ = find_or_create(db, new)
        return schedule.order(
            db,
            self.world.new_id()[:8],
            reachable_origin(entry, self.connected),
            body.when,
            body.text,
            now=self.world.time(),
            default=self.world.zone,
            zone=body.zone,
            missed=body.missed,
        )

    async def change(self, request: Request) -> Response:
        """`PATCH /api/schedule/{id}` `{action}`: pause or resume a job, or run it now."""
        return await self._change(request, (await read_json(request, JobChange)).action)

    async def remove(self, request: Request) -> Response:
        """`DELETE /api/schedule/{id}`: remove a job."""
        return await self._change(request, "remove")

    async def _change(self, request: Request, action: str) -> Response:
        job_id, world = request.path_params["job_id"], self.world
        try:
            await self.database.write(
                schedule.change,
                action,
                job_id,
                None,
                now=world.time(),
                default=world.zone,
            )
        except JobRefused as error:
            raise Refusal(404, "no_job", str(error), "GET /api/schedule has the list.") from error
        self.changed.set()
        return json_response({"id": job_id})


def _shown(job: Job, default: tzinfo | None) -> dict[str, Any]:
    """Return a job for clients."""
    source = job.source
    return {
        "id": job.job_id,
        "text": job.text,
        "when": described(job.rule, zone_named(job.zone, default)),
        "zone": job.zone or None,
        "missed": job.missed,
        "next_at": job.next_at,
        "last_at": job.last_at,
        "paused": job.paused,
        "platform": source.platform,
        "chat": source.chat_name or source.chat_id,
    }
