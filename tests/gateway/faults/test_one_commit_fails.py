"""One failing commit, as on a disk that is full for a moment: whichever it is, nothing is lost, nothing is
sent twice, and the next message is served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import outcome
import pytest
import trio

from hermes_trio.base.errors import StoreError
from hermes_trio.gateway.intake.requests import post
from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.platform.contract import FOR_EVER, Traits
from hermes_trio.state.db.database import Database
from hermes_trio.state.db.engine import Db
from hermes_trio.testing import MemoryPlatform, Script
from tests.disk import refusing_writes
from tests.gateway.turns.asking import AskingAgent
from tests.stage import KEY, Stage, settled

T = TypeVar("T")

TRAITS = {
    "plain": Traits(),
    "edits": Traits(edits=True),
    "takes keys": Traits(edits=True, takes_keys_for=FOR_EVER),
    "finds": Traits(edits=True, finds=True),
    "placeholder": Traits(edits=True, placeholder="…"),
    "drafts": Traits(edits=True, drafts=True, placeholder="…"),
}


class FailingCommit:
    """A disk on which one commit fails."""

    def __init__(self) -> None:
        self._connection: Db | None = None
        self._left = 0

    async def fails(self, database: Database, number: int) -> None:
        """Let the commit with this number fail, counted from now."""
        self._connection = await database.write(lambda connection: connection)
        await settled()
        self._left = number

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        with inline_worker(name) as runner:

            def run(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
                self._left -= name == "store-writer"
                if name != "store-writer" or self._left or self._connection is None:
                    runner(job, done)
                    return
                with refusing_writes(self._connection):
                    runner(job, done)

            yield run


@pytest.fixture
def disk(stage: Stage) -> FailingCommit:
    disk = FailingCommit()
    stage.worker = disk.worker
    return disk


SAYS = {"/new": "✨", "/undo": "↩", "/stop": "⚡"}
"""Begin of the reply to a command."""


def answered(texts: list[str], words: str) -> bool:
    """Return whether the answer or the notice of its failure is there once."""
    troubles = [text for text in texts if "cannot be written" in text]
    return (sum(words in text for text in texts) == 1 and not troubles) or len(troubles) == 1


@pytest.mark.parametrize("traits", TRAITS)
@pytest.mark.parametrize("number", range(1, 15))
async def test_a_turn_survives_one_failed_commit(
    stage: Stage, disk: FailingCommit, number: int, traits: str
) -> None:
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
async def test_an_accepted_request_survives_one_failed_commit(
    stage: Stage, disk: FailingCommit, number: int
) -> None:
    async with stage.life() as gateway:
        await disk.fails(gateway.home.database, number)
        try:
            await post(gateway.mailbox, KEY.format("42"), stage.platform.event("work"))
        except StoreError:
            assert number == 1, "the request was not accepted, and the caller knows"
            return
        await trio.sleep(2000)
        assert answered(stage.platform.chat("42").texts, "You said: work")


@pytest.mark.parametrize("number", range(1, 12))
async def test_a_resumed_turn_survives_one_failed_commit(
    stage: Stage, disk: FailingCommit, number: int
) -> None:
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
async def test_a_command_survives_one_failed_commit(
    stage: Stage, disk: FailingCommit, number: int, command: str
) -> None:
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
            assert sum(text.startswith((SAYS[command], "⚠ /")) for text in texts) == 1, "one reply"
        await stage.says("again")
        await trio.sleep(2000)
        assert stage.platform.chat("42").texts[-1] == "You said: again"
        assert stage.pending() == []


@pytest.mark.parametrize("presses", [False, True])
@pytest.mark.parametrize("number", range(1, 6))
async def test_an_answer_to_a_question_survives_one_failed_commit(
    stage: Stage, disk: FailingCommit, number: int, *, presses: bool
) -> None:
    """A stored answer that did not reach the asking turn is given to it later, and begins no other turn."""
    stage.platform = MemoryPlatform(traits=Traits(edits=True, buttons=True))
    stage.agent = AskingAgent()
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
