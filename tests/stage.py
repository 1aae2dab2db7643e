"""A stage for tests: the real gateway with a platform in memory, a scripted agent and a virtual clock."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec
import trio
import trio.testing
from outcome import Outcome

from hermes_trio.base.messages import Attachment, MessageEvent
from hermes_trio.base.world import World
from hermes_trio.config.schema import AgentConfig, DisplayConfig, GatewayConfig, PlatformConfig
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.ending.endings_table import Supervisor
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.nodes.lease import Node
from hermes_trio.gateway.serve import Guarded, Setup, serve
from hermes_trio.gateway.turn.agent_function import Agent as TurnAgent
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.home.state_file import Status, read_status
from hermes_trio.host.loop.worker import Runner, Worker, inline_worker
from hermes_trio.state.db.database import OpenEngine
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.sqlite_engine import open_sqlite
from hermes_trio.state.tables import endings, inbox, sessions, transcript, turns
from hermes_trio.state.tables.endings import EndingRow
from hermes_trio.state.tables.session_entry import SessionEntry
from hermes_trio.testing import MemoryPlatform, Script, perform
from hermes_trio.web.app import Web
from tests.postgres import at_once

Act = Callable[[TurnContext], Awaitable[object]]
Busy = Literal["interrupt", "queue", "steer"]
T = TypeVar("T")
KEY = "agent:main:memory:dm:{}"
PHOTO_NOT_FETCHED = "[Sent along: photo; not fetched: this platform hands out no files]"
"""How a photo is named to the agent when the platform of the stage has no files."""


async def settled() -> None:
    """Wait until all tasks wait, so that nothing more happens at once."""
    await trio.testing.wait_all_tasks_blocked()


@asynccontextmanager
async def no_guard() -> AsyncIterator[None]:
    """Guard nothing: a guard is a process, and the virtual clock does not wait for processes."""
    yield


class Agent:
    """An agent that performs the script of each message, and records when it began and how it ended."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self.acts: dict[str, Act] = {}
        self.began: list[tuple[str, float]] = []
        self.left: list[tuple[str, str, float]] = []
        self.prompts: list[str] = []
        self.before_asking = 0.0
        """Seconds of preparation before the first request to the model."""

    def on(self, said: str, script: Script) -> None:
        """Perform `script` when a person says this; a resumed turn performs the script of its message."""
        self.scripts[said] = script

    def does(self, said: str, act: Act) -> None:
        """Call `act` when a person says this; its result, of any type, is the answer of the agent."""
        self.acts[said] = act

    async def __call__(self, turn: TurnContext) -> str:
        said = " ".join(event.text for event in turn.said)
        if not turn.said:
            said = next(row.content for row in reversed(turn.history) if row.role == "user")
        self.began.append((said, trio.current_time()))
        self.prompts.append(turn.prompt)
        how = "cancelled"
        try:
            await trio.sleep(self.before_asking)
            await turn.requesting()
            if said in self.acts:
                answer = cast(str, await self.acts[said](turn))
            else:
                answer = await perform(self.scripts.get(said, Script().says(f"You said: {said}")), turn)
            how = "answered"
            return answer
        except Exception:
            how = "raised"
            raise
        finally:
            self.left.append((said, how, trio.current_time()))


@dataclass
class Stage:
    """A gateway that is running, or has run."""

    home: Path
    world: World
    platform: MemoryPlatform
    agent: Agent
    config: GatewayConfig
    supervised_by: Supervisor = Supervisor.NONE
    worker: Worker = inline_worker
    open_engine: OpenEngine = open_sqlite
    node: Node | None = None
    opened_agent: AbstractAsyncContextManager[TurnAgent] | None = None
    """The agent as a context, for a test about its lifetime."""
    guarded: Guarded = no_guard
    status_writes: list[float] = field(default_factory=list)
    """Times at which the state file was written."""
    web: Web | None = None
    """The web, for a test that sends requests."""
    gateway: RunningGateway | None = None
    ended_at: float | None = None

    def setup(self, **changes: Any) -> Setup:
        """Return the arguments of `serve` for this stage, with these fields changed."""
        setup = Setup(
            self.home,
            self.config,
            agent=self.opened_agent or self.agent,
            adapters=[self.platform, self.web.platform] if self.web else [self.platform],
            doors=[self.web.door] if self.web else (),
            world=self.world,
            worker=self._worker,
            open_engine=self.open_engine,
            guarded=self.guarded,
            node=self.node,
        )
        return replace(setup, **changes)

    @asynccontextmanager
    async def life(self, control: Control | None = None, **changes: Any) -> AsyncIterator[RunningGateway]:
        """Run one life of the gateway; the end of the block stops it without grace, if it still runs."""
        serving = partial(self._serve, self.setup(**changes), control)
        async with trio.open_nursery() as nursery:
            gateway = self.gateway = await nursery.start(serving)
            yield gateway
            if gateway.control.current is None:
                gateway.stop(grace=0, asked_by="the story")

    def allow(self, **platform: object) -> None:
        """Change the configuration of the platform. With a new `allow_from`, only the admins named here are
        admins."""
        if "allow_from" in platform:
            platform.setdefault("allow_admin_from", ())
        config = msgspec.structs.replace(self.config.platforms["memory"], **platform)
        self.config = msgspec.structs.replace(self.config, platforms={"memory": config})

    async def says(self, text: str, chat: str = "42", **how: Any) -> None:
        """Send a message as a person, and return when nothing more happens at once."""
        await self.platform.says(text, chat=chat, **how)
        await settled()

    async def sends_photo(self, text: str = "", **how: Any) -> None:
        """Send a photo with this text as a person, and return when nothing more happens at once."""
        event = self.platform.event(text, **how)
        photo = Attachment("photo", file_id=event.message_id)
        await self.delivers(replace(event, attachments=(photo,)))

    async def delivers(self, event: MessageEvent) -> None:
        """Deliver this event, and return when nothing more happens at once."""
        self.platform.deliver(event)
        await settled()

    async def _serve(
        self, setup: Setup, control: Control | None, task_status: trio.TaskStatus[RunningGateway]
    ) -> None:
        self.ended_at = None
        await serve(setup, control=control, supervised_by=self.supervised_by, task_status=task_status)
        self.ended_at = trio.current_time()

    @contextmanager
    def _worker(self, name: str) -> Iterator[Runner]:
        with self.worker(name) as runner:

            def noting(job: Callable[[], T], done: Callable[[Outcome[T]], object]) -> None:
                if name == "status":
                    self.status_writes.append(trio.current_time())
                runner(job, done)

            yield noting

    # --- the database, read from outside ---

    @contextmanager
    def looking(self) -> Iterator[Db]:
        """Open the database as another program does."""
        path = self.home / "gateway.db"
        if self.open_engine is open_sqlite:
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                yield db
        else:
            engine = self.open_engine(path, self.world, shipped_steps())
            try:
                yield at_once(engine.writing)
            finally:
                engine.close_reading()
                engine.close_writing()

    def entry(self, chat: str = "42") -> SessionEntry:
        """Return the session of a chat."""
        with self.looking() as db:
            found = sessions.open_by_key(db, KEY.format(chat))
        assert found is not None
        return found

    def turns(self, chat: str = "42") -> list[turns.TurnRow]:
        """Return the turns of a chat's session."""
        session_id = self.entry(chat).session_id
        with self.looking() as db:
            return turns.of_session(db, session_id)

    def status(self) -> Status:
        """Return the content of the state file."""
        found = read_status(self.home)
        assert found is not None
        return found

    def ending(self) -> EndingRow:
        """Return the latest stored ending."""
        with self.looking() as db:
            [newest] = db.execute("SELECT life FROM endings ORDER BY recorded_at DESC, life DESC LIMIT 1")
            found = endings.of_life(db, *newest)
        assert found is not None
        return found

    def outcomes(self, chat: str = "42") -> list[str | None]:
        """Return the outcomes of the turns of a chat's session; None for a turn that has not ended."""
        return [turn.outcome for turn in self.turns(chat)]

    def transcript(self, chat: str = "42") -> list[tuple[str, str]]:
        """Return the role and the content of each row in the transcript of a chat's session."""
        session_id = self.entry(chat).session_id
        with self.looking() as db:
            return [(row.role, row.content) for row in transcript.load(db, session_id)]

    def pending(self, chat: str = "42") -> list[str]:
        """Return the messages of a chat that wait for a turn."""
        with self.looking() as db:
            return [row.event.text for row in inbox.pending(db, KEY.format(chat))]


EVERYBODY = ("me", *map(str, range(100)))
"""People of the tests. With `allow_from: all` only people who are named may approve."""


def everyone(agent: AgentConfig | None = None, *, busy: Busy = "interrupt") -> GatewayConfig:
    """Return a configuration that lets everybody in, with the people of the tests as admins."""
    return GatewayConfig(
        agent=agent or AgentConfig(),
        display=DisplayConfig(busy_input_mode=busy),
        platforms={"memory": PlatformConfig(allow_from="all", allow_admin_from=EVERYBODY)},
    )


def home_channels(gateway: RunningGateway) -> list[str]:
    """Return the ids of the home channels of a gateway."""
    found = (gateway.chats.home_channels.of(one) for one in gateway.chats.connections.values())
    return [channel.chat_id for channel in found if channel is not None]
