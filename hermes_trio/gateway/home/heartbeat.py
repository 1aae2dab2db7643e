"""The heartbeat for a watcher outside of the machine, which raises an alarm when none comes: a program
that was killed, or whose machine has lost its power, cannot send an alarm itself.

It is sent only while the gateway serves and its store can commit, so a full disk raises the alarm too. The
address is as good as a key, and is in no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ...base.errors import GatewayError
from ...host.home.state_file import GatewayState
from ...log import Log
from ...state.db.engine import Db
from .open_home import Home

if TYPE_CHECKING:
    from ...base.tls import httpx

SERVING = (GatewayState.RUNNING, GatewayState.DEGRADED)
WITHIN = 10.0
"""Seconds for one heartbeat."""

log = Log(__name__)


class HeartbeatNotSent(GatewayError):
    """A heartbeat did not reach the watcher."""


async def send_heartbeats(home: Home) -> None:
    """Send a heartbeat again and again, until cancelled. Return at once if no address is configured."""
    url, every = home.config.heartbeat.url, home.config.heartbeat.every_seconds
    if url is None:
        return
    from ...base.tls import httpx, tls_context  # loads slowly

    has_failed = False
    # Until the next heartbeat a server may close its connection, so none is kept.
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(verify=tls_context(), limits=limits) as client:
        while True:
            due = trio.current_time() + every
            if home.board.status.gateway_state in SERVING:
                try:
                    await home.database.write(_nothing)
                    await _send(client, url)
                except GatewayError as error:
                    if not has_failed:
                        log.warning("heartbeat not sent", error=str(error))
                    has_failed = True
                else:
                    if has_failed:
                        log.info("heartbeat sent again")
                    has_failed = False
            await trio.sleep_until(due)


def _nothing(db: Db) -> None:
    """Store nothing more than that this life goes on, which each transaction does."""


async def _send(client: httpx.AsyncClient, url: str) -> None:
    from ...base.tls import httpx

    with trio.move_on_after(WITHIN) as patience:
        try:
            answer = await client.get(url, follow_redirects=True)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise HeartbeatNotSent(f"heartbeat.url is not reached ({type(error).__name__})") from error
        if answer.is_error:
            raise HeartbeatNotSent(f"the server of heartbeat.url has answered {answer.status_code}")
    if patience.cancelled_caught:
        raise HeartbeatNotSent(f"the server of heartbeat.url has not answered in {WITHIN:g} seconds")
