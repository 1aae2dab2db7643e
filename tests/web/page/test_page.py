"""The page's files, the change events that it gets, and the requests that it sends."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import httpx
import pytest
import trio

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script
from hermes_trio.tools.tool import Approval
from hermes_trio.web.page import page_files
from tests.web.conftest import KEY, Heard, WebStage, client, hearing, log_in

FOLDER = files(page_files.__package__).joinpath("static")
NAMES = sorted(file.name for file in FOLDER.iterdir())

# --- files -------------------------------------------------------------------------------------------


async def test_only_a_logged_in_browser_gets_the_page(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            shut = await browser.get("/")
            assert shut.status_code == 200
            assert 'id="key"' in shut.text
            assert 'id="composer"' not in shut.text
            await log_in(browser, web_stage.web.link())
            seen = await browser.get("/")
            assert 'id="composer"' in seen.text
            assert seen.headers["content-type"] == "text/html; charset=utf-8"
            # A browser without a cookie does not get the page again by going back.
            known = {"If-None-Match": seen.headers["etag"]}
            assert (await browser.get("/", headers=known)).status_code == 304
            browser.cookies.clear()
            assert 'id="key"' in (await browser.get("/", headers=known)).text


async def test_page_files_have_their_content_type_and_are_sent_once(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            for name in NAMES:
                got = await browser.get(f"/page/{name}")
                assert got.content == FOLDER.joinpath(name).read_bytes(), name
                assert got.headers["content-type"] == page_files.KINDS[f".{name.rpartition('.')[2]}"]
                assert got.headers["cache-control"] == "no-cache"
                known = {"If-None-Match": got.headers["etag"]}
                again = await browser.get(f"/page/{name}", headers=known)
                assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path",
    [
        "../app.py",
        "..%2fapp.py",
        "%2e%2e%2fapp.py",
        "..\\app.py",
        "%2fetc%2fpasswd",
        "INDEX.HTML",
        "main.js%00",
        "",
        "page/main.js",
        "__init__.py",
    ],
)
async def test_no_path_below_page_leads_to_another_file(web_stage: WebStage, path: str) -> None:
    async with web_stage.served() as (_, http):
        got = await http.get(f"/page/{path}")
        assert got.status_code == 404
        assert got.json()["error"]["code"] == "not_found"


def test_the_page_contains_nothing_that_its_policy_forbids_and_loads_nothing_from_elsewhere() -> None:
    for name in NAMES:
        text = FOLDER.joinpath(name).read_text("utf-8")
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:", text), name
            assert not re.search(r"(?:src|href)=\"(?!page/|#)", text), name
            for used in re.findall(r"\bpage/([\w.]+)", text):
                assert used in NAMES
        if name.endswith(".js"):
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), (
                name
            )
            for used in re.findall(r'from "\./([\w.]+)"', text):
                assert used in NAMES
        if name != "icon.svg":
            outside = set(re.findall(r"https?://[\w.]+", text)) - {"http://www.w3.org"}
            assert not outside, name


async def test_a_used_link_shows_the_log_in_page(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            got = await browser.get("/login?token=used", headers={"Accept": "text/html,*/*"})
            assert got.status_code == 401
            assert 'id="key"' in got.text


# --- change events -----------------------------------------------------------------------------------


async def told(heard: Heard, event: str, **facts: Any) -> None:
    """Wait for a change event with these fields."""
    wanted = {"event": event, **facts}
    with trio.fail_after(30):
        while not any({**one, **wanted} == one for one in heard.changes):  # noqa: ASYNC110
            await trio.sleep(0.01)


async def test_every_page_is_told_which_session_has_changed(web_stage: WebStage) -> None:
    go_on = trio.Event()

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        await go_on.wait()
        return "Done."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions", json={"id": "one"})
        await told(heard, "session.changed", session_id="one")
        heard.changes.clear()
        await http.post("/api/sessions/one/messages", json={"text": "go"})
        await told(heard, "session.changed", session_id="one")
        await told(heard, "gateway.changed", active_agents=1)
        assert (await http.get("/api/sessions/one")).json()["state"] == "running"
        heard.changes.clear()
        go_on.set()
        await told(heard, "gateway.changed", active_agents=0)
        await told(heard, "session.changed", session_id="one")
        heard.changes.clear()
        await http.patch("/api/sessions/one", json={"title": "A name"})
        await told(heard, "session.changed", session_id="one")
        await http.delete("/api/sessions/one")
        await told(heard, "session.deleted", session_id="one")


async def test_a_page_is_told_about_a_message_of_a_chat(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, http), hearing(http) as heard:
        await web_stage.platform.says("hello")
        await heard.until("run.completed")
        entry = await gateway.home.store.get_session_entry("agent:main:memory:dm:42")
        assert entry is not None
        await told(heard, "session.changed", session_id=entry.session_id)


async def test_the_state_of_the_gateway_is_told_first_and_after_each_change(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, http), hearing(http) as heard:
        await told(heard, "gateway.changed", state="running", ready=True, held=False, ending=None)
        await http.post("/api/admin/drain", json={"action": "begin"})
        await told(heard, "gateway.changed", state="draining", ready=False, held=True)
        heard.changes.clear()
        await http.post("/api/admin/drain", json={"action": "cancel"})
        await told(heard, "gateway.changed", state="running", ready=True, held=False)
        web_stage.agent.before_asking = 1000.0
        await http.post("/api/sessions/one/messages", json={"text": "go"})
        await web_stage.until(lambda: bool(gateway.work.running))
        gateway.stop(restart=True, grace=60)
        await told(heard, "gateway.changed", state="draining", ready=False, ending="restart", active_agents=1)
        gateway.control.hurry()
        await heard.over.wait()
        assert heard.names[-1] == "gateway.ending"


# --- requests of the page ----------------------------------------------------------------------------


async def asks(web_stage: WebStage, http: httpx.AsyncClient) -> dict[str, Any]:
    """Wait for an open question of the session `one`, and return it."""
    await web_stage.until(
        lambda: bool(web_stage.gateway and (t := web_stage.gateway.work.running.handle(ONE)) and t.questions)
    )
    [asked] = (await http.get("/api/sessions/one")).json()["asks"]
    assert isinstance(asked, dict)
    return asked


ONE = "agent:main:api:dm:one"
ANSWERS = "/api/sessions/one/answers"


async def test_an_approval_is_shown_and_can_be_answered_once(web_stage: WebStage) -> None:
    got: list[str | None] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        approval = Approval("rm -rf build\n\n*x*", "This deletes.", "/work", grants=("network",))
        got.append(await turn.may(approval))
        return "Done."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "go"})
        asked = await asks(web_stage, http)
        assert (asked["kind"], asked["choices"]) == ("approval", ["once", "session", "always", "deny"])
        assert (asked["command"], asked["cwd"]) == ("rm -rf build\n\n*x*", "/work")
        assert (asked["description"], asked["grants"]) == ("This deletes.", ["network"])
        assert asked["until"] - asked["asked_at"] == 300
        assert (await http.get("/api/sessions")).json()["sessions"][0]["asks_for"] == "approval"
        for body, status, code in (
            ({"id": "another", "answer": "once"}, 409, "asked_no_more"),
            ({"id": asked["id"], "answer": "perhaps"}, 400, "no_answer"),
            ({"id": asked["id"], "answer": ""}, 400, "wrong_type"),
            ({"id": asked["id"]}, 400, "wrong_type"),
        ):
            refused = await http.post(ANSWERS, json=body)
            assert (refused.status_code, refused.json()["error"]["code"]) == (status, code)
        assert got == []
        answered = await http.post(ANSWERS, json={"id": asked["id"], "answer": "session"})
        assert answered.json() == {"id": asked["id"], "answer": "session"}
        await heard.until("run.completed")
        assert got == ["session"]
        again = await http.post(ANSWERS, json={"id": asked["id"], "answer": "deny"})
        assert again.json()["error"]["code"] == "asked_no_more"
        assert heard.names == ["approval.request", "request.closed", "run.completed"]
        request, closed = heard.frames[0][1], heard.frames[1][1]
        assert (request["approval_id"], request["command"]) == (asked["id"], "rm -rf build\n\n*x*")
        assert (request["cwd"], request["grants"]) == ("/work", ["network"])
        assert request["description"] == "This deletes."
        assert (closed["request_id"], closed["answer"]) == (asked["id"], "session")
        assert (await http.get("/api/sessions/one")).json()["asks"] == []


async def test_a_question_is_shown_with_its_choices_and_answered_with_a_text(web_stage: WebStage) -> None:
    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        return f"You said {await turn.ask('Which?', ['red', 'blue'])}."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "go"})
        asked = await asks(web_stage, http)
        assert (asked["kind"], asked["text"], asked["choices"]) == ("question", "Which?", ["red", "blue"])
        await http.post(ANSWERS, json={"id": asked["id"], "answer": "2"})
        await heard.until("run.completed")
        assert heard.names == ["question.request", "request.closed", "run.completed"]
        assert heard.frames[0][1]["choices"] == ["red", "blue"]
        assert heard.frames[-1][1]["output"] == "You said blue."


async def test_a_question_without_an_answer_in_time_is_closed(web_stage: WebStage) -> None:
    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        return f"You said {await turn.ask('Which?', within=0.05)}."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "go"})
        await heard.until("run.completed")
        assert heard.names == ["question.request", "request.closed", "run.completed"]
        assert "answer" not in heard.frames[1][1]


async def test_a_message_waits_for_its_turn_or_joins_the_running_one(web_stage: WebStage) -> None:
    go_on = trio.Event()
    taken: list[str] = []

    async def agent(turn: TurnContext) -> str:
        await turn.say("I begin.")
        if turn.said[0].text == "go":
            await go_on.wait()
            taken.extend(await turn.steered())
        return f"Done with {turn.said[0].text}."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http), hearing(http) as heard:
        first = (await http.post("/api/sessions/one/messages", json={"text": "go"})).json()
        await heard.until("message.delta")
        queued = (await http.post("/api/sessions/one/messages", json={"text": "next"})).json()
        steer = {"text": "along", "mode": "steer"}
        steered = (await http.post("/api/sessions/one/messages", json=steer)).json()
        assert (queued["status"], steered["status"]) == ("queued", "steered")
        assert steered["run_id"] == first["run_id"] != queued["run_id"]
        waiting = (await http.get("/api/sessions/one")).json()["waiting"]
        assert [(one["text"], one["status"]) for one in waiting] == [("next", "queued"), ("along", "steered")]
        assert [one["message_id"] for one in waiting] == [queued["message_id"], steered["message_id"]]
        go_on.set()
        await heard.until("run.completed", 2)
        assert taken == ["along"]
        read = (await http.get("/api/sessions/one/messages")).json()
        users = [(row["content"], row["run_id"]) for row in read["messages"] if row["role"] == "user"]
        assert users == [
            ("go", first["run_id"]),
            ("along", first["run_id"]),
            ("next", queued["run_id"]),
        ]
        places = [row["place"] for row in read["messages"] if row["run_id"] == first["run_id"]]
        assert places == sorted(places)
        assert (await http.get("/api/sessions/one")).json()["waiting"] == []


async def test_a_steered_message_without_a_running_turn_gets_a_turn_of_its_own(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http), hearing(http) as heard:
        steer = {"text": "hello", "mode": "steer"}
        said = (await http.post("/api/sessions/one/messages", json=steer)).json()
        assert said["status"] == "started"
        await heard.until("run.completed")
        assert heard.frames[-1][1]["run_id"] == said["run_id"]


async def test_the_messages_come_with_the_outcomes_of_their_turns(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hello"})
        await heard.until("run.completed")
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await heard.until("message.delta", 2)
        turns = (await http.get("/api/sessions/one/messages")).json()["turns"]
        assert [(turn["outcome"], turn["ended_at"] is None) for turn in turns] == [
            ("answered", False),
            (None, True),
        ]
        running = (await http.get("/api/sessions/one")).json()
        assert running["run_id"] == turns[1]["run_id"]
        assert abs(running["running_since"] - turns[1]["started_at"]) < 5
        await http.post("/api/sessions/one/stop")
        await heard.until("run.cancelled")
        turns = (await http.get("/api/sessions/one/messages")).json()["turns"]
        assert [turn["outcome"] for turn in turns] == ["answered", "stopped"]


async def test_the_reasoning_of_a_turn_is_kept_after_its_end(web_stage: WebStage) -> None:
    web_stage.agent.on("hello", Script().thinks("First one thing, ").thinks("then another.").says("Done."))
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hello"})
        await heard.until("run.completed")
        rows = (await http.get("/api/sessions/one/messages")).json()["messages"]
        assert [(row["role"], row.get("reasoning")) for row in rows] == [
            ("user", None),
            ("assistant", "First one thing, then another."),
        ]


async def test_a_resumed_turn_is_listed_before_it_has_any_output(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await heard.until("message.delta")
    web_stage.agent.on("hang", Script().hangs())
    async with web_stage.served() as (_, http):
        await web_stage.until(lambda: len(web_stage.agent.began) == 2)
        turns = (await http.get("/api/sessions/one/messages")).json()["turns"]
        assert [(turn["outcome"], turn["resumes"]) for turn in turns] == [("cut", False), (None, True)]


async def test_a_session_is_found_by_the_text_of_its_messages(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http), hearing(http) as heard:
        for number, text in enumerate(("a zebra runs", "a horse runs"), start=1):
            await http.post(f"/api/sessions/s{number}/messages", json={"text": text})
            await heard.until("run.completed", number)
        for words, found in (("zebra", ["s1"]), ("runs", ["s1", "s2"]), ('"', []), ("no such word", [])):
            sessions = (await http.get("/api/sessions", params={"q": words})).json()["sessions"]
            assert sorted(one["id"] for one in sessions) == found
            assert all(words in one["said"] for one in sessions)


async def test_the_page_does_not_contain_the_key(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        for path in ("/", "/page/main.js", "/page/login.js"):
            assert KEY not in (await http.get(path)).text
