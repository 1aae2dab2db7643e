"""Stopping runs by request."""

from __future__ import annotations

import shutil
from typing import Any

import httpx
import pytest
import trio
from trio.testing import MockClock

from hermes_trio.gateway.operations import run_follower
from hermes_trio.testing import Script
from hermes_trio.web.http.connection import Hangup, Message
from tests.web.conftest import WebStage
from tests.web.openai.run_client import begun, listening, stands, until


def stop_of(http: httpx.AsyncClient, run: dict[str, Any]) -> dict[str, Any]:
    """Return the scope of the request that stops this run."""
    return {
        "type": "http",
        "method": "POST",
        "path": f"/v1/runs/{run['run_id']}/stop",
        "headers": [(b"authorization", http.headers["authorization"].encode())],
        "query_string": b"",
        "client": None,
    }


async def test_the_answer_to_a_stop_comes_before_the_last_event(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (gateway, http):
        run = await begun(http, input="hang")
        async with listening(http, run) as followed:
            await followed.until("message.delta")
            before: list[bool] = []
            assert web_stage.web is not None
            app = web_stage.web.opened.application

            async def send(message: Message) -> None:
                await trio.sleep(0.1)  # enough time for an end that comes too early
                before.append(followed.names == ["message.delta"] and len(gateway.work.running) == 1)

            await app(stop_of(http, run), trio.sleep_forever, send)
            assert before == [True, True]
            await followed.over.wait()
        assert followed.names == ["message.delta", "run.cancelled"]
        assert (await until(http, run, "cancelled"))["output"] is None
        again = await http.post(f"/v1/runs/{run['run_id']}/stop")
        assert (again.status_code, again.json()["status"]) == (200, "cancelled")


async def test_a_stop_takes_effect_when_its_client_hangs_up(web_stage: WebStage) -> None:
    async def send(message: Message) -> None:
        raise Hangup

    web_stage.agent.on("hang", Script().hangs())
    async with web_stage.served() as (_, http):
        run = await begun(http, input="hang")
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        assert web_stage.web is not None
        with pytest.raises(Hangup):
            await web_stage.web.opened.application(stop_of(http, run), trio.sleep_forever, send)
        await until(http, run, "cancelled")


async def test_a_stopped_run_is_not_resumed_after_a_kill(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs(resists=2))
    left = web_stage.home.with_name("left")
    async with web_stage.served() as (gateway, http):
        run = await begun(http, input="hang")
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        assert (await http.post(f"/v1/runs/{run['run_id']}/stop")).status_code == 200
        [handle] = gateway.work.running.handles()
        await web_stage.until(lambda: handle.scope.cancel_called)
        shutil.copytree(web_stage.home, left)  # the state after a kill during the clean-up of the turn
    web_stage.home = left
    async with web_stage.served() as (_, http):
        assert (await stands(http, run))["status"] == "cancelled"
        assert len(web_stage.agent.began) == 1


async def test_a_waiting_run_that_is_stopped_never_begins(web_stage: WebStage) -> None:
    web_stage.agent.on("first", Script().hangs())
    async with web_stage.served() as (gateway, http):
        first = await begun(http, input="first", session_id="one")
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        second = await begun(http, input="second", session_id="one")
        async with listening(http, second) as followed:
            assert (await http.post(f"/v1/runs/{second['run_id']}/stop")).status_code == 200
            await followed.over.wait()
        assert followed.names == ["run.cancelled"]
        assert followed.is_done
        assert (await stands(http, second))["status"] == "cancelled"
        await http.post(f"/v1/runs/{first['run_id']}/stop")
        await web_stage.until(lambda: not gateway.work.running)
        assert [one[0] for one in web_stage.agent.began] == ["first"]


async def test_a_follower_is_told_when_the_message_of_its_run_is_dropped(
    web_stage: WebStage, autojump_clock: MockClock
) -> None:
    web_stage.agent.on("first", Script().hangs())
    async with web_stage.served() as (_, http):
        await begun(http, input="first", session_id="one")
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        second = await begun(http, input="second", session_id="one")
        async with listening(http, second) as followed:
            assert (await http.post("/api/sessions/one/stop")).json()["dropped"] == 1
            await followed.over.wait()
            assert trio.current_time() <= run_follower.HEARTBEAT + 1
        assert followed.names == ["run.cancelled"]
        assert followed.is_done
