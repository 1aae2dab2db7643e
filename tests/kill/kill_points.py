"""Kills of a gateway before and after each write of its disk.

Each commit of the database and each job of the journals is one write. A kill leaves the home as it is on the
disk at that moment, so the home is copied then. Before a write, everything has happened that follows the
write before it: a message is sent, a tool has run, a client has its response. After a write nobody knows of
it yet.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import outcome
import trio

from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.state.tables import transcript, turns
from hermes_trio.state.tables.inbox import InboxState
from hermes_trio.state.tables.outbox import OutboxState
from hermes_trio.state.tables.turns import TurnRow
from tests.kill.audit import database_of
from tests.stage import Stage, settled

WRITERS = ("store-writer", "journal-writer")


class KillPoint(NamedTuple):
    """A moment of a kill."""

    write: int
    """Number of the write, from 1."""
    after: bool
    """True if the kill follows this write, False if it comes just before."""

    def __str__(self) -> str:
        return f"{'after' if self.after else 'before'} write {self.write}"


def kill_points() -> Iterator[KillPoint]:
    """Yield all moments, without end: a test stops at the first one that its story does not reach."""
    for number in itertools.count(1):
        yield KillPoint(number, after=False)
        yield KillPoint(number, after=True)


class WatchedDisk:
    """A worker that reports each moment of a kill while `at` is set."""

    def __init__(self) -> None:
        self.at: Callable[[KillPoint], object] | None = None
        self._writes = 0

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        with inline_worker(name) as runner:

            def run(job: Callable[[], Any], done: Callable[[outcome.Outcome[Any]], object]) -> None:
                at = self.at
                if name not in WRITERS or at is None:
                    runner(job, done)
                    return
                self._writes += 1
                at(KillPoint(self._writes, after=False))
                result = outcome.capture(job)
                at(KillPoint(self._writes, after=True))
                runner(result.unwrap, done)

            yield run


@contextmanager
def naming(point: KillPoint) -> Iterator[None]:
    """Name the moment of the kill in an error of the block."""
    try:
        yield
    except BaseException as error:  # whatever it is, it goes on with the note
        error.add_note(f"The gateway was killed {point}.")
        raise


async def killed_at(
    point: KillPoint, stage: Stage, left: Path, story: Callable[[Stage], Awaitable[object]]
) -> bool:
    """Run a life with this story, and kill it at this point: `left` is its home then, and the platform gets
    nothing more from it. Return False, without a kill, if the story ends before."""
    disk, killed = WatchedDisk(), trio.Event()
    stage.worker = disk.worker
    platform, sent = stage.platform, 0

    def at(here: KillPoint) -> None:
        nonlocal sent
        if here == point:
            shutil.copytree(stage.home, left)
            platform.drop()
            sent = len(platform.history)
            killed.set()

    async with stage.life():
        await settled()
        disk.at = at
        async with trio.open_nursery() as nursery:

            async def tell() -> None:
                await story(stage)
                nursery.cancel_scope.cancel(reason="the story is over")

            nursery.start_soon(tell)
            await killed.wait()
            nursery.cancel_scope.cancel(reason="the gateway is killed")
        disk.at = None
    assert {done.what for done in platform.history[sent:]} <= {"disconnect"} or not killed.is_set()
    return killed.is_set()


@dataclass(frozen=True, slots=True)
class LeftState:
    """The state of a chat's work in the home of a killed gateway."""

    stored: dict[str, InboxState]
    """The stored messages by text."""
    turns: list[TurnRow]
    unsure: set[str]
    """The texts of the sends with an unknown outcome."""
    calls: list[str]
    """The ids of the tool calls."""
    results: list[str]
    """The results of those of them that have one."""

    @property
    def outcomes(self) -> list[str | None]:
        return [turn.outcome for turn in self.turns]


def left_state(home: Path) -> LeftState:
    """Read what a kill has left, and change nothing."""
    with database_of(home) as db:
        found = [turns.get(db, turn_id) for (turn_id,) in db.execute("SELECT turn_id FROM turns")]
        began = [turn for turn in found if turn is not None]
        rows = [row for one in {turn.session_id for turn in began} for row in transcript.load(db, one)]
        query = "SELECT json_extract(event, '$.text'), state FROM inbox"
        stored = {text: InboxState(state) for text, state in db.execute(query)}
        unsure = "SELECT json_extract(body, '$.text') FROM outbox WHERE state = ?"
        return LeftState(
            stored,
            began,
            {text for (text,) in db.execute(unsure, (OutboxState.ATTEMPTING,))},
            [call.id for row in rows for call in row.tool_calls],
            [row.content for row in rows if row.role == "tool"],
        )
