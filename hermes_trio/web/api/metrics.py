"""`GET /metrics`: what the gateway counts and measures, for Prometheus.

Nothing is kept for it but what somebody keeps anyway, and it is put together when it is asked for. Counters
begin anew with each life; what is of the database is of all lives.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from ...host.home.state_file import PlatformState
from ...host.loop.worker import STEPS, BatchTimes
from ...state.tables import endings, inbox, outbox
from ...state.tables.endings import EndingRow
from ...state.tables.outbox import OutboxState
from ...state.tables.turns import Outcome
from ..http.http_errors import Refusal
from ..http.server import is_loopback

if TYPE_CHECKING:
    from ...gateway.facade import Gateway
    from ..app import Web


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the database knows."""

    waiting: int
    deliveries: Mapping[str, int]
    last: EndingRow | None


class Metrics:
    """What is measured of one gateway, with a registry of its own."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._stored = _Stored(0, {}, None)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    async def text(self) -> bytes:
        """All of it, as it is now."""
        self._stored = await self._gateway.home.database.read(_look)
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        gateway, stored = self._gateway, self._stored
        turns = CounterMetricFamily("hermes_turns", "Turns that have ended, by outcome.", labels=["outcome"])
        for outcome in Outcome:
            turns.add_metric([outcome], gateway.work.outcomes[outcome])
        yield turns
        yield _gauge("hermes_turns_running", "Turns that run now.", len(gateway.work.running))
        lag = gateway.work.running.limit.lag
        yield _gauge("hermes_loop_lag_seconds", "Lateness of the loop while more than a few turns run.", lag)
        yield _gauge("hermes_messages_waiting", "Messages that wait for a turn.", stored.waiting)
        yield _gauge("hermes_watchers", "Who listens to the events now.", gateway.home.journals.live.watchers)
        ready = float(gateway.control.takes_turns)
        yield _gauge("hermes_ready", "Whether new turns are taken.", ready)
        deliveries = GaugeMetricFamily(
            "hermes_deliveries", "Answers in the outbox, by how far they have got.", labels=["state"]
        )
        for state in OutboxState:
            deliveries.add_metric([state], stored.deliveries.get(state, 0))
        yield deliveries
        yield from self._platforms()
        yield _histogram(
            "hermes_commit_seconds", "Group commits of the database.", gateway.home.database.took
        )
        yield _histogram(
            "hermes_journal_write_seconds", "Writes to run journals.", gateway.home.journals.took
        )
        yield from self._last_ending()

    def _platforms(self) -> Iterator[Metric]:
        up = GaugeMetricFamily(
            "hermes_platform_up", "Whether a platform is connected.", labels=["platform", "account"]
        )
        again = CounterMetricFamily(
            "hermes_platform_reconnects",
            "How often the connection to a platform was made again.",
            labels=["platform", "account"],
        )
        for address, connection in self._gateway.chats.connections.items():
            up.add_metric(list(address), float(connection.state is PlatformState.CONNECTED))
            again.add_metric(list(address), max(0, connection.times_up - 1))
        yield up
        yield again

    def _last_ending(self) -> Iterator[Metric]:
        last = self._stored.last
        if last is None or last.finished_at is None:
            return
        took = max(0.0, last.finished_at - last.recorded_at)
        yield _gauge("hermes_last_drain_seconds", "How long the last stop took.", took)
        over = max(0.0, took - last.grace)
        yield _gauge("hermes_last_drain_overshoot_seconds", "By how much it went over its grace.", over)


async def metrics(web: Web, request: Request) -> Response:
    """`GET /metrics`: for this machine, and for whoever has the key."""
    # A proxy may be near, and who asks it is not.
    is_forwarded = "forwarded" in request.headers or "x-forwarded-for" in request.headers
    near = request.client is not None and is_loopback(request.client.host) and not is_forwarded
    if not near and not web.auth.has_key(request):
        raise Refusal(
            403, "not_from_here", "Metrics are for this machine.", "Send `Authorization: Bearer <key>`."
        )
    return Response(await web.metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})


def _look(db: sqlite3.Connection) -> _Stored:
    return _Stored(inbox.count_all_pending(db), outbox.count_by_state(db), endings.latest(db))


def _gauge(name: str, told: str, value: float) -> Metric:
    return GaugeMetricFamily(name, told, value=value)


def _histogram(name: str, told: str, took: BatchTimes) -> Metric:
    steps = [*map(str, STEPS), "+Inf"]
    buckets = list(zip(steps, map(float, itertools.accumulate(took.counts)), strict=True))
    return HistogramMetricFamily(name, told, buckets=buckets, sum_value=took.seconds)
