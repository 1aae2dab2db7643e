"""Health, metrics, and stopping or holding the gateway by request."""

from __future__ import annotations

import os
import sys

import msgspec
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from hermes_trio.config.schema import TerminalConfig
from hermes_trio.host.home.markers import DRAIN_REQUEST
from hermes_trio.host.processes.guard import open_guard
from hermes_trio.platform.contract import CredentialsRefused
from hermes_trio.testing import Script
from tests.web.conftest import WebStage, hearing


async def test_a_gateway_is_alive_and_ready_and_has_details(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, http):
        assert (await http.get("/health")).json() == {"status": "ok"}
        assert (await http.get("/ready")).status_code == 200
        await web_stage.until(lambda: all(one.link for one in gateway.chats.connections.values()))
        detailed = (await http.get("/health/detailed")).json()
        assert detailed["state"] == "running"
        assert detailed["active_agents"] == 0
        assert detailed["pid"] == os.getpid()
        assert detailed["version"] == "1.2.3"
        assert detailed["platforms"]["memory"]["state"] == "connected"
        assert detailed["last_ending"] is None
        assert detailed["warning"] is None, "this gateway runs no commands"
    async with web_stage.served() as (_, http):
        last = (await http.get("/health/detailed")).json()["last_ending"]
        assert (last["kind"], last["cause"], last["asked_by"]) == ("stop", "planned", "the story")


@pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes are Linux's")
async def test_a_gateway_warns_while_nothing_confines_its_commands(web_stage: WebStage) -> None:
    web_stage.guarded = open_guard
    for sandbox, warned in (("off", True), ("landlock", False)):
        terminal = TerminalConfig(sandbox=sandbox)  # type: ignore[arg-type]
        web_stage.config = msgspec.structs.replace(web_stage.config, terminal=terminal)
        async with web_stage.served() as (_, http), hearing(http) as heard:
            await heard.until("gateway.changed")
            [told] = {data["warning"] for data in heard.changes if data["event"] == "gateway.changed"}
            assert told == (await http.get("/health/detailed")).json()["warning"]
            assert (told is not None) == warned
            if warned:
                assert "Remove terminal.sandbox: off from config.yaml." in told


async def test_a_draining_gateway_is_alive_and_not_ready_and_begins_no_turn(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (gateway, http), hearing(http) as heard:
        said = {"text": "hang", "idempotency_key": "k"}
        first = (await http.post("/api/sessions/one/messages", json=said)).json()
        await heard.until("message.delta")
        asked = await http.post("/api/admin/stop", json={"grace": 3600})
        assert (asked.status_code, asked.json()["ending"], asked.json()["grace"]) == (202, "stop", 3600)
        await web_stage.until(lambda: not gateway.control.takes_turns)
        assert (await http.get("/health")).status_code == 200
        for answer in (
            await http.get("/ready"),
            await http.post("/api/sessions/one/messages", json={"text": "more"}),
            await http.post("/api/sessions/new/messages", json={"text": "more"}),
        ):
            assert answer.status_code == 503
            assert answer.json()["error"]["code"] == "gateway_draining"
            assert int(answer.headers["retry-after"]) > 0
        assert (await http.get("/api/sessions/new")).status_code == 404, "no session was made"
        again = await http.post("/api/sessions/one/messages", json=said)
        assert again.status_code == 202, "a message that was accepted before stays accepted"
        assert again.json()["run_id"] == first["run_id"]
        detailed = (await http.get("/health/detailed")).json()
        assert (detailed["state"], detailed["active_agents"]) == ("draining", 1)
        gateway.control.hurry()
        await heard.over.wait()
        assert heard.names[-2:] == ["run.failed", "gateway.ending"]


async def test_a_question_can_be_answered_while_the_gateway_drains(web_stage: WebStage) -> None:
    async def agent(turn) -> str:  # type: ignore[no-untyped-def]
        await turn.requesting()
        return f"You said {await turn.ask('Which?')}."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (gateway, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "go"})
        key = "agent:main:api:dm:one"
        await web_stage.until(
            lambda: (task := gateway.work.running.handle(key)) is not None and bool(task.questions)
        )
        gateway.stop(grace=3600)
        answered = await http.post("/api/sessions/one/messages", json={"text": "this"})
        assert answered.json()["status"] == "steered"
        await heard.until("run.completed")
        [over] = [data for _, data in heard.frames if data["event"] == "run.completed"]
        assert over["output"] == "You said this."


async def test_a_gateway_is_held_and_released_by_request(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, http):
        held = await http.post("/api/admin/drain")
        assert (held.status_code, held.json()["held"]) == (202, True)
        assert (gateway.home.path / DRAIN_REQUEST).exists()
        assert (await http.get("/ready")).status_code == 503
        refused = await http.post("/api/sessions/one/messages", json={"text": "hello"})
        assert refused.json()["error"]["code"] == "gateway_draining"
        assert (await http.post("/api/admin/drain", json={"action": "cancel"})).json()["held"] is False
        assert not (gateway.home.path / DRAIN_REQUEST).exists()
        assert (await http.get("/ready")).status_code == 200
        assert (await http.post("/api/sessions/one/messages", json={"text": "hello"})).status_code == 202


@pytest.mark.parametrize("kind", ["stop", "restart"])
async def test_a_stop_by_request_gets_a_complete_answer(web_stage: WebStage, kind: str) -> None:
    async with web_stage.served() as (gateway, http):
        asked = await http.post(f"/api/admin/{kind}")
        assert asked.json()["ending"] == kind
        await web_stage.until(lambda: web_stage.ended_at is not None)
        assert gateway.control.current is not None
        assert (gateway.control.current.kind, gateway.control.current.asked_by) == (kind, "the API")


async def test_the_gateway_runs_on_with_the_web_when_every_platform_refuses_it(
    web_stage: WebStage,
) -> None:
    web_stage.platform.fails("connect", CredentialsRefused("memory"))
    async with web_stage.served() as (gateway, http):
        await web_stage.until(
            lambda: (
                gateway.home.board.status.platforms.get("memory") is not None
                and gateway.home.board.status.platforms["memory"].state == "fatal"
            )
        )
        assert gateway.control.current is None
        assert (await http.get("/ready")).status_code == 200


async def test_the_metrics_have_all_counters_and_measurements(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    web_stage.agent.on("fail", Script().raises(ValueError("no")))
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hello"})
        await heard.until("run.completed")
        await http.post("/api/sessions/one/messages", json={"text": "fail"})
        await heard.until("run.failed")
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await heard.until("message.delta", 2)
        await http.post("/api/sessions/one/messages", json={"text": "waits"})
        await web_stage.platform.says("one")
        await web_stage.until(lambda: web_stage.platform.chat("42").last == "You said: one")
        await web_stage.platform.says("two")
        await web_stage.until(lambda: web_stage.platform.chat("42").last == "You said: two")
        measured = await read_metrics(http)
        assert measured["hermes_turns_total", ("answered",)] == 3
        assert measured["hermes_turns_total", ("failed",)] == 1
        assert measured["hermes_turns_total", ("cut",)] == 0
        assert measured["hermes_turns_running", ()] == 1
        assert measured["hermes_messages_waiting", ()] == 1
        assert measured["hermes_ready", ()] == 1
        assert measured["hermes_watchers", ()] == 1
        assert measured["hermes_deliveries", ("sent",)] == 2
        assert measured["hermes_platform_up", ("main", "memory")] == 1
        assert measured["hermes_commit_seconds_count", ()] > 3
        assert measured["hermes_journal_write_seconds_count", ()] > 3
        assert ("hermes_last_drain_seconds", ()) not in measured
    async with web_stage.served() as (_, http):
        measured = await read_metrics(http)
        assert measured["hermes_last_drain_seconds", ()] >= 0
        assert measured["hermes_last_drain_overshoot_seconds", ()] >= 0


async def test_the_metrics_count_reconnections(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, http):
        connection = gateway.chats.connections["memory", "main"]
        await web_stage.until(lambda: connection.link is not None)
        assert (await read_metrics(http))["hermes_platform_reconnects_total", ("main", "memory")] == 0
        connection.becomes(connection.state, connection.link)
        assert (await read_metrics(http))["hermes_platform_reconnects_total", ("main", "memory")] == 1


async def read_metrics(http) -> dict[tuple[str, tuple[str, ...]], float]:  # type: ignore[no-untyped-def]
    """Return the metrics by name and labels, without buckets."""
    with trio.fail_after(30):
        text = (await http.get("/metrics")).text
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


async def test_a_failure_of_the_gateway_has_the_same_form_as_a_refusal(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, http):
        (gateway.home.path / DRAIN_REQUEST).mkdir()  # at the path of the marker file
        (gateway.home.path / DRAIN_REQUEST / "x").mkdir()
        asked = await http.post("/api/admin/drain")
        assert asked.status_code == 500
        assert sorted(asked.json()["error"]) == ["code", "message", "remedy"]
        assert asked.headers["x-content-type-options"] == "nosniff"
        assert (await http.get("/health")).status_code == 200
