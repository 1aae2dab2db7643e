"""Administration: stopping, restarting and holding the gateway, and a link for a browser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ...base.errors import GatewayError
from ...base.world import World
from ...gateway.ending.control import Control
from ...gateway.ending.endings_table import Supervisor
from ...gateway.operations.gateway_actions import LiveTerms, RequestEnding, RestartLive
from ...gateway.session.running_turns import RunningTurns
from ...host.home.markers import DRAIN_REQUEST, consume, write_drain_request
from ...host.service.successor import READY_WITHIN
from ..http.http_errors import Refusal, json_response, read_json

ASKED_BY = "the API"


class EndingRequest(msgspec.Struct, frozen=True):
    """The body of a stop or a restart. `grace` is in seconds; the default is that of the configuration."""

    grace: Annotated[float, Meta(ge=0, le=10_000_000)] | None = None


class RestartRequest(EndingRequest, frozen=True):
    """The body of a restart. With `live` another process takes over: if it is ready within `ready_within`
    seconds, and as soon as no turn runs, or after `wait` seconds and the grace."""

    live: bool = False
    wait: Annotated[float, Meta(ge=0, le=10_000_000)] = 60.0
    ready_within: Annotated[float, Meta(ge=0, le=3600)] = READY_WITHIN


class HoldRequest(msgspec.Struct, frozen=True):
    """The body that begins or cancels a hold."""

    action: Literal["begin", "cancel"] = "begin"


@dataclass(frozen=True, slots=True)
class AdminRoutes:
    """The handlers of the administration routes."""

    home: Path
    world: World
    control: Control
    running: RunningTurns
    supervised_by: Supervisor
    request_ending: RequestEnding
    restart_live: RestartLive
    new_link: Callable[[], str]

    async def stop(self, request: Request) -> Response:
        """`POST /api/admin/stop` `{grace}`: stop the gateway. Running turns have `grace` seconds to end."""
        return self._end(await read_json(request, EndingRequest), restart=False)

    async def restart(self, request: Request) -> Response:
        """`POST /api/admin/restart` `{grace, live, wait}`: stop the gateway in the same way, and start it
        again. With `live` the answer comes when the process that takes over is ready, or why it is not."""
        asked = await read_json(request, RestartRequest)
        if asked.live:
            return await self._restart_live(asked)
        if self.supervised_by is Supervisor.HOST:
            raise Refusal(
                409,
                "embedded",
                "This gateway is a part of another program, and cannot restart it.",
                "Restart that program, or stop the gateway instead.",
            )
        return self._end(asked, restart=True)

    async def drain(self, request: Request) -> Response:
        """`POST /api/admin/drain` `{action: begin|cancel}`: begin no turn from now on, or begin turns again.
        A marker file records it, so it also holds after a restart, and `hermes-trio drain cancel` can cancel
        it."""
        begin = (await read_json(request, HoldRequest)).action == "begin"
        if begin:
            write_drain_request(self.home, self.world, principal=ASKED_BY)
        else:
            consume(self.home, DRAIN_REQUEST)
        self.control.hold(begin)
        state = {"held": self.control.held, "active_agents": len(self.running)}
        return json_response(state, 202)

    async def link(self, request: Request) -> Response:
        """`POST /api/admin/link`: a link that logs a browser in, once and within ten minutes."""
        return json_response({"link": self.new_link()}, 201)

    def _end(self, asked: EndingRequest, *, restart: bool) -> Response:
        self.request_ending(restart=restart, grace=asked.grace, asked_by=ASKED_BY)
        ending = self.control.current
        assert ending is not None  # noqa: S101 - this one or an earlier one is in force
        answer = {"ending": ending.kind, "cause": ending.cause, "grace": ending.grace}
        return json_response(answer, 202)

    async def _restart_live(self, asked: RestartRequest) -> Response:
        try:
            pid = await self.restart_live(LiveTerms(asked.wait, asked.grace, asked.ready_within))
        except GatewayError as error:
            raise Refusal(409, "not_live", str(error), "The running gateway goes on.") from error
        return json_response({"successor": pid, "active_agents": len(self.running)}, 202)
