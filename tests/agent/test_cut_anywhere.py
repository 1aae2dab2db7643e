"""A turn may be cut at any step, and the next life continues it: its requests are valid for both wire
formats, every executed call is in the transcript, and no result is there twice.

A cut is possible before any step of any task. The gateway is stopped there, or its home is copied there, as a
kill at that moment would have left it. Clock and threads are virtual, so that each step can be reached again.
"""

from __future__ import annotations

import itertools
import json
import random
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import trio
import trio.testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_trio.agent.delegate import NAME
from hermes_trio.agent.model_agent import Agent
from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model import (
    Finished,
    Item,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    ToolCallBroken,
    ToolCallReady,
)
from hermes_trio.agent.providers.wire.anthropic import messages_body
from hermes_trio.agent.providers.wire.openai import chat_body
from hermes_trio.agent.toolset import Toolbox
from hermes_trio.base.world import World
from hermes_trio.platform.contract import Traits
from hermes_trio.state.tables import sessions, transcript
from hermes_trio.state.tables.transcript import ToolCall, TranscriptRow
from hermes_trio.testing import MemoryPlatform
from hermes_trio.tools.tool import Result, Tool, ToolFailed, Workplace
from tests.agent.wire_rules import check_chat, check_messages
from tests.stage import KEY, Stage, everyone

SERVERS = (
    Endpoint("openai", "http://127.0.0.1/v1", "m"),
    Endpoint("anthropic", "http://127.0.0.1", "claude-4"),
)
START = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)


@dataclass(frozen=True)
class Round:
    """One answer of a model: its text and its calls as pairs of tool and word. The tool `broken` stands for a
    call that cannot run."""

    text: str
    calls: tuple[tuple[str, str], ...]


class Word(msgspec.Struct, frozen=True):
    word: str


class Goal(msgspec.Struct, frozen=True):
    goal: str


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


class StepHook(trio.abc.Instrument):
    """An instrument that calls a function before a given step of any task. Steps are counted from the moment
    `steps` is set to 0."""

    def __init__(self) -> None:
        self.steps = -1
        self.plans: dict[int, Callable[[], None]] = {}

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if self.steps >= 0:
            self.steps += 1
            if plan := self.plans.pop(self.steps, None):
                plan()


def stage_at(home: Path, model: ScriptedModel, bench: RecordingTools) -> Stage:
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
    platform = MemoryPlatform(traits=Traits(edits=True))
    return Stage(home, world, platform, agent, everyone(busy="steer"))  # type: ignore[arg-type]


async def first_life(
    home: Path, images: Path, rounds: Sequence[Round], at: Sequence[int], meanwhile: int, moment: StepHook
) -> dict[Path, list[str]]:
    """Run a life: copy its home at these steps, as a kill would leave it, and stop at the last one. Return
    the copies, each with the calls that were executed by then."""
    bench = RecordingTools()
    stage = stage_at(home, ScriptedModel(rounds), bench)
    done: dict[Path, list[str]] = {}
    over = trio.Event()

    def copy() -> None:
        image = images / str(len(done))
        done[image] = list(bench.done)
        shutil.copytree(home, image)

    def stop() -> None:
        token.run_sync_soon(over.set)
        token.run_sync_soon(lambda: gateway.stop(grace=0, asked_by="the story"))

    def speak() -> None:
        token.run_sync_soon(lambda: stage.platform.post("and blue"))

    token = trio.lowlevel.current_trio_token()
    async with stage.life() as gateway:
        await trio.testing.wait_all_tasks_blocked()
        moment.plans = {meanwhile: speak} | dict.fromkeys(at, copy) | {max(at): stop}
        moment.steps = 0
        stage.platform.post("paint it")
        with trio.move_on_after(60):
            await over.wait()
    moment.steps = -1
    copy()
    return done


def rows_in(home: Path) -> list[TranscriptRow]:
    db = sqlite3.connect(home / "gateway.db")
    try:
        entry = sessions.open_by_key(db, KEY.format("42"))
        return transcript.load(db, entry.session_id) if entry else []
    finally:
        db.close()


async def second_life(home: Path) -> tuple[list[ModelRequest], list[str]]:
    """Run the next life, with one more message of the person. Return the requests to the model and the
    executed calls."""
    model, bench = ScriptedModel(), RecordingTools()
    stage = stage_at(home, model, bench)
    async with stage.life() as gateway:
        await trio.sleep(30)
        stage.platform.post("and now?", message_id="later")
        await trio.sleep(30)
        assert not gateway.work.running
        assert stage.platform.chat("42").last == "Done."
    return model.requests, bench.done


def check(request: ModelRequest) -> None:
    """Check the request in both wire formats."""
    chat, messages = (
        msgspec.json.decode(msgspec.json.encode(build(request, server)))
        for build, server in zip((chat_body, messages_body), SERVERS, strict=True)
    )
    check_chat(chat)
    check_messages(messages)


words = st.sampled_from(["a", "b", "cc"])
tool_names = st.sampled_from(["spell", "spell", "look", "look", "fail", "clarify", "dance", "broken", NAME])
rounds_of = st.lists(
    st.builds(
        Round,
        st.sampled_from(["", "I do it."]),
        st.lists(st.tuples(tool_names, words), min_size=1, max_size=4).map(tuple),
    ),
    max_size=3,
)
steps = st.integers(1, 400)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rounds=rounds_of, at=st.sets(steps, min_size=2, max_size=8), meanwhile=steps)
def test_the_next_life_continues_after_a_cut_at_any_step(
    rounds: list[Round], at: set[int], meanwhile: int
) -> None:
    moment = StepHook()

    async def lives(folder: Path) -> None:
        images = await first_life(folder / "home", folder, rounds, sorted(at), meanwhile, moment)
        for image, done in images.items():
            rows = rows_in(image)
            calls = [call for row in rows for call in row.tool_calls]
            wanted = Counter(call.arguments for call in calls if call.name == "spell")
            assert Counter(json.dumps({"word": word}) for word in done if word != "child") <= wanted, (
                "calls are stored before they run"
            )
            assert done.count("child") <= sum(call.name == NAME for call in calls)
            assert len([row for row in rows if row.role == "tool"]) <= len(calls), "no result is stored twice"
            requests, done_again = await second_life(image)
            assert requests, "the model was asked"
            for request in requests:
                check(request)
            assert done_again == [], "no call runs again by itself"

    with tempfile.TemporaryDirectory() as folder:
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(lives, Path(folder), clock=clock, instruments=[moment])
