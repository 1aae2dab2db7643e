"""Fixtures for all tests: a calendar that is moved by hand, a home with the real store and run journals, and
a stage. Lists of the tests that are real or slow."""

from __future__ import annotations

import inspect
import itertools
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import HealthCheck, settings
from trio.testing import MockClock

from hermes_trio.base.messages import SessionSource
from hermes_trio.base.world import World
from hermes_trio.config.schema import GatewayConfig
from hermes_trio.host.loop.worker import Worker, inline_worker
from hermes_trio.journal.session_reader import SessionReader, SessionSnapshot
from hermes_trio.journal.writer import Journals, open_journals
from hermes_trio.platform.contract import Traits
from hermes_trio.state.db.database import Database, OpenEngine, open_database
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.sqlite_engine import open_sqlite
from hermes_trio.state.rules.store import SessionStore
from hermes_trio.state.tables import transcript, turns
from hermes_trio.state.tables.session_entry import SessionEntry
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.testing import MemoryPlatform
from tests.guest_host import HOSTS, run_on
from tests.stage import Agent, Stage, everyone

REAL = (
    "tests/agent/test_delegate.py",
    "tests/agent/test_leaks.py",
    "tests/agent/test_agent_mcp.py",
    "tests/browser/",
    "tests/cases/test_stale_resume.py",
    "tests/cases/test_stop_command.py",
    "tests/cli/",
    "tests/docs/test_examples.py",
    "tests/docs/test_stories.py",
    "tests/gateway/turns/test_background.py",
    "tests/gateway/nodes/test_postgres_",
    "tests/gateway/stopping/test_turn_orphans.py",
    "tests/gateway/turns/test_processes.py",
    "tests/gateway/stopping/test_stopping_processes.py",
    "tests/host/",
    "tests/journal/test_full_disk.py",
    "tests/journal/test_row_shelf.py",
    "tests/kill/",
    "tests/platforms/email/test_dovecot.py",
    "tests/platforms/email/test_gateway.py",
    "tests/platforms/irc/test_real_servers.py",
    "tests/platforms/telegram/test_gateway.py",
    "tests/platforms/telegram/test_link_",
    "tests/platforms/telegram/test_webhook.py",
    "tests/platforms/discord/test_gateway.py",
    "tests/platforms/discord/test_link.py",
    "tests/platforms/discord/test_other_client.py",
    "tests/platforms/matrix/test_gateway.py",
    "tests/platforms/slack/test_gateway.py",
    "tests/platforms/slack/test_link.py",
    "tests/platforms/slack/test_other_client.py",
    "tests/platforms/matrix/test_synapse.py",
    "tests/platforms/test_laws.py",
    "tests/platforms/xmpp/test_own_process.py",
    "tests/platforms/test_steps.py",
    "tests/testing/test_laws_matrix.py",
    "tests/embed/",
    "tests/test_imports.py",
    "tests/test_log.py",
    "tests/testing/test_lives.py",
    "tests/testing/test_pytest_plugin.py",
    "tests/platforms/telegram/test_bot_api_client.py",
    "tests/tools/mcp/",
    "tests/tools/sandbox/remote/",
    "tests/tools/sandbox/test_corpus.py",
    "tests/tools/safety/test_approval.py",
    "tests/tools/test_no_orphans.py",
    "tests/tools/builtin/test_process.py",
    "tests/tools/safety/test_process_input.py",
    "tests/tools/builtin/test_terminal.py",
    "tests/web/",
)
"""Tests that wait for real processes, sockets, a browser or the real clock, except those of them that ask for
the virtual clock."""
SLOW = (
    "tests/config/test_any_config.py",
    "tests/gateway/turns/test_chunks.py",
    "tests/house/test_house.py::test_a_walk",
    "tests/house/test_house.py::test_the_report",
    "tests/journal/test_damage.py",
    "tests/platforms/telegram/test_parsing.py::test_parsing_a_nearly",
    "tests/tools/safety/test_judge_limits.py",
    "tests/agent/test_cut_anywhere.py",
    "tests/gateway/chance/test_random_stories.py",
    "tests/gateway/turns/test_held_gateway.py::test_a_forgotten_drain_request_ends_after_a_day",
    "tests/gateway/stopping/test_last_moment.py",
    "tests/gateway/faults/test_month.py",
    "tests/gateway/stopping/test_turn_orphans.py",
    "tests/gateway/faults/test_one_commit_fails.py",
    "tests/gateway/turns/test_phases.py",
    "tests/kill/test_killed_turns.py",
    "tests/platforms/telegram/test_day.py",
    "tests/state/db/test_database.py::test_more_than_a_batch",
    "tests/state/db/test_database.py::test_writes_are_applied_in_the_order",
    "tests/state/rules/test_rules_stateful.py",
    "tests/masking/test_redaction.py::test_masking_pairs_of_hostile",
    "tests/masking/test_redaction.py::test_masking_time_grows",
)
"""Tests that compute for seconds, because they try every place of a cut or many examples."""
LONGEST = ("tests/tools/sandbox/test_corpus.py", "tests/kill/test_gateway_storm.py")
"""Tests of a minute each. They run first, or the others would end long before them."""


# No time decides a test, and every run tries the same examples; `make soak` tries others.
settings.register_profile("chance", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("chance"), derandomize=True, database=None)
settings.load_profile("same")


def pytest_configure() -> None:
    """Let Ctrl-C reach the programs of tests. A shell that starts pytest in the background has it ignored,
    and every child process would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    help_ = "run the tests on Trio as a guest of this loop"
    parser.addoption("--host", choices=["trio", *HOSTS], default="trio", help=help_)
    help_ = "run the tests that open the store by a fixture on this engine, and no others"
    parser.addoption("--engine", choices=["sqlite", "postgres"], default="sqlite", help=help_)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run each test on its host and on the clock of its fixtures, and mark the tests that `make check` leaves
    out so that it stays quick. `make test` runs all of them."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    for item in items:
        virtual = _is_virtual(item)
        host = config.getoption("--host")
        if isinstance(item, pytest.Function) and (virtual or (host != "trio" and _is_asynchronous(item))):
            run = partial(_run_on_its_clock, item, run_on(host))
            item.add_marker(pytest.mark.trio(run=run), append=False)
        if item.nodeid.startswith(REAL) and not virtual:
            item.add_marker("real")
        if item.nodeid.startswith(SLOW):
            item.add_marker("slow")
    engine = config.getoption("--engine")
    config.hook.pytest_deselected(items=[item for item in items if not _runs_on(engine, item)])
    items[:] = [item for item in items if _runs_on(engine, item)]


def _runs_on(engine: str, item: pytest.Item) -> bool:
    """Return whether a test runs on this engine: by default every test that is not about the other one, with
    `--engine` only those that open the store by the fixture."""
    if engine == "sqlite":
        return not item.get_closest_marker("postgres")
    return "open_engine" in getattr(item, "fixturenames", ()) and not item.get_closest_marker("sqlite")


def _is_virtual(item: pytest.Item) -> bool:
    """Return whether an asynchronous test has the virtual clock, itself or through one of its fixtures."""
    return _is_asynchronous(item) and "autojump_clock" in getattr(item, "fixturenames", ())


def _is_asynchronous(item: pytest.Item) -> bool:
    return inspect.iscoroutinefunction(getattr(item, "function", None))


def _run_on_its_clock(
    item: pytest.Function, run: Callable[..., object], test: Callable[[], Awaitable[object]], **options: Any
) -> None:
    """Run a test on the virtual clock of its fixtures. pytest-trio looks for a clock only among the arguments
    of the test itself, and calls the runner of the `trio` marker."""
    run(test, **{**options, "clock": item.funcargs.get("autojump_clock", options.get("clock"))})


@dataclass
class Calendar:
    """The time of day, which only a test changes."""

    now: datetime = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)

    def sleep(self, **duration: float) -> None:
        self.now += timedelta(**duration)

    @property
    def time(self) -> float:
        return self.now.timestamp()


@dataclass
class Home:
    """An open home."""

    database: Database
    journals: Journals
    store: SessionStore
    reader: SessionReader
    world: World
    life: str
    _runs: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def turn(self, session_id: str, said: str = "Look at the open pull requests.") -> turns.TurnRow:
        """Begin a turn of this life that has sent a model request and stored the message of the person."""
        run_id, at = f"run-{self.life}-{next(self._runs)}", self.world.time()

        def step(db: Db) -> turns.TurnRow:
            turn_id = turns.begin(db, run_id=run_id, session_id=session_id, life=self.life, at=at)
            turns.note_request(db, turn_id, at)
            transcript.append(db, session_id, TranscriptRow("user", said, at, turn_id))
            turn = turns.get(db, turn_id)
            assert turn is not None
            return turn

        return await self.database.write(step)

    async def entry(self, key: str) -> SessionEntry:
        """Return the session of this chat, which exists."""
        entry = await self.store.get_session_entry(key)
        assert entry is not None
        return entry

    async def read(self, session_id: str) -> SessionSnapshot:
        """Return the session as a reader gets it; the reading heals it."""
        session = await self.reader.get_session(session_id)
        assert session is not None
        return session


OpenHome = Callable[..., AbstractAsyncContextManager[Home]]


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def world(calendar: Calendar) -> World:
    ids = itertools.count(1)
    return World(now=lambda: calendar.now, new_id=lambda: f"{next(ids):08x}", jitter=lambda: 0.0, zone=UTC)


@pytest.fixture(scope="session")
def open_engine(request: pytest.FixtureRequest) -> Iterator[OpenEngine]:
    """What opens the store: the engine of the option `--engine`."""
    if request.config.getoption("--engine") == "sqlite":
        yield open_sqlite
        return
    from tests.postgres import postgres_engine, postgres_server

    with postgres_server() as server:
        yield postgres_engine(server.conninfo)


@pytest.fixture
def open_home(tmp_path: Path, world: World, open_engine: OpenEngine) -> OpenHome:
    """A function that opens the home of this test; a second call opens its next life."""
    lives = itertools.count(1)

    @asynccontextmanager
    async def opened(
        *, config: GatewayConfig | None = None, worker: Worker = inline_worker
    ) -> AsyncIterator[Home]:
        home = tmp_path / "home"
        async with (
            open_database(home / "gateway.db", world, worker=worker, open_engine=open_engine) as database,
            open_journals(home / "journal", world, worker=worker) as journals,
        ):
            yield Home(
                database,
                journals,
                SessionStore(database, config or GatewayConfig(), world),
                SessionReader(database, journals, world),
                world,
                f"life-{next(lives)}",
            )

    return opened


@pytest.fixture
async def home(open_home: OpenHome) -> AsyncIterator[Home]:
    async with open_home() as opened:
        yield opened


@pytest.fixture
def somebody() -> SessionSource:
    """A person in a direct chat."""
    return SessionSource(platform="telegram", chat_id="42", chat_type="dm", user_id="42", user_name="Kim")


@pytest.fixture
def stage(tmp_path: Path, autojump_clock: MockClock, open_engine: OpenEngine) -> Stage:
    """A stage with its clock: Trio's virtual one, from which the time of day is made."""
    return _set_up(tmp_path, open_engine)


@pytest.fixture
def real_stage(tmp_path: Path, open_engine: OpenEngine) -> Stage:
    """A stage on the real clock, for tests with processes, sockets or threads."""
    return _set_up(tmp_path, open_engine)


def _set_up(tmp_path: Path, open_engine: OpenEngine) -> Stage:
    start = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
    ids = itertools.count(1)
    world = World(
        now=lambda: start + timedelta(seconds=trio.current_time()),
        new_id=lambda: f"{next(ids):08x}",
        jitter=lambda: 0.0,
        zone=UTC,
    )
    platform = MemoryPlatform(traits=Traits(edits=True, typing=True))
    return Stage(tmp_path / "home", world, platform, Agent(), everyone(), open_engine=open_engine)
