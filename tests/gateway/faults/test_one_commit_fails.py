"""One commit of many fails, as on a disk that is full for a moment, whichever it is: nothing is lost, nothing
is said twice, and what comes next is served."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import outcome
import pytest
import trio
import trio.testing

from hermes_trio.base.errors import StoreError
from hermes_trio.gateway.intake.requests import post
from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.platform.contract import Traits
from hermes_trio.state.db.database import Database
from hermes_trio.testing import MemoryPlatform, Script
from tests.gateway.intake.test_buttons import Asking
from tests.stage import KEY, Stage

T = TypeVar("T")

TRAITS = {
    "plain": Traits(),
    "edits": Traits(edits=True),
    "takes keys": Traits(edits=True, takes_keys=True),
    "finds": Traits(edits=True, finds=True),
    "placeholder": Traits(edits=True, placeholder="…"),
}


class Disk:
    """One on which a commit fails."""

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._left = 0

    async def fails(self, database: Database, number: int) -> None:
        """Let the commit of this number, from now on, fail."""
        self._connection = await database.write(lambda connection: connection)
        await trio.testing.wait_all_tasks_blocked()
        self._left = number

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        with inline_worker(name) as runner:

            def run(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
                self._left -= name == "store-writer"
                if name != "store-writer" or self._left or self._connection is None:
                    runner(job, done)
                    return
                self._connection.execute("PRAGMA query_only = 1")
                try:
                    runner(job, done)
                finally:
                    self._connection.execute("PRAGMA query_only = 0")

            yield run


@pytest.fixture
def disk(stage: Stage) -> Disk:
    disk = Disk()
    stage.worker = disk.worker
    return disk


SAYS = {"/new": "✨", "/undo": "↩", "/stop": "⚡"}
"""How what a command says begins."""


def answered(texts: list[str], words: str) -> bool:
    """Whether this is there once; or, once, why it is not."""
    troubles = [text for text in texts if "cannot be written" in text]
    return (sum(words in text for text in texts) == 1 and not troubles) or len(troubles) == 1


@pytest.mark.parametrize("traits", TRAITS)
@pytest.mark.parametrize("number", range(1, 15))
async def test_of_a_turn(stage: Stage, disk: Disk, number: int, traits: str) -> None:
    stage.platform = MemoryPlatform(traits=TRAITS[traits])
    stage.agent.on("work", Script().says("One. ", pieces=2, seconds=2).calls("tool", seconds=1).says("Two."))
    async with stage.life() as gateway:
        await disk.fails(gateway.home.database, number)
        stage.platform.post("work")
        await trio.sleep(2000)
        assert answered(stage.platform.chat("42").texts, "Two.")
        await stage.says("again")
        await trio.sleep(2000)
        assert answered(stage.platform.chat("42").texts, "You said: again")
        assert stage.pending() == []


@pytest.mark.parametrize("number", range(1, 12))
async def test_of_a_run_that_was_promised(stage: Stage, disk: Disk, number: int) -> None:
    async with stage.life() as gateway:
        await disk.fails(gateway.home.database, number)
        try:
            await post(gateway.mailbox, KEY.format("42"), stage.platform.event("work"))
        except StoreError:
            assert number == 1, "it was not accepted, and whoever asked knows"
            return
        await trio.sleep(2000)
        assert answered(stage.platform.chat("42").texts, "You said: work")


@pytest.mark.parametrize("number", range(1, 12))
async def test_of_a_turn_that_is_taken_up(stage: Stage, disk: Disk, number: int) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
    stage.agent.on("work", Script().says("All done."))
    stage.platform.hangs("connect", 10)
    async with stage.life() as gateway:
        await trio.sleep(5)
        await disk.fails(gateway.home.database, number)
        await trio.sleep(2000)
        assert answered(stage.platform.chat("42").texts, "All done.")


@pytest.mark.parametrize(
    "command", ["/new", "/undo", "/retry", "/stop", "/queue more", "/background more", "/steer more"]
)
@pytest.mark.parametrize("number", range(1, 8))
async def test_of_a_command(stage: Stage, disk: Disk, number: int, command: str) -> None:
    stage.agent.on("work", Script().says("One. ").takes(50).says("Two."))
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        await disk.fails(gateway.home.database, number)
        stage.platform.post(command)
        await trio.sleep(2000)
        texts = stage.platform.chat("42").texts
        if command.endswith("more"):
            assert answered(texts, "You said: more")
        if command == "/retry":
            assert sum("Two." in text or "cannot be written" in text for text in texts) == 1
        if command in SAYS:
            assert sum(text.startswith((SAYS[command], "⚠ /")) for text in texts) == 1, "one word about it"
        await stage.says("again")
        await trio.sleep(2000)
        assert stage.platform.chat("42").texts[-1] == "You said: again"
        assert stage.pending() == []


@pytest.mark.parametrize("presses", [False, True])
@pytest.mark.parametrize("number", range(1, 6))
async def test_of_an_answer(stage: Stage, disk: Disk, number: int, *, presses: bool) -> None:
    """What is stored and not yet given to the turn that asked is given to it later, and begins no other."""
    stage.platform = MemoryPlatform(traits=Traits(edits=True, buttons=True))
    stage.agent = Asking()
    async with stage.life() as gateway:
        await stage.says("which")
        await trio.sleep(5)
        await disk.fails(gateway.home.database, number)
        if presses:
            stage.platform.deliver(stage.platform.press("blue"))
        else:
            stage.platform.post("blue")
        await trio.sleep(2000)
        assert answered(stage.platform.chat("42").texts, "It was blue.")
        assert len(stage.turns()) == 1
