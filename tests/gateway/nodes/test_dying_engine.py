"""A gateway dies before or after the commit of its k-th transaction, for every k of a story, and another one
that shares its store takes over: each message is answered, once, and nothing is left open."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import pytest
import trio

from hermes_trio.base.world import World
from hermes_trio.platform.contract import FOR_EVER, Traits
from hermes_trio.state.db.engine import Engine
from hermes_trio.state.db.migrations import SchemaStep
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage

from .shared_store import TAKEN_OVER, shared_store

Moment = Literal["before the commit", "after the commit"]


class Dead(Exception):
    """The gateway of this engine is dead."""


class DyingEngine:
    """An engine with which its gateway dies, at a transaction with a number."""

    def __init__(self, engine: Engine, moment: Moment) -> None:
        self._engine, self._moment = engine, moment
        self.left = 0
        """The number of transactions until it dies, with the one at which it does; 0 for never."""
        self.kill: Callable[[], object] = lambda: None
        self.is_dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def begin(self) -> None:
        if self.is_dead:
            raise Dead
        self.left -= 1
        self._engine.begin()

    def commit(self) -> None:
        dies = self.left == 0
        if not dies or self._moment == "after the commit":
            self._engine.commit()
        if dies:
            self.is_dead = True
            self.kill()
            raise Dead

    def translated(self, error: BaseException) -> BaseException:
        return error


async def outlives(stage: Stage, moment: Moment, number: int) -> bool:
    """Play the story with a gateway that dies at this transaction. Return whether it reached the end."""
    engines: list[DyingEngine] = []
    usual = stage.open_engine

    def open_engine(path: Path, world: World, steps: Sequence[SchemaStep]) -> Engine:
        engines.append(DyingEngine(usual(path, world, steps), moment))
        return cast(Engine, engines[-1])

    stage.home = stage.home.with_name(f"{number}") / "common"
    stage.platform = MemoryPlatform(traits=Traits(edits=True, takes_keys_for=FOR_EVER))
    stage.agent.on("work", Script().takes(3).calls("tool", seconds=1).says("It is done."))
    stage.open_engine = open_engine
    try:
        with trio.fail_after(3600):  # on the virtual clock
            return await _played(stage, engines, number)
    finally:
        stage.open_engine = usual


async def _played(stage: Stage, engines: Sequence[DyingEngine], number: int) -> bool:
    async with shared_store(stage) as store:
        first = await store.start("first")
        await store.start("second")
        await trio.sleep(1)
        engines[0].kill, engines[0].left = first.kill, number
        await stage.says("work")
        await trio.sleep(10)
        is_alive = not engines[0].is_dead
        engines[0].left = 0
        await trio.sleep(TAKEN_OVER + 60)
        await stage.says("again")
        await trio.sleep(60)
        texts = stage.platform.chat("42").texts
        assert [texts.count(text) for text in ("It is done.", "You said: again")] == [1, 1], texts
        assert stage.pending() == []
        assert stage.outcomes()[-1] == "answered"
        assert None not in stage.outcomes()
    return is_alive


@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
async def test_a_gateway_that_dies_at_any_transaction_is_taken_over(stage: Stage, moment: Moment) -> None:
    for number in itertools.count(1):
        if await outlives(stage, moment, number):
            break
    assert number > 6, "it died at six transactions or more"
