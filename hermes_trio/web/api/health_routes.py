"""Health: whether the gateway is alive and ready, and how it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...gateway.ending.control import Control
from ...gateway.session.running_turns import RunningTurns
from ...host.home.status_board import StatusBoard
from ...state.db.damaged import damaged_copies
from ...state.db.database import Database
from ...state.db.engine import Db
from ...state.tables import endings, lives
from ...state.tables.endings import EndingRow
from ..http.http_errors import Draining, json_response, refusal_response


@dataclass(frozen=True, slots=True)
class HealthRoutes:
    """The handlers of the health routes."""

    version: str
    home: Path
    database: Database
    life: str
    board: StatusBoard
    control: Control
    running: RunningTurns
    warning: str | None
    """A sentence for the owner, with the remedy."""

    async def health(self, request: Request) -> Response:
        """`GET /health`: 200 while the gateway is alive."""
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """`GET /ready`: 200 only while new turns may begin."""
        if not self.control.takes_turns:
            return refusal_response(Draining(), "/ready")
        return json_response({"status": "ready"})

    async def detailed(self, request: Request) -> Response:
        """`GET /health/detailed`: the state of the gateway, the number of running turns, and its last
        ending. `warning` is a sentence with a remedy if nothing confines the commands of the agent, or not
        whole."""
        status = self.board.status
        last = await self.database.read(_last_ending, self.life)
        return json_response(
            {
                "status": "ok",
                "version": self.version,
                "pid": status.pid,
                "instance": status.instance,
                "state": status.gateway_state,
                "active_agents": len(self.running),
                "platforms": status.platforms,
                "held": self.control.held,
                "damaged_databases": [one.name for one in damaged_copies(self.home / "gateway.db")],
                "warning": self.warning,
                "last_ending": _ending(last) if last is not None else None,
            }
        )


def _last_ending(db: Db, life: str) -> EndingRow | None:
    return endings.latest(db, lives.home_of(db, life))


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
