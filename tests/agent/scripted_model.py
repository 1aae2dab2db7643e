"""A stage with the real agent for tests on a virtual clock, where no model server can be asked: a model that
plays prepared rounds, and tools that record the executed calls."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import trio

from hermes_trio.agent.delegate import NAME
from hermes_trio.agent.model_agent import Agent
from hermes_trio.agent.providers.model import (
    Finished,
    Item,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallBroken,
    ToolCallReady,
)
from hermes_trio.agent.toolset import Toolbox
from hermes_trio.base.world import World
from hermes_trio.platform.contract import Traits
from hermes_trio.state.tables.transcript import ToolCall
from hermes_trio.testing import MemoryPlatform
from hermes_trio.tools.tool import Result, Tool, ToolFailed, Workplace
from tests.stage import Stage, everyone

START = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Round:
    """One answer of a model: its text and its calls as pairs of tool and word. The tool `broken` stands for a
    call that cannot run."""

    text: str
    calls: tuple[tuple[str, str], ...]


class Word(msgspec.Struct, frozen=True):
    word: str


@dataclass
class ScriptedModel:
    """A model that plays its rounds and then is done. In a delegated task it makes one call of `spell`."""

    rounds: Sequence[Round] = ()
    requests: list[ModelRequest] = field(default_factory=list)
    name: str = "scripted"
    _number: int = 0

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Item]]:
        self.requests.append(request)
        await trio.sleep(0.1)
        if all(tool.name != NAME for tool in request.tools):
            asked = len(request.messages) == 1
            yield _Items(Round("On it.", (("spell", "child"),) if asked else ()))
            return
        number, self._number = self._number, self._number + 1
        yield _Items(self.rounds[number] if number < len(self.rounds) else Round("Done.", ()))


class _Items:
    def __init__(self, said: Round) -> None:
        items: list[Item] = [ReasoningDelta("Hm.")]
        items += [TextDelta(piece) for piece in (said.text[:3], said.text[3:]) if piece]
        for number, (tool, word) in enumerate(said.calls):
            # Small servers reuse the same call ids in each answer.
            arguments = '{"goal": "%s"}' if tool == NAME else '{"word": "%s"}'
            if tool == "broken":
                items.append(ToolCallBroken(f"call_{number}", "spell", '{"wor', "it is cut off"))
            else:
                items.append(ToolCallReady(ToolCall(f"call_{number}", tool, arguments % word)))
        self._items = iter([*items, Finished("tool_calls" if said.calls else "stop")])

    def __aiter__(self) -> _Items:
        return self

    async def __anext__(self) -> Item:
        await trio.sleep(0.01)
        for item in self._items:
            return item
        raise StopAsyncIteration


@dataclass
class RecordingTools:
    """Tools that record the executed calls."""

    done: list[str] = field(default_factory=list)

    async def _spell(self, arguments: Word, place: Workplace) -> Result:
        await trio.sleep(0.1)
        self.done.append(arguments.word)
        await trio.sleep(0.1)
        return Result(f"spelled {arguments.word}")

    async def _look(self, arguments: Word, place: Workplace) -> Result:
        await trio.sleep(0.1 * len(arguments.word))
        return Result("")

    async def _fail(self, arguments: Word, place: Workplace) -> Result:
        await trio.sleep(0.1)
        raise ToolFailed("No \ud83d.")

    async def _ask(self, arguments: Word, place: Workplace) -> Result:
        with trio.move_on_after(1):
            await place.ask("Which?", ["a", "b"])
        return Result("Nobody answered.", status="unanswered")

    @property
    def tools(self) -> dict[str, Tool]:
        made = (
            Tool("spell", "Spells.", Word, self._spell),
            Tool("look", "Looks.", Word, self._look, reads_only=True, untrusted=True),
            Tool("fail", "Fails.", Word, self._fail),
            Tool("clarify", "Asks.", Word, self._ask),
        )
        return {tool.name: tool for tool in made}


def stage_at(
    home: Path, model: ScriptedModel, bench: RecordingTools, platform: MemoryPlatform | None = None
) -> Stage:
    """Return a stage with this home, the agent with this model and these tools, and this platform or a new
    one with edits."""
    ids = itertools.count(1)
    life = random.randrange(16**6)  # noqa: S311
    world = World(
        now=lambda: START + timedelta(seconds=trio.current_time()),
        new_id=lambda: f"{life:06x}{next(ids):04x}",
        jitter=lambda: 0.0,
        zone=UTC,
    )

    def open_model() -> nullcontext[ScriptedModel]:
        return nullcontext(model)

    agent = Agent(open_model, Toolbox(open_model, bench.tools), world, window=None, most=10)
    platform = platform or MemoryPlatform(traits=Traits(edits=True))
    return Stage(home, world, platform, agent, everyone(busy="steer"))  # type: ignore[arg-type]
