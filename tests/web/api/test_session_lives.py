"""Sessions over a restart: cut turns, waiting messages and deleted sessions."""

from __future__ import annotations

import sqlite3

import msgspec

from hermes_trio.config.schema import TurnLimits
from hermes_trio.state.tables import inbox, turns
from hermes_trio.testing import Script
from tests.web.conftest import WebStage, hearing


async def test_a_cut_turn_is_resumed_in_the_next_life_and_shown_with_its_marker(
    web_stage: WebStage,
) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        first = (await http.post("/api/sessions/one/messages", json={"text": "hang"})).json()
        await heard.until("message.delta")
    web_stage.agent.on("hang", Script().says("All done."))
    async with web_stage.served() as (_, http):
        await web_stage.until(lambda: ("hang", "answered") in [left[:2] for left in web_stage.agent.left])
        await web_stage.until(lambda: not web_stage.gateway.work.running)  # type: ignore[union-attr]
        read = (await http.get("/api/sessions/one/messages")).json()["messages"]
        assert [row["content"] for row in read][:2] == ["hang", "I begin."]
        assert read[-1]["content"] == "All done."
        [marker] = [row for row in read if row["marker"]]
        assert (marker["marker"], marker["type"], marker["run_id"]) == (
            "recovered",
            "interrupted",
            first["run_id"],
        )
        assert marker["content"].startswith("Response interrupted")


async def test_a_session_of_the_api_is_not_resumed_where_there_is_no_api(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await heard.until("message.delta")
    began = len(web_stage.agent.began)
    web_stage.web = None
    async with web_stage.life() as gateway:
        await web_stage.platform.says("hello")
        await web_stage.until(lambda: len(web_stage.agent.began) == began + 1)
        entry = await gateway.home.store.get_session_entry("agent:main:api:dm:one")
        assert entry is not None
        assert entry.resume_pending, "it waits for a life with the API"
        assert entry.origin is not None
        assert not await gateway.mailbox.access.may_talk(entry.origin)


async def test_a_waiting_message_is_answered_in_the_next_life_in_its_promised_run(
    web_stage: WebStage,
) -> None:
    web_stage.agent.before_asking = 1000.0
    async with web_stage.served() as (_, http):
        first = (await http.post("/api/sessions/one/messages", json={"text": "first"})).json()
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        second = (await http.post("/api/sessions/one/messages", json={"text": "second"})).json()
    web_stage.agent.before_asking = 0.0
    async with web_stage.served() as (_, http):
        await web_stage.until(lambda: ("second", "answered") in [left[:2] for left in web_stage.agent.left])
        await web_stage.until(lambda: not web_stage.gateway.work.running)  # type: ignore[union-attr]
        read = (await http.get("/api/sessions/one/messages")).json()["messages"]
        runs = {row["content"]: row["run_id"] for row in read}
        assert runs["second"] == second["run_id"]
        assert runs["first"] not in (first["run_id"], second["run_id"]), "its run was cut before it began"
    db = sqlite3.connect(web_stage.home / "gateway.db")
    try:
        assert [turn.outcome for turn in turns.of_session(db, "one")] == [
            "unstarted",
            "answered",
            "answered",
        ]
        assert inbox.count_all_pending(db) == 0
    finally:
        db.close()


async def test_a_cut_session_can_be_deleted_before_it_is_resumed(web_stage: WebStage) -> None:
    web_stage.config = msgspec.structs.replace(web_stage.config, gateway=TurnLimits(resume_at_once=1))
    for name in ("one", "two"):
        web_stage.agent.on(name, Script().says("I begin.").hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        for name in ("one", "two"):
            await http.post(f"/api/sessions/{name}/messages", json={"text": name})
        await heard.until("message.delta", 2)
    begun = len(web_stage.agent.began)
    async with web_stage.served() as (gateway, http):
        await web_stage.until(lambda: len(web_stage.agent.began) == begun + 1)
        first = web_stage.agent.began[-1][0]
        second = {"one": "two", "two": "one"}[first]
        assert (await http.delete(f"/api/sessions/{second}")).status_code == 200
        assert (await http.post(f"/api/sessions/{first}/stop")).json()["stopped"]
        await http.post("/api/sessions/three/messages", json={"text": "hello"})
        await web_stage.until(lambda: ("hello", "answered") in [left[:2] for left in web_stage.agent.left])
        await web_stage.until(lambda: not gateway.work.running)
        assert (await http.get("/health")).status_code == 200
        assert len(web_stage.agent.began) == begun + 2
