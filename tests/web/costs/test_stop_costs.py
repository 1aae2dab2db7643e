"""The exact cost of stopping a turn, from the moment in which the stop is sent until nothing more happens."""

from __future__ import annotations

from hermes_trio.platform import Traits
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.model_replies import Reply
from tests.web.conftest import WebStage

from .counted_life import counted_web
from .job_counts import Cost

HANGS = Reply().says("I begin.").hangs()
STOPPED = "⚡ Stopped. The session goes on with your next message."


async def cost_in_a_chat(stage: WebStage, traits: Traits) -> tuple[Cost, list[str]]:
    """Return the cost of a typed `/stop`, and the chat after it."""
    platform = stage.platform = MemoryPlatform(traits=traits)
    async with counted_web(stage) as (_, life):
        life.model.answers(HANGS)
        await platform.says("hi")
        await life.cost()
        await platform.says("/stop")
        return await life.cost(), platform.chat("42").texts


async def test_a_stop_in_a_chat_stores_the_command_with_the_stop_then_the_end(web_stage: WebStage) -> None:
    cost, texts = await cost_in_a_chat(web_stage, Traits())
    assert cost == Cost(commits=2, reads=0, journal=1)
    assert texts == [STOPPED]


async def test_a_stop_of_an_answer_that_grows_adds_the_receipt_of_its_last_edit(web_stage: WebStage) -> None:
    cost, texts = await cost_in_a_chat(web_stage, Traits(edits=True))
    assert cost == Cost(commits=3, reads=2, journal=1)
    assert texts == ["I begin.\n\n(interrupted)", STOPPED]


async def test_a_stop_before_any_text_adds_nothing_although_the_chat_can_edit(web_stage: WebStage) -> None:
    platform = web_stage.platform = MemoryPlatform(traits=Traits(edits=True))
    async with counted_web(web_stage) as (_, life):
        life.model.answers(Reply().hangs())
        await platform.says("hi")
        await life.cost()
        await platform.says("/stop")
        assert await life.cost() == Cost(commits=2, reads=0, journal=1)


async def test_a_stop_of_a_run_stores_the_stop_and_the_end(web_stage: WebStage) -> None:
    async with counted_web(web_stage) as (http, life):
        life.model.answers(HANGS)
        run = (await http.post("/v1/runs", json={"input": "hi"})).json()["run_id"]
        await life.cost()
        stopping = await http.post(f"/v1/runs/{run}/stop")
        assert stopping.json()["status"] == "stopping"
        # Read for the answer, and again after it was sent: the run may have begun or ended meanwhile.
        assert await life.cost() == Cost(commits=2, reads=2, journal=1)


async def test_a_stop_of_a_session_stores_the_stop_and_the_end(web_stage: WebStage) -> None:
    async with counted_web(web_stage) as (http, life):
        life.model.answers(HANGS)
        await http.post("/v1/runs", json={"input": "hi", "session_id": "one"})
        await life.cost()
        stopped = await http.post("/api/sessions/one/stop")
        assert stopped.json() == {"stopped": True, "dropped": 0}
        assert await life.cost() == Cost(commits=2, reads=1, journal=1)
