"""The sessions API: creating sessions, sending and reading messages, and what is refused."""

from __future__ import annotations

import msgspec
import pytest
import trio

from hermes_trio.config.schema import DisplayConfig
from hermes_trio.gateway.intake.mailbox import MOST_WAITING
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script
from tests.web.api.session_client import rows
from tests.web.conftest import WebStage, hearing


async def test_a_session_is_created_written_to_and_read(web_stage: WebStage) -> None:
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


async def test_a_message_to_an_unknown_id_creates_the_session(web_stage: WebStage) -> None:
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
async def test_the_title_of_a_session_is_its_first_line(
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
        assert other["run_id"] != first["run_id"], "each session has its own keys"


async def test_messages_wait_while_a_turn_runs_and_each_has_its_own_run(web_stage: WebStage) -> None:
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
        # A stop by request would also drop the waiting messages, so only the turn is ended, as by a timeout.
        assert web_stage.gateway is not None
        web_stage.gateway.work.running.handle("agent:main:api:dm:one").scope.cancel()  # type: ignore[union-attr]
        await heard.until("run.completed", 2)
        ended = [data["run_id"] for _, data in heard.frames if data["event"] == "run.completed"]
        assert ended == [posted["run_id"] for posted in queued], "in order, each with its own run"


async def test_a_message_by_request_is_queued_whatever_the_mode_of_chats(web_stage: WebStage) -> None:
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


async def test_a_message_beyond_the_limit_is_refused_with_retry_after(web_stage: WebStage) -> None:
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
        assert again.status_code == 202, "it was not stored, so it can be sent again"
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


async def test_an_answer_in_a_chat_session_also_goes_to_the_chat(web_stage: WebStage) -> None:
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


async def test_a_message_to_a_chat_that_is_not_connected_is_refused(web_stage: WebStage) -> None:
    async with web_stage.served():
        await web_stage.platform.says("hello")
        await web_stage.until(lambda: web_stage.platform.chat("42").texts == ["You said: hello"])
    session_id = web_stage.entry().session_id
    web_stage.platform.name = "elsewhere"
    async with web_stage.served() as (_, http):
        refused = await http.post(f"/api/sessions/{session_id}/messages", json={"text": "hello?"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_way_to_chat")


async def test_renaming_a_session_keeps_its_place_in_lists(web_stage: WebStage) -> None:
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
async def test_a_malformed_request_is_refused_with_an_explanation(
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
