"""A store that loses its connection once: before a commit, or after a commit whose answer never comes.
Whichever transaction it is, nobody notices: nothing is lost and nothing is done twice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast

import pytest
import trio

from hermes_trio.base.world import World
from hermes_trio.state.db.engine import Engine
from hermes_trio.state.db.migrations import SchemaStep
from hermes_trio.testing import Script
from tests.stage import Stage

Moment = Literal["before the commit", "after the commit"]
TRANSACTIONS = 17
"""As many as the story has, or one more: two steps of one moment may share one."""


class Lost(Exception):
    """The connection is lost."""


class LosingEngine:
    """An engine that loses the connection of its writer once, at a transaction with a number."""

    def __init__(self, engine: Engine, moment: Moment) -> None:
        self._engine, self._moment = engine, moment
        self.is_lost = False
        self.left = 0
        """The number of transactions until it is lost, with the one that loses it; 0 for never."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def begin(self) -> None:
        self.left -= 1
        self._engine.begin()

    def commit(self) -> None:
        if self.left == 0 and self._moment == "before the commit":
            self._engine.rollback()
            self._lose()
        self._engine.commit()
        if self.left == 0 and self._moment == "after the commit":
            self._lose()

    def reconnect(self) -> None:
        self.is_lost = False

    def translated(self, error: BaseException) -> BaseException:
        return error

    def _lose(self) -> None:
        self.is_lost = True
        raise Lost


@pytest.fixture(params=["before the commit", "after the commit"])
def engines(request: pytest.FixtureRequest, stage: Stage) -> list[LosingEngine]:
    """The engines that the lives of the stage have opened."""
    opened: list[LosingEngine] = []
    usual = stage.open_engine

    def open_engine(path: Path, world: World, steps: Sequence[SchemaStep]) -> Engine:
        opened.append(LosingEngine(usual(path, world, steps), request.param))
        return cast(Engine, opened[-1])

    stage.open_engine = open_engine
    return opened


@pytest.mark.parametrize("number", range(1, TRANSACTIONS + 2))
async def test_a_story_goes_on_over_a_lost_connection(
    stage: Stage, engines: list[LosingEngine], number: int
) -> None:
    stage.agent.on("work", Script().says("One. ", pieces=2, seconds=2).calls("tool", seconds=1).says("Two."))
    async with stage.life() as gateway:
        engines[-1].left = number
        await stage.says("work")
        await trio.sleep(100)
        await stage.says("again")
        await trio.sleep(100)
        assert engines[-1].left <= 0 or number >= TRANSACTIONS, "it has lost each transaction"
        assert engines[-1].left > 0 or number <= TRANSACTIONS, "there are no others"
        first, second = stage.platform.chat("42").texts
        stored = await gateway.home.database.read(
            lambda db: db.execute("SELECT count(*) FROM inbox").fetchone()
        )
    assert (first, second) == ("One. Two.", "You said: again")
    assert stage.outcomes() == ["answered", "answered"]
    assert [text for role, text in stage.transcript() if role == "user"] == ["work", "again"]
    assert [said for said, _ in stage.agent.began] == ["work", "again"]
    assert (stage.pending(), tuple(stored)) == ([], (2,))
