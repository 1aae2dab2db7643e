"""One life of a gateway in a random story: its platform, agent and disk record each call, and it can be
killed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import trio
from outcome import Outcome

from hermes_trio.base.messages import MessageEvent
from hermes_trio.embed.shielded_tree import open_tree
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.serve import Setup
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.platform.contract import Outgoing, Traits
from hermes_trio.state.db.engine import Db
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.memory_platform import MemoryLink
from hermes_trio.testing.stage import WaitingEvent
from tests.disk import refusing_writes
from tests.gateway.chance.random_agent import BEHAVIOURS, behave
from tests.stage import no_guard

if TYPE_CHECKING:
    from tests.gateway.chance.random_story import Story

T = TypeVar("T")


@dataclass
class Ran:
    """A run of the agent, recorded by the agent."""

    run_id: str
    key: str
    said: tuple[str, ...]
    """Ids of the messages to answer; empty in a resumed run."""
    began: float = field(default_factory=trio.current_time)
    answer: str | None = None


class Platform(MemoryPlatform):
    """A platform that records the accepted messages, and checks each text before it is shown."""

    def __init__(self, traits: Traits, check_text: Callable[[str], None]) -> None:
        super().__init__(traits=traits)
        self._check_text = check_text
        self.accepted: list[tuple[float, MessageEvent]] = []

    async def send(self, message: Outgoing) -> str:
        self._check_text(message.text)
        return await super().send(message)

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: object = ()) -> None:
        self._check_text(text)
        await super().edit(chat_id, message_id, text)

    def accept(self, delivery: WaitingEvent) -> None:
        if not delivery.accepted.is_set():
            self.accepted.append((trio.current_time(), delivery.event))
        super().accept(delivery)

    @property
    def has_unaccepted(self) -> bool:
        """True while a message of a person is not accepted."""
        return bool(self._waiting)

    def end_troubles(self) -> None:
        """Drop all troubles that are still to come."""
        self._troubles.clear()


@dataclass
class Life:
    """One life of the gateway: its adapter, its agent and its disk, until it is killed."""

    story: Story
    gateway: RunningGateway | None = None
    killed: trio.Event = field(default_factory=trio.Event)
    over: trio.Event = field(default_factory=trio.Event)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    jobs_to_kill: int | None = None
    full_for: int = 0
    """Number of commits that fail."""
    connection: Db | None = None

    def __post_init__(self) -> None:
        platform = self.story.platform
        self.name, self.account, self.traits = platform.name, platform.account, platform.traits

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MemoryLink]:
        if self.killed.is_set():
            await trio.sleep_forever()
        async with self.story.platform.connect() as link:
            if self.killed.is_set():
                self.story.platform.drop()
            yield link

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        with inline_worker(name) as runner:

            def run(job: Callable[[], T], done: Callable[[Outcome[T]], object]) -> None:
                if self.jobs_to_kill is not None and name != "store-reader":
                    self.jobs_to_kill -= 1
                    if self.jobs_to_kill <= 0:
                        self.kill()
                if name != "store-writer" or self.connection is None or not self.full_for:
                    runner(job, done)
                    return
                self.full_for -= 1
                with refusing_writes(self.connection):
                    runner(job, done)

            yield run

    def kill(self) -> None:
        """Kill this life: the next one gets only the files of this moment."""
        if self.killed.is_set() or self.over.is_set():
            return
        self.killed.set()
        self.story.next_home()
        self.story.platform.drop()
        self.scope.cancel()

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        """Run this life from its start to its end."""
        story = self.story
        with self.scope:
            async with trio.open_nursery() as nursery:
                setup = Setup(
                    story.home,
                    story.plan.config,
                    agent=self.agent,
                    adapters=[self],
                    world=story.world,
                    worker=self.worker,
                    guarded=no_guard,
                )
                self.gateway = await nursery.start(self._serve, setup)
                task_status.started()
        self.over.set()
        if self.gateway is None:  # killed before its doors were open
            task_status.started()

    async def _serve(self, setup: Setup, task_status: trio.TaskStatus[RunningGateway]) -> None:
        async with open_tree(setup) as gateway:
            task_status.started(gateway)
            await trio.sleep_forever()

    async def agent(self, turn: TurnContext) -> str | None:
        if self.killed.is_set():
            await trio.sleep_forever()
        story, said = self.story, [event.text for event in turn.said]
        ran = Ran(turn.run_id, turn.entry.session_key, tuple(event.message_id or "" for event in turn.said))
        story.ran.append(ran)
        if not said:
            said = [row.content for row in turn.history if row.role == "user"]
        behaviour = (said[-1].split() or ["plain"])[0]
        if story.healthy or (not turn.said and story.dice.random() < 0.6) or behaviour not in BEHAVIOURS:
            behaviour = "stream"
        answer = await behave(turn, behaviour)
        ran.answer = turn.segment if answer is None else answer
        return answer
