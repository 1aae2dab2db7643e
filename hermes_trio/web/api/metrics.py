"""`GET /metrics`: counters and measurements of the gateway, for Prometheus.

They are collected for each request from values that the gateway keeps anyway. Counters start at zero in each
life of the gateway; values from the database cover all lives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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

from ...gateway.ending.control import Control
from ...gateway.links.link import Connection
from ...gateway.session.running_turns import RunningTurns
from ...host.home.state_file import PlatformState
from ...host.loop.worker import STEPS, BatchTimes
from ...journal.writer import Journals
from ...state.db.database import Database
from ...state.db.engine import Db
from ...state.tables import endings, inbox, lives, outbox
from ...state.tables.endings import EndingRow
from ...state.tables.outbox import OutboxState
from ...state.tables.turns import Outcome
from ..http.auth import Auth
from ..http.http_errors import Refusal
from ..http.server import is_loopback


@dataclass(frozen=True, slots=True)
class _Stored:
    """The values from the database."""

    waiting: int
    deliveries: Mapping[str, int]
    last: EndingRow | None


class Metrics:
    """The metrics of one gateway, with a registry of their own."""

    def __init__(
        self,
        database: Database,
        life: str,
        journals: Journals,
        running: RunningTurns,
        control: Control,
        *,
        outcomes: Mapping[Outcome, int],
        connections: Mapping[tuple[str, str], Connection],
        long_steps: BatchTimes | None,
    ) -> None:
        """`outcomes` has the number of ended turns for each outcome; `long_steps` the steps that held the
        event loop for long, if they are noted."""
        self._database, self._life, self._journals = database, life, journals
        self._running, self._control = running, control
        self._outcomes, self._connections, self._long_steps = outcomes, connections, long_steps
        self._stored = _Stored(0, {}, None)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    async def text(self) -> bytes:
        """Return the current values in the format of Prometheus."""
        self._stored = await self._database.read(_look, self._life)
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        stored, running = self._stored, self._running
        turns = CounterMetricFamily("hermes_turns", "Turns that have ended, by outcome.", labels=["outcome"])
        for outcome in Outcome:
            turns.add_metric([outcome], self._outcomes.get(outcome, 0))
        yield turns
        yield _gauge("hermes_turns_running", "Turns that are running.", len(running))
        lag = running.limit.lag
        yield _gauge("hermes_loop_lag_seconds", "Lateness of the loop while more than a few turns run.", lag)
        if self._long_steps is not None:
            yield _histogram(
                "hermes_loop_long_step_seconds", "Steps that held the loop for over 10 ms.", self._long_steps
            )
        yield _gauge("hermes_messages_waiting", "Messages that wait for a turn.", stored.waiting)
        yield _gauge("hermes_watchers", "Clients that listen to events now.", self._journals.live.watchers)
        ready = float(self._control.takes_turns)
        yield _gauge("hermes_ready", "Whether new turns are taken.", ready)
        deliveries = GaugeMetricFamily(
            "hermes_deliveries", "Answers in the outbox, by state of delivery.", labels=["state"]
        )
        for state in OutboxState:
            deliveries.add_metric([state], stored.deliveries.get(state, 0))
        yield deliveries
        yield from self._platforms()
        yield _histogram("hermes_commit_seconds", "Group commits of the database.", self._database.took)
        yield _histogram("hermes_journal_write_seconds", "Writes to run journals.", self._journals.took)
        yield from self._last_ending()

    def _platforms(self) -> Iterator[Metric]:
        up = GaugeMetricFamily(
            "hermes_platform_up", "Whether a platform is connected.", labels=["platform", "account"]
        )
        again = CounterMetricFamily(
            "hermes_platform_reconnects",
            "Reconnections to a platform.",
            labels=["platform", "account"],
        )
        for address, connection in self._connections.items():
            up.add_metric(list(address), float(connection.state is PlatformState.CONNECTED))
            again.add_metric(list(address), max(0, connection.times_up - 1))
        yield up
        yield again

    def _last_ending(self) -> Iterator[Metric]:
        last = self._stored.last
        if last is None or last.finished_at is None:
            return
        took = max(0.0, last.finished_at - last.recorded_at)
        yield _gauge("hermes_last_drain_seconds", "Duration of the last stop.", took)
        over = max(0.0, took - last.grace)
        yield _gauge("hermes_last_drain_overshoot_seconds", "Time after the grace of the last stop.", over)


class MetricsRoutes:
    """The handler of the metrics."""

    def __init__(self, metrics: Metrics, auth: Auth) -> None:
        self._metrics, self._auth = metrics, auth

    async def metrics(self, request: Request) -> Response:
        """`GET /metrics`: open to this machine; other clients need the key."""
        # A proxy on this machine may forward requests from other machines.
        is_forwarded = "forwarded" in request.headers or "x-forwarded-for" in request.headers
        is_near = request.client is not None and is_loopback(request.client.host) and not is_forwarded
        if not is_near and not self._auth.has_key(request):
            raise Refusal(
                403,
                "not_from_here",
                "Metrics are for clients on this machine.",
                "Send `Authorization: Bearer <key>`.",
            )
        return Response(await self._metrics.text(), headers={"content-type": CONTENT_TYPE_LATEST})


def _look(db: Db, life: str) -> _Stored:
    return _Stored(
        inbox.count_all_pending(db), outbox.count_by_state(db), endings.latest(db, lives.home_of(db, life))
    )


def _gauge(name: str, help_: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help_, value=value)


def _histogram(name: str, help_: str, took: BatchTimes) -> Metric:
    steps = [*map(str, STEPS), "+Inf"]
    buckets = list(zip(steps, map(float, itertools.accumulate(took.counts)), strict=True))
    return HistogramMetricFamily(name, help_, buckets=buckets, sum_value=took.seconds)
