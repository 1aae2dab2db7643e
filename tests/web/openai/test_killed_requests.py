"""A gateway that is killed between any two writes of a turn of the API: in the next life the client asks for
its run, or repeats its request with the same key. The run reaches an end, and the model is asked again only
for what was not answered.

One life is copied at each moment, and each copy is the home of a next life.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from hermes_trio.state.tables.inbox import InboxState
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import ModelServer, open_model_server
from tests.agent.scripted_model import RecordingTools
from tests.agent.wire_rules import check
from tests.kill.kill_points import KillPoint, LeftState, WatchedDisk, left_state, naming
from tests.web.conftest import PATIENCE, WebStage
from tests.web.openai.run_client import events, stands, until

ANSWER, DONE = "Here it is.", "Done."
"""The answer of the first life, and that of the next one."""
SAY = Reply().says(ANSWER)
CALL = Reply().says("I look.").calls("spell", {"word": "a"}).calls("spell", {"word": "b"})
TURNS = {"answer": (SAY,), "tools": (CALL, SAY)}
KEY = {"Idempotency-Key": "k"}


@dataclass
class Image:
    """The home of the gateway at one moment, and what its client knew."""

    home: Path
    run: dict[str, Any] | None
    """The run that the client was promised."""
    is_stopped: bool
    """True if the client was told that its run is stopped."""


@dataclass
class Lives:
    """The lives of one gateway, with one model server and one client."""

    stage: WebStage
    server: ModelServer
    folder: Path
    run: dict[str, Any] | None = None
    is_stopped: bool = False
    images: dict[KillPoint, Image] = field(default_factory=dict)

    @asynccontextmanager
    async def served(self) -> AsyncIterator[httpx.AsyncClient]:
        """Run a life with the agent of the gateway."""
        self.stage.asks(self.server, RecordingTools().tools)
        async with self.stage.served() as (_, http):
            yield http

    async def first(self, story: Callable[[Lives, httpx.AsyncClient], Awaitable[object]]) -> None:
        """Run a life with this story of the client, and copy its home before and after each write."""
        disk = WatchedDisk()
        self.stage.worker = disk.worker
        async with self.served() as http:
            disk.at = self._copy
            await story(self, http)
            disk.at = None
        self.server.otherwise = Reply().says(DONE)

    def _copy(self, point: KillPoint) -> None:
        home = self.folder / str(point)
        shutil.copytree(self.stage.home, home)
        self.images[point] = Image(home, self.run, self.is_stopped)

    @asynccontextmanager
    async def next(self, image: Image) -> AsyncIterator[httpx.AsyncClient]:
        """Run a next life on a copy. When the block ends, all of its work is done."""
        self.stage.home = image.home
        self.server.requests.clear()
        async with self.served() as http:
            yield http
        for request in self.server.requests:
            check(request.path, request.body)
        left = left_state(image.home)
        assert set(left.stored.values()) == {InboxState.DONE}
        assert None not in left.outcomes

    def check_answer(self, left: LeftState, states: list[dict[str, Any]]) -> None:
        """Check the runs that have answered the request: an answered turn stands, a cut one is resumed once,
        and only an unanswered message is asked again."""
        kept = left.outcomes == [Outcome.ANSWERED]
        statuses = ["interrupted", "completed"] if left.outcomes == [None] else ["completed"]
        assert [state["status"] for state in states] == statuses
        assert states[-1]["output"] == (ANSWER if kept else DONE)
        assert len(self.server.requests) == (0 if kept else 1)
        assert left_state(self.stage.home).outcomes.count(Outcome.ANSWERED) == 1


async def over(http: httpx.AsyncClient, run: dict[str, Any]) -> list[dict[str, Any]]:
    """Wait for the end of a run, and of those that resume it. Return the state of each."""
    with trio.fail_after(PATIENCE):
        while True:
            state = await stands(http, run)
            if state["status"] in ("completed", "failed", "cancelled"):
                return [state]
            if state["resumed_as"]:
                return [state, *await over(http, {"run_id": state["resumed_as"]})]
            await trio.sleep(0.01)


async def request_run(http: httpx.AsyncClient) -> dict[str, Any]:
    response = await http.post("/v1/runs", json={"input": "work", "session_id": "one"}, headers=KEY)
    assert response.status_code == 202
    run: dict[str, Any] = response.json()
    return run


@pytest.mark.parametrize("turn", TURNS)
async def test_a_run_reaches_its_end_wherever_its_gateway_is_killed(
    web_stage: WebStage, tmp_path: Path, turn: str
) -> None:
    async def story(lives: Lives, http: httpx.AsyncClient) -> None:
        lives.run = await request_run(http)
        await over(http, lives.run)
        await events(http, lives.run)

    async with open_model_server() as server:
        server.answers(*TURNS[turn])
        lives = Lives(web_stage, server, tmp_path)
        await lives.first(story)
        for point, image in lives.images.items():
            with naming(point):
                left = left_state(image.home)
                async with lives.next(image) as http:
                    run = image.run or await request_run(http)
                    states = await over(http, run)
                    for state in states:
                        told = await events(http, state)
                        assert told.names[-1] in ("run.completed", "run.failed")
                        assert told.is_done
                    again = await request_run(http)
                    assert again["run_id"] in [state["run_id"] for state in states]
                    lives.check_answer(left, states)
        assert len(lives.images) > 10


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turn", TURNS)
async def test_a_completion_that_is_repeated_after_a_kill_is_answered_once(
    web_stage: WebStage, tmp_path: Path, turn: str, stream: bool
) -> None:
    """The completion of a cut turn stays unfinished. It names the run, whose state names the resumed one."""
    asked = {"model": "x", "stream": stream, "messages": [{"role": "user", "content": "work"}]}

    async def complete(http: httpx.AsyncClient) -> str:
        return (await http.post("/v1/chat/completions", json=asked, headers=KEY)).text

    async def story(_: Lives, http: httpx.AsyncClient) -> None:
        assert ANSWER in await complete(http)

    async with open_model_server() as server:
        server.answers(*TURNS[turn])
        lives = Lives(web_stage, server, tmp_path)
        await lives.first(story)
        for point, image in lives.images.items():
            with naming(point):
                left = left_state(image.home)
                async with lives.next(image) as http:
                    told = await complete(http)
                    named = re.search(r"(?:chatcmpl-|/v1/runs/)(\w+)", told)
                    assert named is not None
                    states = await over(http, {"run_id": named[1]})
                    lives.check_answer(left, states)
                    is_whole = '"finish_reason":"stop"' in told
                    assert is_whole == (len(states) == 1)
                    assert not is_whole or states[0]["output"] in told
        assert len(lives.images) > 10


async def test_a_stopped_run_is_not_resumed_wherever_its_gateway_is_killed(
    web_stage: WebStage, tmp_path: Path
) -> None:
    async def story(lives: Lives, http: httpx.AsyncClient) -> None:
        run = lives.run = await request_run(http)
        await lives.server.until(lambda: bool(lives.server.requests))
        stopped = await http.post(f"/v1/runs/{run['run_id']}/stop")
        lives.is_stopped = stopped.is_success
        await until(http, run, "cancelled")

    async with open_model_server() as server:
        server.otherwise = Reply().says("I begin.").hangs()
        lives = Lives(web_stage, server, tmp_path)
        await lives.first(story)
        for point, image in lives.images.items():
            with naming(point):
                async with lives.next(image) as http:
                    states = await over(http, image.run or await request_run(http))
                    if image.is_stopped:
                        assert [state["status"] for state in states] == ["cancelled"]
                        assert server.requests == []
                    assert states[-1]["output"] in (DONE, None)
                    assert len(server.requests) <= 1
        assert lives.is_stopped
