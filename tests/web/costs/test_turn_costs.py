"""The exact number of commits, reads and journal jobs of a turn, with the agent of the gateway and a model
server on this machine, through the doors that people use."""

from __future__ import annotations

import httpx
import pytest
from trio.testing import MockClock

from hermes_trio.platform import Traits
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.model_replies import Reply
from tests.web.conftest import WebStage

from .counted_life import complete, counted_web
from .job_counts import Cost


@pytest.mark.parametrize("stream", [False, True])
async def test_an_api_turn_is_accepted_begun_and_ended_in_one_commit_each(
    web_stage: WebStage, stream: bool
) -> None:
    async with counted_web(web_stage) as (http, life):
        for first in (1, 0, 0, 0):  # the prompt of a new session is stored; its transcript is read
            assert "Hello there." in await complete(http, stream=stream)
            assert await life.cost() == Cost(3 + first, reads=2 + first, journal=3)


async def test_a_run_costs_no_more_than_a_chat_completion(web_stage: WebStage) -> None:
    async with counted_web(web_stage) as (http, life):
        for first in (1, 0, 0):
            answered = await http.post("/v1/runs", json={"input": "hi", "session_id": "one"})
            assert answered.status_code == 202
            assert await life.cost() == Cost(3 + first, reads=2 + first, journal=3)


async def test_a_message_on_the_page_costs_no_more_than_a_chat_completion(web_stage: WebStage) -> None:
    async with counted_web(web_stage) as (http, life):
        for first in (1, 0, 0):
            answered = await http.post("/api/sessions/one/messages", json={"text": "hi"})
            assert answered.status_code == 202
            # The session is read before, because a message may go to a session of any platform.
            assert await life.cost() == Cost(3 + first, reads=3 + first, journal=3)


async def test_an_answer_in_a_chat_adds_its_attempt_and_its_receipt(web_stage: WebStage) -> None:
    async with counted_web(web_stage) as (_, life):
        for first in (1, 0, 0):
            await web_stage.platform.says("hi")
            assert await life.cost() == Cost(5 + first, reads=3 + first, journal=3)
        assert web_stage.platform.chat("42").texts == ["Hello there."] * 3


async def test_a_streamed_answer_adds_the_attempt_and_the_receipt_of_its_first_message(
    web_stage: WebStage, autojump_clock: MockClock
) -> None:
    platform = web_stage.platform = MemoryPlatform(traits=Traits(edits=True))

    async def edited(times: int) -> None:
        await platform.until(lambda: sum(one.what == "edit" for one in platform.history) == times)

    async with counted_web(web_stage) as (_, life):
        # The first message is sent without the cursor, and edited to show it, before the answer ends.
        life.model.otherwise = Reply().says("Hello there.").pauses(1.0)
        for turns, first in enumerate((1, 0, 0), start=1):
            await platform.says("hi")
            await edited(2 * turns)
            assert await life.cost() == Cost(6 + first, reads=4 + first, journal=3)


async def test_the_sender_is_looked_for_once_in_each_connection(web_stage: WebStage) -> None:
    async with counted_web(web_stage) as (http, life):
        for looks in (1, 0, 0):
            await http.post("/v1/runs", json={"input": "hi", "session_id": "one"})
            assert life.jobs.looks() == looks
        async with httpx.AsyncClient(base_url=http.base_url, headers=http.headers) as other:
            await other.post("/v1/runs", json={"input": "hi", "session_id": "one"})
            assert life.jobs.looks() == 1
