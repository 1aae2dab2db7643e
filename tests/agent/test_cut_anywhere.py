"""A turn may be cut at any step, and the next life continues it: its requests are valid for both wire
formats, every executed call is in the transcript, and no result is there twice.

A cut is possible before any step of any task. The gateway is stopped there, or its home is copied there, as a
kill at that moment would have left it. Clock and threads are virtual, so that each step can be reached again.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.agent.delegate import NAME
from hermes_trio.agent.providers.model import (
    ModelRequest,
)
from hermes_trio.state.tables import sessions, transcript
from hermes_trio.state.tables.transcript import TranscriptRow
from tests.agent.scripted_model import RecordingTools, Round, ScriptedModel, stage_at
from tests.agent.wire_rules import check_request
from tests.stage import KEY


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


@settings(max_examples=30)
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
                check_request(request)
            assert done_again == [], "no call runs again by itself"

    with tempfile.TemporaryDirectory() as folder:
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(lives, Path(folder), clock=clock, instruments=[moment])
