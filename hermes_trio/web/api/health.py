"""How the gateway is, and how somebody with the key ends it or holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ...gateway.ending.endings_table import Cause, Supervisor
from ...host.home.markers import DRAIN_REQUEST, consume, write_drain_request
from ...state.db.damaged import damaged_copies
from ...state.tables import endings
from ...state.tables.endings import EndingRow
from ..http.http_errors import Draining, Refusal, answer, read_json, told

if TYPE_CHECKING:
    from ..app import Web

ASKED_BY = "the API"


class Ask(msgspec.Struct, frozen=True):
    """The body that asks for an ending."""

    grace: Annotated[float, Meta(ge=0, le=10_000_000)] | None = None


class Hold(msgspec.Struct, frozen=True):
    """The body that holds the gateway, or lets it go on."""

    action: Literal["begin", "cancel"] = "begin"


async def health(web: Web, request: Request) -> Response:
    """`GET /health`: it is alive."""
    return answer({"status": "ok"})


async def ready(web: Web, request: Request) -> Response:
    """`GET /ready`: 200 only while new turns are taken."""
    return answer({"status": "ready"}) if web.gateway.control.takes_turns else told(Draining(), "/ready")


async def detailed(web: Web, request: Request) -> Response:
    """`GET /health/detailed`: how it is, what runs, and how it ended last."""
    gateway = web.gateway
    status = gateway.home.board.status
    last = await gateway.home.database.read(endings.latest)
    return answer(
        {
            "status": "ok",
            "version": web.version,
            "pid": status.pid,
            "instance": status.instance,
            "state": status.gateway_state,
            "active_agents": len(gateway.work.running),
            "platforms": status.platforms,
            "held": gateway.control.held,
            "damaged_databases": [one.name for one in damaged_copies(gateway.home.path / "gateway.db")],
            "last_ending": _ending(last) if last is not None else None,
        }
    )


async def stop(web: Web, request: Request) -> Response:
    """`POST /api/admin/stop` `{grace}`: end, after so many seconds for what runs."""
    return await _end(web, request, Cause.PLANNED)


async def restart(web: Web, request: Request) -> Response:
    """`POST /api/admin/restart` `{grace}`: end so, and begin again."""
    return await _end(web, request, Cause.RESTART)


async def drain(web: Web, request: Request) -> Response:
    """`POST /api/admin/drain` `{action: begin|cancel}`: begin no turn, or begin turns again. The marker file
    says it too, so that it holds also for the next life and `hermes-trio drain cancel` can take it back."""
    gateway, begin = web.gateway, (await read_json(request, Hold)).action == "begin"
    if begin:
        write_drain_request(gateway.home.path, gateway.home.world, principal=ASKED_BY)
    else:
        consume(gateway.home.path, DRAIN_REQUEST)
    gateway.control.hold(begin)
    return answer({"held": gateway.control.held, "active_agents": len(gateway.work.running)}, 202)


async def _end(web: Web, request: Request, cause: Cause) -> Response:
    gateway, grace = web.gateway, (await read_json(request, Ask)).grace
    if cause is Cause.RESTART and gateway.shutdown.supervised_by is Supervisor.HOST:
        raise Refusal(
            409,
            "embedded",
            "This gateway is a part of another program, and cannot restart it.",
            "Restart that program, or ask the gateway to stop.",
        )
    gateway.stop(restart=cause is Cause.RESTART, grace=grace, asked_by=ASKED_BY)
    ending = gateway.control.current
    assert ending is not None  # noqa: S101 - one counts now, this or another
    return answer({"ending": ending.kind, "cause": ending.cause, "grace": ending.grace}, 202)


def _ending(row: EndingRow) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "cause": row.cause,
        "asked_by": row.asked_by,
        "grace": row.grace,
        "recorded_at": row.recorded_at,
        "finished_at": row.finished_at,
        "report": msgspec.json.decode(row.report) if row.report else None,
    }
