"""Runs that are cut, held, failed, deleted or damaged, and their state in the next life."""

from __future__ import annotations

import trio

from hermes_trio.testing import Script
from tests.web.conftest import PATIENCE, WebStage
from tests.web.openai.run_client import begun, events, listening, stands, until


async def test_a_cut_run_is_interrupted_and_names_the_run_that_resumed_it(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (gateway, http):
        run = await begun(http, input="hang", session_id="one")
        async with listening(http, run) as followed:
            await followed.until("message.delta")
            gateway.stop(grace=0)
            await followed.over.wait()
        assert followed.names == ["message.delta", "run.failed"]
        assert followed.is_done
    web_stage.agent.on("hang", Script().says("All done."))
    async with web_stage.served() as (_, http):
        with trio.fail_after(PATIENCE):
            while (told := await stands(http, run))["resumed_as"] is None:  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert told["status"] == "interrupted"
        assert (await until(http, {"run_id": told["resumed_as"]}, "completed"))["output"] == "All done."
        old = await events(http, run)
        assert old.names == ["message.delta", "run.failed"]
        assert old.frames[-1][1]["code"] == "interrupted"
        assert old.is_done
        assert (await events(http, run, cursor=old.ids[-1])).frames == [], "the end was sent before"


async def test_a_waiting_run_begins_in_the_next_life_under_its_name(web_stage: WebStage) -> None:
    web_stage.agent.before_asking = 1000.0
    async with web_stage.served() as (gateway, http):
        first = await begun(http, input="first", session_id="one")
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        second = await begun(http, input="second", session_id="one")
        async with listening(http, second) as followed:
            gateway.stop(grace=0)
            await followed.over.wait()
        assert followed.frames == []
        assert not followed.is_done, "the end of the stream is not the end of the run"
    web_stage.agent.before_asking = 0.0
    async with web_stage.served() as (_, http):
        assert (await until(http, second, "completed"))["output"] == "You said: second"
        told = await until(http, first, "interrupted")
        assert (await stands(http, {"run_id": told["resumed_as"]}))["output"] == "You said: first"


async def test_a_held_gateway_begins_no_run_and_keeps_no_message(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, http):
        gateway.control.hold(True)
        for headers in ({}, {"Idempotency-Key": "k"}):
            refused = await http.post("/v1/runs", json={"input": "x", "session_id": "one"}, headers=headers)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "gateway_draining")
            assert int(refused.headers["retry-after"]) > 0
        assert (await http.get("/api/sessions")).json()["sessions"] == []
        gateway.control.hold(False)
        await events(http, await begun(http, input="x"))


async def test_a_failed_run_has_an_error_text(web_stage: WebStage) -> None:
    web_stage.agent.on("x", Script().says("I begin.").raises(RuntimeError("no luck")))
    async with web_stage.served() as (_, http):
        run = await begun(http, input="x")
        told = await events(http, run)
        assert told.names == ["message.delta", "run.failed"]
        shown = await until(http, run, "failed")
        assert shown["error"] == told.frames[-1][1]["error"]
        assert "no luck" in shown["error"]


async def test_an_unknown_run_is_not_found(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        for method, path in (
            ("GET", ""),
            ("GET", "/events"),
            ("POST", "/stop"),
            ("POST", "/approval"),
        ):
            for name in ("nothing", "..%2f..", "%00", "x" * 3000):
                refused = await http.request(method, f"/v1/runs/{name}{path}", json={"choice": "once"})
                assert refused.status_code == 404, (method, name, path)
                assert refused.json()["error"]["type"] == "invalid_request_error"


async def test_deleting_a_session_deletes_its_runs(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        run = await begun(http, input="x", session_id="one")
        await events(http, run)
        assert (await http.delete("/api/sessions/one")).status_code == 200
        told = await events(http, run)
        assert told.names == ["run.cancelled"]
        assert told.is_done


async def test_a_damaged_journal_loses_only_the_damaged_events_and_announces_a_gap(
    web_stage: WebStage,
) -> None:
    async with web_stage.served() as (gateway, http):
        run = await begun(http, input="x", session_id="one")
        whole = await events(http, run)
        path = gateway.home.path / "journal" / "one" / f"{run['run_id']}.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([b"garbage\n", *lines[1:]]))
        told = await events(http, run)
        assert told.names == ["gap", *whole.names[1:]]
        path.unlink()
        assert (await events(http, run)).names == ["run.completed"], "the end comes from the row"
        path.mkdir()
        assert (await events(http, run)).names == ["gap", "run.completed"]
        assert (await stands(http, run))["output"] == "You said: x"


async def test_the_capabilities_name_the_features_of_runs(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        features = (await http.get("/v1/capabilities")).json()["features"]
        for name in (
            "approval_events",
            "approval_identity_v1",
            "run_approval_response",
            "run_stop",
            "event_replay",
        ):
            assert features[name] is True
