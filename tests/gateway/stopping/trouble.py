"""Parts of a gateway that hang, and the check of its next life."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager
from typing import get_args

import trio

from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.platform.contract import Traits
from hermes_trio.testing import MemoryPlatform, Script
from hermes_trio.testing.memory_platform import MemoryLink
from hermes_trio.testing.stage import Call
from tests.disk import Disk
from tests.stage import Agent, Stage

BEGINS = Script().says("I begin.")
EACH = ("store", "journal", "status", "sends", "disconnect", "agent", "memory of the agent")
EVERYTHING = ", ".join(EACH)


class ReluctantPlatform(MemoryPlatform):
    """A platform whose connection may hang when it is left, until it is cancelled."""

    leaves = True

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[MemoryLink]:
        async with super().connect() as link:
            yield link
            if not self.leaves:
                await trio.sleep_forever()


class Trouble:
    """Parts of a gateway that hang from one moment on, for ever."""

    def __init__(self, stage: Stage, what: str) -> None:
        self.what, self._disk, self._agent = what.split(", "), Disk(), stage.agent
        self._platform = stage.platform = ReluctantPlatform(traits=Traits(edits=True, typing=True))
        stage.worker, stage.opened_agent = self.worker, self.agent()
        # Two seconds, like a process that cannot be killed.
        stage.agent.on("hang", BEGINS.hangs(resists=2 if "agent" in self.what else 0))

    def worker(self, name: str) -> AbstractContextManager[Runner]:
        hangs = name.split("-")[0] in self.what
        return self._disk.worker(name) if hangs else inline_worker(name)

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Agent]:
        yield self._agent
        if "memory of the agent" in self.what:
            await trio.sleep_forever()

    async def begins(self, at: float) -> None:
        await trio.sleep_until(at)
        self._disk.hangs = True
        if "sends" in self.what:
            for call in get_args(Call):
                self._platform.hangs(call, times=1000)
        if "disconnect" in self.what:
            self._platform.leaves, self._platform.disconnect_takes = False, 0.5


async def answered_by_the_next_life(stage: Stage) -> None:
    """Check that a next life without trouble resumes and answers everything once."""
    stage.platform = MemoryPlatform(traits=stage.platform.traits)
    stage.worker, stage.opened_agent = inline_worker, None
    stage.agent.on("hang", Script().says("All done."))
    for _ in range(2):
        async with stage.life():
            await trio.sleep(5)
    assert [turn.outcome for turn in stage.turns()] == ["cut", "answered"]
    assert stage.platform.chat("42").texts == ["All done."]
    assert stage.entry().mark is None
