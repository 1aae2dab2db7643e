"""Conversations by requests."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

import msgspec
import pytest
import trio

from hermes_trio.config.schema import DisplayConfig, TurnLimits
from hermes_trio.gateway.intake.mailbox import MOST_WAITING
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import worker_thread
from hermes_trio.host.processes.guard import open_guard
from hermes_trio.state.tables import inbox, turns
from hermes_trio.testing import Script
from tests.web.conftest import WebStage, hearing


def rows(read: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["role"], row["content"]) for row in read["messages"]]


async def test_a_session_is_made_spoken_to_and_read(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http), hearing(http) as heard:
        made = await http.post("/api/sessions", json={"title": "A talk"})
        assert made.status_code == 201
        session = made.json()
        assert session["key"] == f"agent:main:api:dm:{session['id']}"
        said = await http.post(f"/api/sessions/{session['id']}/messages", json={"text": "hello"})
        assert said.status_code == 202
        assert said.json()["status"] == "started"
        await heard.until("run.completed")
        assert {data["run_id"] for _, data in heard.frames} == {said.json()["run_id"]}
        read = (await http.get(f"/api/sessions/{session['id']}/messages")).json()
        assert rows(read) == [("user", "hello"), ("assistant", "You said: hello")]
        for row in read["messages"]:
            assert {"id", "role", "content", "run_id", "created_at", "marker"} <= set(row)
            assert row["run_id"] == said.json()["run_id"]
        assert read["next"] is None
        [listed] = (await http.get("/api/sessions")).json()["sessions"]
        assert (listed["id"], listed["title"], listed["state"]) == (session["id"], "A talk", "idle")


async def test_an_id_that_is_not_known_is_made(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/my-own.id/messages", json={"text": "hello"})
        await heard.until("run.completed")
        assert (await http.get("/api/sessions/my-own.id")).json()["key"] == "agent:main:api:dm:my-own.id"
        assert (await http.post("/api/sessions", json={"id": "my-own.id"})).status_code == 200


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("hello", "hello"),
        ("\n  \n# A *plan*  \nand more", "A *plan*"),
        ("- one\n- two", "one"),
        ("word " * 20, "word word word word word word word word word word word word…"),
        ("***", None),
    ],
)
async def test_a_session_is_called_by_how_it_begins(
    web_stage: WebStage, text: str, title: str | None
) -> None:
    async with web_stage.served() as (_, http):
        await http.post("/api/sessions/one/messages", json={"text": text})
        await http.post("/api/sessions/one/messages", json={"text": "something else"})
        await http.post("/v1/runs", json={"input": text, "session_id": "two"})
        listed = (await http.get("/api/sessions")).json()["sessions"]
        assert {one["id"]: one["title"] for one in listed} == {"one": title, "two": title}


async def test_messages_come_in_pages(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http), hearing(http) as heard:
        for number in range(3):
            await http.post("/api/sessions/one/messages", json={"text": str(number)})
            await heard.until("run.completed", number + 1)
        whole = (await http.get("/api/sessions/one/messages")).json()
        pages, after = [], None
        for _ in range(3):
            asked = {"limit": "2"} | ({"after": after} if after else {})
            page = (await http.get("/api/sessions/one/messages", params=asked)).json()
            pages += page["messages"]
            after = page["next"]
        assert (pages, after) == (whole["messages"], None)
        refused = await http.get("/api/sessions/one/messages", params={"after": "nothing"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "bad_cursor")


async def test_the_same_request_twice_is_one_message_and_one_run(web_stage: WebStage) -> None:
    body = {"text": "hello", "idempotency_key": "k1"}
    async with web_stage.served() as (_, http), hearing(http) as heard:
        first = (await http.post("/api/sessions/one/messages", json=body)).json()
        again = (await http.post("/api/sessions/one/messages", json=body)).json()
        await heard.until("run.completed")
        later = (await http.post("/api/sessions/one/messages", json=body)).json()
        for other in (again, later):
            assert (other["message_id"], other["run_id"]) == (first["message_id"], first["run_id"])
    async with web_stage.served() as (_, http):
        kept = (await http.post("/api/sessions/one/messages", json=body)).json()
        assert kept["run_id"] == first["run_id"]
        assert len((await http.get("/api/sessions/one/messages")).json()["messages"]) == 2
        other = (await http.post("/api/sessions/two/messages", json=body)).json()
        assert other["run_id"] != first["run_id"], "another session is another place"


async def test_while_a_turn_runs_messages_wait_and_each_has_its_own_run(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        queued = [
            (await http.post("/api/sessions/one/messages", json={"text": text})).json() for text in "ab"
        ]
        assert [posted["status"] for posted in queued] == ["queued", "queued"]
        shown = (await http.get("/api/sessions/one")).json()
        assert shown["state"] == "running"
        # Stopped by hand, what waits is dropped too; so only the turn is ended here, as by a timeout.
        assert web_stage.gateway is not None
        web_stage.gateway.work.running.handle("agent:main:api:dm:one").scope.cancel()  # type: ignore[union-attr]
        await heard.until("run.completed", 2)
        ended = [data["run_id"] for _, data in heard.frames if data["event"] == "run.completed"]
        assert ended == [posted["run_id"] for posted in queued], "in order, one run for each"


async def test_it_always_queues_whatever_the_chats_do(web_stage: WebStage) -> None:
    web_stage.config = msgspec.structs.replace(
        web_stage.config, display=DisplayConfig(busy_input_mode="interrupt")
    )
    web_stage.agent.on("hang", Script().hangs())
    async with web_stage.served() as (_, http):
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        posted = (await http.post("/api/sessions/one/messages", json={"text": "more"})).json()
        assert posted["status"] == "queued"
        assert (await http.get("/api/sessions/one")).json()["state"] == "running"
        assert web_stage.agent.left == []


async def test_there_is_room_for_so_many_and_the_next_comes_again(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().hangs())
    async with web_stage.served() as (_, http):
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        for number in range(MOST_WAITING):
            await http.post("/api/sessions/one/messages", json={"text": str(number)})
        late = {"text": "late", "idempotency_key": "late"}
        refused = await http.post("/api/sessions/one/messages", json=late)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_waiting")
        assert int(refused.headers["retry-after"]) > 0
        stopped = (await http.post("/api/sessions/one/stop")).json()
        assert stopped == {"stopped": True, "dropped": MOST_WAITING}
        again = await http.post("/api/sessions/one/messages", json=late)
        assert again.status_code == 202, "it was not kept, so it can come again"
        await web_stage.until(lambda: ("late", "answered") in [left[:2] for left in web_stage.agent.left])


async def test_a_question_is_answered_by_a_message(web_stage: WebStage) -> None:
    async def agent(turn: TurnContext) -> str:
        asks.set()
        return f"You chose {await turn.ask('Which?', ['red', 'blue'])}."

    asks = trio.Event()
    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (gateway, http), hearing(http) as heard:
        first = (await http.post("/api/sessions/one/messages", json={"text": "paint"})).json()
        await asks.wait()
        task = gateway.work.running.handle("agent:main:api:dm:one")
        assert task is not None
        await web_stage.until(lambda: bool(task.questions))
        answered = (await http.post("/api/sessions/one/messages", json={"text": "2"})).json()
        assert (answered["status"], answered["run_id"]) == ("steered", first["run_id"])
        await heard.until("run.completed")
        assert heard.frames[-1][1]["output"] == "You chose blue."


async def test_to_a_session_that_lives_in_a_chat_the_answer_goes_to_that_chat(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        await web_stage.platform.says("hello")
        await web_stage.until(lambda: web_stage.platform.chat("42").texts == ["You said: hello"])
        [session] = (await http.get("/api/sessions")).json()["sessions"]
        assert session["platform"] == "memory"
        posted = await http.post(f"/api/sessions/{session['id']}/messages", json={"text": "and by request"})
        assert posted.status_code == 202
        await web_stage.until(lambda: web_stage.platform.chat("42").texts[1:] == ["You said: and by request"])
        read = (await http.get(f"/api/sessions/{session['id']}/messages")).json()
        assert [text for _, text in rows(read)][2:] == ["and by request", "You said: and by request"]


async def test_what_waits_for_a_chat_that_is_not_connected_is_refused(web_stage: WebStage) -> None:
    async with web_stage.served():
        await web_stage.platform.says("hello")
        await web_stage.until(lambda: web_stage.platform.chat("42").texts == ["You said: hello"])
    session_id = web_stage.entry().session_id
    web_stage.platform.name = "elsewhere"
    async with web_stage.served() as (_, http):
        refused = await http.post(f"/api/sessions/{session_id}/messages", json={"text": "hello?"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_way_to_chat")


async def test_a_session_is_renamed_and_moves_in_no_list(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        for session_id in ("one", "two"):
            await http.post("/api/sessions", json={"id": session_id})
            web_stage.away += web_stage.away.resolution * 1_000_000
        changed = await http.patch("/api/sessions/one", json={"title": "Old"})
        assert changed.json()["title"] == "Old"
        listed = (await http.get("/api/sessions")).json()["sessions"]
        assert [(one["id"], one["title"]) for one in listed] == [("two", None), ("one", "Old")]
        first = (await http.get("/api/sessions", params={"limit": 1})).json()
        assert ([one["id"] for one in first["sessions"]], first["next"]) == (["two"], 1)
        rest = (await http.get("/api/sessions", params={"limit": 1, "offset": 1})).json()
        assert ([one["id"] for one in rest["sessions"]], rest["next"]) == (["one"], None)


# --- stopping and deleting ---------------------------------------------------------------------------


async def test_a_turn_is_stopped(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await heard.until("message.delta")
        assert (await http.post("/api/sessions/one/stop")).json() == {"stopped": True, "dropped": 0}
        await heard.until("run.cancelled")
        assert (await http.post("/api/sessions/one/stop")).json() == {"stopped": False, "dropped": 0}
        read = (await http.get("/api/sessions/one/messages")).json()
        assert rows(read) == [("user", "hang"), ("assistant", "I begin.")]


async def test_a_session_with_a_running_turn_is_deleted_with_all_that_is_its_own(
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
        assert not (gateway.home.journals.root / "one").exists()
        await http.post("/api/sessions/one/messages", json={"text": "again"})
        await web_stage.until(lambda: ("again", "answered") in [left[:2] for left in web_stage.agent.left])
        assert "waits" not in [said for said, _ in web_stage.agent.began]
        read = (await http.get("/api/sessions/one/messages")).json()
        assert rows(read)[0] == ("user", "again")


@pytest.mark.skipif(os.name != "posix", reason="a command for a POSIX shell")
async def test_its_background_processes_end_before_it_is_gone(web_stage: WebStage) -> None:
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


# --- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/api/sessions/one/messages", b"{", 400, "bad_json"),
        ("POST", "/api/sessions/one/messages", b"[]", 400, "wrong_type"),
        ("POST", "/api/sessions/one/messages", b'"text"', 400, "wrong_type"),
        ("POST", "/api/sessions/one/messages", b'{"text": 5}', 400, "wrong_type"),
        ("POST", "/api/sessions/one/messages", b'{"text": "\xff"}', 400, "bad_json"),
        ("POST", "/api/sessions/one/messages", b'{"text": "x", "idempotency_key": ""}', 400, "wrong_type"),
        ("POST", "/api/sessions/one/messages", b"[" * 100_000, 400, "wrong_type"),
        ("POST", "/api/sessions/one/messages", b'{"x":' * 100_000, 400, "bad_json"),
        ("POST", "/api/sessions/one/messages", b"", 400, "no_text"),
        ("POST", "/api/sessions/one/messages", b'{"text": " \\n"}', 400, "no_text"),
        (
            "POST",
            "/api/sessions/one/messages",
            b'{"attachments": [{"kind": "photo", "url": "file:///etc/passwd"}]}',
            400,
            "wrong_type",
        ),
        ("POST", "/api/sessions/one/messages", b"x" * 10_485_761, 413, "too_large"),
        ("POST", "/api/sessions/..%2Fone/messages", b'{"text": "x"}', 404, "not_found"),
        ("POST", "/api/sessions/a..b/messages", b'{"text": "x"}', 400, "bad_id"),
        ("POST", "/api/sessions/" + "x" * 129 + "/messages", b'{"text": "x"}', 400, "bad_id"),
        ("POST", "/api/sessions", b'{"id": "../x"}', 400, "bad_id"),
        ("PATCH", "/api/sessions/one", b'{"title": "x"}', 404, "not_found"),
        ("PATCH", "/api/sessions/one", b"{}", 404, "not_found"),
        ("DELETE", "/api/sessions/one", b"", 404, "not_found"),
        ("GET", "/api/sessions/one", b"", 404, "not_found"),
        ("GET", "/api/sessions/one/messages", b"", 404, "not_found"),
        ("GET", "/api/sessions?limit=x", b"", 400, "bad_number"),
        ("GET", "/api/sessions?offset=-1", b"", 400, "bad_number"),
        ("GET", "/api/nothing", b"", 404, "not_found"),
        ("PUT", "/api/sessions", b"", 405, "method_not_allowed"),
        ("POST", "/api/admin/stop", b'{"grace": -1}', 400, "wrong_type"),
        ("POST", "/api/admin/drain", b'{"action": "perhaps"}', 400, "wrong_type"),
    ],
)
async def test_what_makes_no_sense_is_refused_in_words(
    web_stage: WebStage, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    async with web_stage.served() as (gateway, http):
        refused = await http.request(method, path, content=body)
        assert refused.status_code == status
        error = refused.json()["error"]
        assert error["code"] == code
        assert error["message"]
        assert error["remedy"]
        assert gateway.control.current is None
        assert (await http.get("/api/sessions")).json()["sessions"] == []
        assert (await http.get("/health")).status_code == 200


# --- cut, resumed, let in ----------------------------------------------------------------------------


async def test_what_was_cut_is_taken_up_in_the_next_life_and_shown_with_its_marker(
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
        assert entry.resume_pending, "it waits for a life that has one"
        assert entry.origin is not None
        assert not await gateway.mailbox.access.may_talk(entry.origin)


async def test_a_message_that_waited_is_answered_by_the_next_life_in_the_run_it_was_promised(
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


async def test_a_cut_session_that_is_deleted_before_its_turn_comes_is_not_missed(web_stage: WebStage) -> None:
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
