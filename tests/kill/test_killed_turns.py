"""A gateway that is killed between any two writes of a turn in a chat: the next life loses nothing that was
accepted, answers it once, and sends nothing a second time without a mark.

The agent is the real one, with a model that plays rounds. In the next life the model says something else, so
that an answer tells which life has made it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio.agent.providers.model import ModelRequest
from hermes_trio.agent.providers.model_messages import ToolResult, UserMessage
from hermes_trio.config.schema import StreamingConfig
from hermes_trio.platform.contract import FOR_EVER, Traits
from hermes_trio.state.tables.inbox import InboxState
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing import MemoryPlatform
from tests.agent.scripted_model import RecordingTools, Round, ScriptedModel, stage_at
from tests.agent.wire_rules import check_request
from tests.kill.kill_points import KillPoint, LeftState, kill_points, killed_at, left_state, naming
from tests.stage import Stage

ANSWER, DONE = "Here it is.", "Done."
"""The answer of the first life, and that of the next one."""
REPEATED = "♻ Possibly a repeat:\n"
PLAIN = (Round(ANSWER, ()),)
TOOLS = (Round("I look.", (("spell", "a"), ("look", "b"), ("look", "cc"), ("spell", "d"))), Round(ANSWER, ()))
LONG = (Round("I look.", (("look", "x" * 10_000),)), Round(ANSWER, ()))
"""A turn of a quarter of an hour."""

Story = Callable[[Stage], Awaitable[object]]

pytestmark = pytest.mark.usefixtures("autojump_clock")


@dataclass
class Lives:
    """The lives of one gateway, with one platform."""

    folder: Path
    platform: MemoryPlatform
    rounds: Sequence[Round]
    tools: RecordingTools = field(default_factory=RecordingTools)
    """The tools of the first life."""
    requests: list[ModelRequest] = field(default_factory=list)
    """The requests to the model in the next life."""

    def stage(self, home: str, model: ScriptedModel, tools: RecordingTools) -> Stage:
        stage = stage_at(self.folder / home, model, tools, self.platform)
        streaming = StreamingConfig(edit_interval=0.01)  # each piece of a text is an edit of its own
        stage.config = msgspec.structs.replace(stage.config, streaming=streaming)
        return stage

    async def first(self, point: KillPoint, story: Story) -> LeftState | None:
        """Run the first life up to the kill; None if the story is over before."""
        stage = self.stage("home", ScriptedModel(self.rounds), self.tools)
        if not await killed_at(point, stage, self.folder / "left", story):
            return None
        return left_state(self.folder / "left")

    async def next(self) -> Stage:
        """Run the next life until it has done all that was left, and then answers a new message."""
        model, tools = ScriptedModel(), RecordingTools()
        stage = self.stage("left", model, tools)
        async with stage.life() as gateway:
            await trio.sleep(300)
            assert not gateway.work.running
            self.requests, texts = list(model.requests), list(self.texts)
            await stage.says("and now?")
            await trio.sleep(60)
            assert self.texts == [*texts, DONE]
        assert tools.done == []
        for request in model.requests:
            check_request(request)
        left = left_state(stage.home)
        assert set(left.stored.values()) == {InboxState.DONE}
        assert None not in left.outcomes
        return stage

    @property
    def texts(self) -> list[str]:
        return self.platform.chat("42").texts

    @property
    def accepted(self) -> int:
        """The number of messages of which the platform was told that they are received."""
        return sum(done.what == "accept" for done in self.platform.history)


async def works(stage: Stage) -> None:
    stage.platform.post("work")
    await trio.sleep(60)


TRAITS = {
    "plain": Traits(),
    "edits": Traits(edits=True),
    "takes keys": Traits(edits=True, takes_keys_for=FOR_EVER),
    "finds": Traits(edits=True, finds=True),
    "placeholder": Traits(edits=True, placeholder="…"),
    "drafts": Traits(edits=True, drafts=True, placeholder="…"),
}
TURNS = [
    *(pytest.param(PLAIN, traits, id=f"answer, {name}") for name, traits in TRAITS.items()),
    *(pytest.param(TOOLS, TRAITS[name], id=f"tools, {name}") for name in ("plain", "edits")),
]


@pytest.mark.parametrize(("rounds", "traits"), TURNS)
async def test_a_turn_is_answered_once_wherever_it_is_killed(
    tmp_path: Path, rounds: Sequence[Round], traits: Traits
) -> None:
    for point in kill_points():
        lives = Lives(tmp_path / str(point), MemoryPlatform(traits=traits), rounds)
        with naming(point):
            left = await lives.first(point, works)
            if left is None:
                break
            accepted, shown, executed = lives.accepted, list(lives.texts), list(lives.tools.done)
            assert accepted <= len(left.stored), "accepted means stored"
            assert len(executed) <= len(left.calls), "a call is stored before it runs"
            stage = await lives.next()
            check_turns(left, stage)
            check_texts(left, shown, lives.texts[:-1], traits)
            check_requests(left, lives.requests)
    assert point.write > 5


def check_turns(left: LeftState, stage: Stage) -> None:
    """Check that an answered turn stands, and a cut one is resumed once."""
    *found, _ = stage.turns()
    outcomes = [turn.outcome for turn in found]
    if left.outcomes == [None]:
        assert outcomes == [Outcome.CUT, Outcome.ANSWERED]
        assert found[1].resumes == found[0].turn_id
    else:
        assert outcomes == [Outcome.ANSWERED]


def check_texts(left: LeftState, shown: Sequence[str], texts: Sequence[str], traits: Traits) -> None:
    """Check that the answer arrived once, or once more with a mark if the platform cannot tell whether it
    had arrived."""
    answered = left.outcomes == [Outcome.ANSWERED]
    can_tell = traits.takes_keys_for or traits.finds
    answers = [text for text in texts if text.endswith((ANSWER, DONE))]
    if answered and left.unsure - {traits.placeholder} and not can_tell:
        *first, repeat = answers
        assert first == [text for text in shown if text.endswith(ANSWER)], "it arrived, or it did not"
        assert repeat.startswith(REPEATED)
        assert repeat.endswith(ANSWER)
    else:
        assert len(answers) == 1
        assert answers[0].endswith(ANSWER if answered else DONE)
        assert not answers[0].startswith(REPEATED)
    assert not [text for text in texts if text.endswith("▉")], "no cursor stays"
    for text in shown:
        words = text.removesuffix(" ▉").removeprefix(traits.placeholder)
        assert any(later.startswith(words) for later in texts), "what was shown is still there"
        if words and not answered:
            assert any(words in later and later.endswith("(interrupted)") for later in texts), "it is closed"


def check_requests(left: LeftState, requests: Sequence[ModelRequest]) -> None:
    """Check that only an unanswered message is asked again, with the known results of its calls, and that the
    model is told that the other calls may have had their effect."""
    if left.outcomes == [Outcome.ANSWERED]:
        assert requests == []
        return
    [request] = requests
    results = [message.content for message in request.messages if isinstance(message, ToolResult)]
    assert results == left.results
    last = request.messages[-1]
    assert isinstance(last, UserMessage)
    assert ("may have had its effect" in last.text) == (left.outcomes == [None])


@pytest.mark.parametrize("traits", ["plain", "edits"])
@pytest.mark.parametrize("command", ["/stop", "/new"])
async def test_a_stopped_turn_is_never_resumed_wherever_it_is_killed(
    tmp_path: Path, command: str, traits: str
) -> None:
    """A command that was stored holds, also if the kill came before the turn ended. One that was not stored
    comes again."""

    async def stops(stage: Stage) -> None:
        stage.platform.post("work")
        await trio.sleep(5)
        stage.platform.post(command)
        await trio.sleep(5)

    for point in kill_points():
        lives = Lives(tmp_path / str(point), MemoryPlatform(traits=TRAITS[traits]), LONG)
        with naming(point):
            left = await lives.first(point, stops)
            if left is None:
                break
            assert lives.accepted <= len(left.stored), "accepted means stored"
            stage = await lives.next()
            if command in left.stored:
                assert lives.requests == []
                stopped = [Outcome.STOPPED] if command == "/stop" else []
                assert stage.outcomes() == [*stopped, Outcome.ANSWERED], "/new begins a session"
            assert len(lives.requests) <= 1
    assert point.write > 5
