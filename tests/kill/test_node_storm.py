"""Three `hermes-trio run` on one PostgreSQL server, with one bot and clients of the API: they are killed,
drained, paused for longer than a lease and cut off, and the server crashes. Every accepted message is
answered, in order, none twice unless the answer says so, no gateway stores anything after it was taken over,
and whoever follows a run over several gateways gets each of its events once.

The short form has each fault once. STORM_SECONDS is the length of the long one, and STORM_SEED repeats the
random numbers of an earlier storm.
"""

from __future__ import annotations

import itertools
import os
import random
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import trio

from hermes_platforms.telegram.testing import BotApi, open_bot_api
from hermes_trio.base.world import World
from hermes_trio.journal.row_shelf import RowShelf
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.postgres.connection import Server
from hermes_trio.state.postgres.engine import open_postgres
from hermes_trio.state.postgres.single_transaction import transaction
from hermes_trio.state.store_copy import TABLES
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import ModelServer, RecordedRequest, open_model_server
from tests.kill import audit
from tests.kill.api_callers import KEY, Callers, check_follower
from tests.machine import HERMES, environment, hermes
from tests.postgres import PostgresServer, postgres_server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the storm sends signals")

SCHEMA = "storm"
CONFIG = """\
agent: {{restart_drain_timeout: 2, stuck_after: 1000000}}
display: {{busy_input_mode: queue}}
streaming: {{enabled: false}}
web: {{port: 0, key: {key}}}
database: {{url: "{url}", node: {node}, lease: {lease}, schema: {schema}}}
model: {{provider: openai, base_url: "{model}", name: test, api_key: none}}
platforms:
  telegram: {{allow_from: all, token: "{token}", base_url: "{base_url}"}}
"""
NODES = ("one", "two", "three")
CHATS = ("1", "2", "3", "4")
SESSIONS = ("91", "92")
LEASE = 8.0
"""Seconds: longer than a start of the server on a busy machine, for which a write of a turn waits."""
PATIENCE = 150.0
"""Seconds until everything is answered after the last fault, even on a slow machine."""
REPEATED = "♻ Possibly a repeat:"
THING = re.compile(r"thing \d+ of chat \d+\.")

# The server itself looks who writes: a connection has the name of its gateway. A gateway with a life holds
# its row until the commit, so nobody takes it over between this look and the commit.
WITNESS = """
CREATE TABLE dead_writes (place TEXT, node TEXT);
CREATE FUNCTION witness() RETURNS trigger LANGUAGE plpgsql SET search_path = storm AS $$ BEGIN
    INSERT INTO dead_writes SELECT TG_TABLE_NAME, current_setting('application_name') WHERE NOT EXISTS
        (SELECT 1 FROM lives WHERE node = current_setting('application_name') AND over_at IS NULL);
    RETURN NULL;
END $$;
"""
LIVES, DEAD_WRITES = (f"SELECT * FROM {SCHEMA}.{table}" for table in ("lives", "dead_writes"))  # noqa: S608
ADDRESSES = f"SELECT address FROM {SCHEMA}.lives WHERE over_at IS NULL AND address IS NOT NULL"  # noqa: S608
WITNESSES = "CREATE TRIGGER witness AFTER INSERT OR UPDATE ON {} FOR EACH ROW EXECUTE FUNCTION witness()"
WITNESSED = ("inbox", "turns", "messages", "outbox")


def number_of(thing: str) -> int:
    return int(thing.split()[1])


def around(numbers: Sequence[int]) -> set[int]:
    return {near for number in numbers for near in range(number - 2, number + 3)}


def things(content: object) -> list[str]:
    return THING.findall(str(content))


def answer(request: RecordedRequest) -> Reply:
    """Repeat what was said last, after a moment in which the turn may be cut."""
    newest = list[str]()
    for message in reversed(request.body["messages"]):
        if message["role"] == "user" and (said := things(message["content"])):
            newest = said + newest
        elif newest:
            break
    return Reply().pauses(0.3).says(f"You said: {' '.join(newest)}")


@dataclass
class People:
    """People who say one thing after the other, each in a chat."""

    telegram: BotApi
    dice: random.Random
    accepted: list[tuple[str, str]] = field(default_factory=list)
    on_the_way: int = 0

    async def talk(self, chat: str, may_talk: Callable[[], bool]) -> None:
        for number in itertools.count(1):
            if not may_talk():
                return
            text = f"thing {number} of chat {chat}."
            self.on_the_way += 1
            await self.telegram.says(text, chat=chat)
            self.on_the_way -= 1
            self.accepted.append((chat, text))
            if self.dice.random() < 0.7:
                with trio.move_on_after(20):
                    await self.telegram.until(lambda text=text: bool(self.answers(chat, text)))  # type: ignore[misc]
            await trio.sleep(self.dice.uniform(0, 0.5))

    def answers(self, chat: str, text: str) -> list[str]:
        """Return the answers to a message."""
        return [shown for shown in self.telegram.chat(chat).texts if "You said" in shown and text in shown]

    def unanswered(self) -> list[str]:
        return [text for chat, text in self.accepted if not self.answers(chat, text)]


@dataclass
class Node:
    """A gateway in a home of its own, which a supervisor starts again whenever it ends."""

    name: str
    environ: dict[str, str]
    process: trio.Process | None = None
    codes: list[int] = field(default_factory=list)

    async def keep(self) -> None:
        log = Path(self.environ["HERMES_HOME"]).with_name("output")
        while True:
            with log.open("ab") as output:
                self.process = await trio.lowlevel.open_process(
                    [*HERMES, "run"], env=self.environ, stdout=output, stderr=output
                )
                try:
                    self.codes.append(await self.process.wait())
                finally:
                    self.process.kill()
                    with trio.move_on_after(10, shield=True):
                        await self.process.wait()
            await trio.sleep(0.5)

    def signal(self, number: signal.Signals) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


@dataclass
class Storm:
    """The gateways, and what happens to them."""

    server: PostgresServer
    nodes: list[Node]
    dice: random.Random
    faults: dict[str, int] = field(default_factory=dict)

    async def strike(self, fault: str) -> None:
        node = self.dice.choice(self.nodes)
        self.faults[fault] = self.faults.get(fault, 0) + 1
        if fault == "killed":
            node.signal(signal.SIGKILL)
        elif fault == "drained":
            node.signal(signal.SIGTERM)
        elif fault == "paused":
            node.signal(signal.SIGSTOP)
            await trio.sleep(self.dice.uniform(1.3, 2) * LEASE)
            node.signal(signal.SIGCONT)
        elif fault == "cut off":
            cuts = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{}'"
            await trio.to_thread.run_sync(self.server.execute, cuts.format(node.name))
        else:
            await trio.to_thread.run_sync(self.server.stop, "immediate")
            await trio.to_thread.run_sync(self.server.start)

    async def rage(self, seconds: float) -> None:
        """Let faults happen: each once, and then by chance until the time is over."""
        end = trio.current_time() + seconds
        kinds = ["killed", "drained", "paused", "cut off", "server crashed"]
        self.dice.shuffle(kinds)
        for fault in itertools.chain(kinds, iter(partial(self.dice.choice, kinds), None)):
            await self.strike(fault)
            await trio.sleep(self.dice.uniform(0.5, 2))
            if trio.current_time() >= end and len(self.faults) == len(kinds):
                return


def node_in(folder: Path, name: str, **values: object) -> Node:
    """Return a gateway that shares no file with others, not even the lock of its bot."""
    home = folder / name / "home"
    home.mkdir(parents=True, mode=0o700)
    url = f"{values.pop('url')}&application_name={name}"
    common = {"node": name, "url": url, "lease": LEASE, "schema": SCHEMA, "key": KEY}
    (home / "config.yaml").write_text(CONFIG.format(**{**common, **values}))
    return Node(name, environment(home, XDG_STATE_HOME=str(folder / name / "state")))


@asynccontextmanager
async def running(nodes: Sequence[Node]) -> AsyncIterator[None]:
    """Run gateways."""
    async with trio.open_nursery() as nursery:
        for node in nodes:
            nursery.start_soon(node.keep)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def places(server: PostgresServer) -> AsyncIterator[tuple[BotApi, ModelServer, dict[str, str]]]:
    """Run the platform and the model, and yield them with what the configurations say about them."""
    async with open_bot_api() as telegram, open_model_server() as model:
        model.otherwise = answer
        values = {"token": telegram.token, "base_url": telegram.base_url, "model": model.openai_url}
        yield telegram, model, {**values, "url": server.url()}


def watch(server: PostgresServer) -> None:
    """Let the server note who writes although its life is over."""
    server.execute(f"SET search_path = {SCHEMA}", WITNESS, *map(WITNESSES.format, WITNESSED))


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def made_store(server: PostgresServer) -> Server:
    """Make the tables, watched by the server."""
    server.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
    store = Server(server.conninfo, SCHEMA, 30.0)
    engine = open_postgres(store, World(), shipped_steps())
    engine.close_reading()
    engine.close_writing()
    watch(server)
    return store


async def storm(folder: Path, server: PostgresServer, seconds: float) -> str:
    """Run a storm, check its results, and return what happened."""
    seed = int(os.environ.get("STORM_SEED") or time.time_ns() % 10**9)
    print(f"STORM_SEED={seed}")  # shown if this fails
    dice = random.Random(seed)  # noqa: S311 - moments, not secrets
    store = made_store(server)
    read = RowShelf(store, World(), "").read
    async with places(server) as (telegram, _, values):
        nodes = [node_in(folder, name, **values) for name in NODES]
        people, it = People(telegram, dice), Storm(server, nodes, dice)
        callers = Callers(lambda: [address for (address,) in server.execute(ADDRESSES)], dice)
        raging = True
        async with running(nodes), trio.open_nursery() as nursery:
            with trio.fail_after(PATIENCE):
                await telegram.says("thing 0 of chat 0.", chat="0")
            people.accepted.append(("0", "thing 0 of chat 0."))
            for chat in CHATS:
                nursery.start_soon(people.talk, chat, lambda: raging)
            for session in SESSIONS:
                nursery.start_soon(callers.talk, session, lambda: raging)
            await it.rage(seconds)
            raging = False
            with trio.move_on_after(PATIENCE) as patience:
                while people.on_the_way or callers.on_the_way or not is_over(store, read, people):  # noqa: ASYNC110
                    await trio.sleep(0.3)
            assert not patience.cancelled_caught, f"not answered: {people.unanswered()}"
        with transaction(store) as db:
            check(db, read, people, callers.accepted)
        for (session, run), seqs in callers.seqs.items():
            check_follower(seqs, read(session, run).next_seq - 1)
        codes = {node.name: node.codes for node in nodes}
    said = f"{len(people.accepted)} messages, {len(callers.accepted)} requests, {callers.moved} moves"
    return f"STORM_SEED={seed}; {it.faults}; {said}; exit codes {codes}"


def is_over(store: Server, read: audit.ReadRun, people: People) -> bool:
    """Return whether nothing is open, and everything is answered or left alone by the rules."""
    open_rows = (
        "SELECT (SELECT count(*) FROM inbox WHERE state = 'pending') "
        "+ (SELECT count(*) FROM told) + (SELECT count(*) FROM turns WHERE ended_at IS NULL) "
        "+ (SELECT count(*) FROM outbox WHERE state IN ('owed', 'attempting') AND NOT streamed)"
    )
    with transaction(store) as db:
        is_quiet = db.execute(open_rows).fetchone()[0] == 0
        return is_quiet and not set(people.unanswered()) - audit.alone_in(db, read)


def check(db: Db, read: audit.ReadRun, people: People, requests: Sequence[str] = ()) -> None:
    """Check the store, and what people see."""
    assert db.execute(DEAD_WRITES).fetchall() == []
    audit.check_rows(db, read, {*requests, *(text for _, text in people.accepted)})
    alone = audit.alone_in(db, read)
    for chat, text in people.accepted:
        answers = people.answers(chat, text)
        assert answers or text in alone, f"{text} is not answered"
        unmarked = [one for one in answers if not one.startswith(REPEATED)]
        assert len(unmarked) <= 1, f"{text} is answered {answers}"
    for chat in CHATS:
        texts = people.telegram.chat(chat).texts
        first = list(dict.fromkeys(thing for text in texts for thing in things(text)))
        late = [two for one, two in itertools.pairwise(map(number_of, first)) if two < one]
        assert late == [], [text for text in texts if set(map(number_of, things(text))) & around(late)]


@pytest.mark.timeout(400)
async def test_gateways_that_share_a_store_lose_and_repeat_nothing(
    tmp_path: Path, server: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    report = await storm(tmp_path, server, seconds=0)
    with capsys.disabled():
        print(f"\n{report}")


@pytest.mark.timeout(400)
async def test_the_check_finds_a_gateway_whose_fence_was_taken_out(
    tmp_path: Path, server: PostgresServer
) -> None:
    """Its tables are views, in which no life is ever over, and its own lease has almost no end."""
    store = made_store(server)
    server.execute(*unfenced())
    async with places(server) as (telegram, _, values):
        one = node_in(tmp_path, "one", **{**values, "schema": "unfenced", "lease": 3600})
        two = node_in(tmp_path, "two", **values)
        people = People(telegram, random.Random(0))  # noqa: S311

        async def said(number: int) -> None:
            people.accepted.append(("1", f"thing {number} of chat 1."))
            telegram.post(people.accepted[-1][1], chat="1")
            await telegram.until(lambda: not people.unanswered())

        with trio.fail_after(PATIENCE):
            async with running([one]):
                await said(1)
                async with running([two]):
                    await until(lambda: len(server.execute(LIVES)) == 2)
                    one.signal(signal.SIGSTOP)
                    await said(2)
                    assert server.execute(DEAD_WRITES) == []
                    one.signal(signal.SIGCONT)
                    async with trio.open_nursery() as asking:  # its turn may be cut before it is answered
                        asking.start_soon(partial(hermes, "ask", "hello", environ=one.environ))
                        await until(lambda: bool(server.execute(DEAD_WRITES)))
                        asking.cancel_scope.cancel()
    with transaction(store) as db, pytest.raises(AssertionError, match="one"):
        check(db, RowShelf(store, World(), "").read, people)


async def until(condition: Callable[[], bool]) -> None:
    """Poll until this is true, because no event announces it."""
    while not condition():  # noqa: ASYNC110
        await trio.sleep(0.1)


def unfenced() -> Iterator[str]:
    """Yield the statements that make a schema of views."""
    yield "DROP SCHEMA IF EXISTS unfenced CASCADE"
    yield "CREATE SCHEMA unfenced"
    yield (
        "CREATE FUNCTION unfenced.plain_words(content TEXT) RETURNS TEXT LANGUAGE SQL IMMUTABLE "
        f"AS 'SELECT {SCHEMA}.plain_words(content)'"
    )
    for table in (*TABLES, "schema_steps"):
        columns = "*"
        if table == "lives":
            columns = "life, node, home, address, begun_at, beat, ended_by, NULL::double precision AS over_at"
        yield f"CREATE VIEW unfenced.{table} AS SELECT {columns} FROM {SCHEMA}.{table}"  # noqa: S608


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_a_long_storm_loses_and_repeats_nothing(
    tmp_path: Path, server: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    report = await storm(tmp_path, server, seconds=float(os.environ.get("STORM_SECONDS", "1200")))
    with capsys.disabled():
        print(f"\n{report}")
