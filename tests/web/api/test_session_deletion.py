"""Stopping the turn of a session, and deleting a session with everything that belongs to it."""

from __future__ import annotations

import os

import pytest

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import worker_thread
from hermes_trio.host.processes.guard import open_guard
from hermes_trio.testing import Script
from tests.web.api.session_client import rows
from tests.web.conftest import WebStage, hearing


async def test_the_turn_of_a_session_is_stopped_by_request(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await heard.until("message.delta")
        assert (await http.post("/api/sessions/one/stop")).json() == {"stopped": True, "dropped": 0}
        await heard.until("run.cancelled")
        assert (await http.post("/api/sessions/one/stop")).json() == {"stopped": False, "dropped": 0}
        read = (await http.get("/api/sessions/one/messages")).json()
        assert rows(read) == [("user", "hang"), ("assistant", "I begin.")]


async def test_deleting_a_session_with_a_running_turn_removes_everything_of_it(
    web_stage: WebStage,
) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs(resists=0.2))
    async with web_stage.served() as (gateway, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await http.post("/api/sessions/one/messages", json={"text": "waits"})
        await heard.until("message.delta")
        gone = await http.delete("/api/sessions/one")
        assert gone.json() == {"id": "one", "deleted": True}
        assert [left[:2] for left in web_stage.agent.left] == [("hang", "cancelled")]
        for path in ("/api/sessions/one", "/api/sessions/one/messages"):
            assert (await http.get(path)).status_code == 404
        assert (await http.delete("/api/sessions/one")).status_code == 404
        assert not (gateway.home.path / "journal" / "one").exists()
        await http.post("/api/sessions/one/messages", json={"text": "again"})
        await web_stage.until(lambda: ("again", "answered") in [left[:2] for left in web_stage.agent.left])
        assert "waits" not in [said for said, _ in web_stage.agent.began]
        read = (await http.get("/api/sessions/one/messages")).json()
        assert rows(read)[0] == ("user", "again")


@pytest.mark.skipif(os.name != "posix", reason="a command for a POSIX shell")
async def test_background_processes_end_before_their_session_is_deleted(web_stage: WebStage) -> None:
    pids: list[int] = []

    async def agent(turn: TurnContext) -> str:
        kept = await turn.start_background("sleep 1000")
        pids.append(kept.process.id.pid)
        return "It runs."

    web_stage.agent = agent  # type: ignore[assignment]
    web_stage.guarded, web_stage.worker = open_guard, worker_thread
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "go"})
        await heard.until("run.completed")
        os.kill(pids[0], 0)
        assert (await http.delete("/api/sessions/one")).status_code == 200
        with pytest.raises(ProcessLookupError):
            os.kill(pids[0], 0)
