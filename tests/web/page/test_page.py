"""What the page stands on: its files, what it is told beside the events of runs, and what it asks for."""

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

# --- its files ---------------------------------------------------------------------------------------


async def test_who_was_let_in_gets_the_page_and_nobody_else(web_stage: WebStage) -> None:
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
            # Going back to a page that was seen before, somebody without a cookie does not see it again.
            known = {"If-None-Match": seen.headers["etag"]}
            assert (await browser.get("/", headers=known)).status_code == 304
            browser.cookies.clear()
            assert 'id="key"' in (await browser.get("/", headers=known)).text


async def test_each_file_is_what_it_says_it_is_and_is_sent_once(web_stage: WebStage) -> None:
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
async def test_no_path_leads_anywhere_else(web_stage: WebStage, path: str) -> None:
    async with web_stage.served() as (_, http):
        got = await http.get(f"/page/{path}")
        assert got.status_code == 404
        assert got.json()["error"]["code"] == "not_found"


def test_nothing_stands_in_the_page_that_its_policy_forbids_and_nothing_comes_from_elsewhere() -> None:
    for name in NAMES:
        text = FOLDER.joinpath(name).read_text("utf-8")
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:", text), name
            assert not re.search(r"(?:src|href)=\"(?!/page/|#)", text), name
            for used in re.findall(r"/page/([\w.]+)", text):
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


async def test_a_used_link_shows_a_browser_where_the_key_goes(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            got = await browser.get("/login?token=used", headers={"Accept": "text/html,*/*"})
            assert got.status_code == 401
            assert 'id="key"' in got.text


# --- what it is told ---------------------------------------------------------------------------------


async def told(heard: Heard, event: str, **facts: Any) -> None:
    """Wait until it is told this."""
    wanted = {"event": event, **facts}
    with trio.fail_after(30):
        while not any({**one, **wanted} == one for one in heard.changes):  # noqa: ASYNC110
            await trio.sleep(0.01)


async def test_every_page_is_told_where_to_look_again(web_stage: WebStage) -> None:
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


async def test_a_message_of_a_chat_is_told_as_well(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, http), hearing(http) as heard:
        await web_stage.platform.says("hello")
        await heard.until("run.completed")
        entry = await gateway.home.store.get_session_entry("agent:main:memory:dm:42")
        assert entry is not None
        await told(heard, "session.changed", session_id=entry.session_id)


async def test_how_the_gateway_is_is_told_first_and_whenever_that_changes(web_stage: WebStage) -> None:
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


# --- what it asks for --------------------------------------------------------------------------------


async def asks(web_stage: WebStage, http: httpx.AsyncClient) -> dict[str, Any]:
    """What the session `one` asks, once it does."""
    await web_stage.until(
        lambda: bool(web_stage.gateway and (t := web_stage.gateway.work.running.handle(ONE)) and t.questions)
    )
    [asked] = (await http.get("/api/sessions/one")).json()["asks"]
    assert isinstance(asked, dict)
    return asked


ONE = "agent:main:api:dm:one"
ANSWERS = "/api/sessions/one/answers"


async def test_an_approval_is_shown_and_answered_once(web_stage: WebStage) -> None:
    got: list[str | None] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        got.append(await turn.may(Approval("rm -rf build\n\n*x*", "This deletes recursively.", "/work")))
        return "Done."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "go"})
        asked = await asks(web_stage, http)
        assert (asked["kind"], asked["choices"]) == ("approval", ["once", "session", "always", "deny"])
        assert (asked["command"], asked["cwd"]) == ("rm -rf build\n\n*x*", "/work")
        assert asked["description"] == "This deletes recursively."
        assert asked["until"] - asked["asked_at"] == 60
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
        assert request["cwd"] == "/work"
        assert request["description"] == "This deletes recursively."
        assert (closed["request_id"], closed["answer"]) == (asked["id"], "session")
        assert (await http.get("/api/sessions/one")).json()["asks"] == []


async def test_a_question_is_shown_with_its_choices_and_answered_in_words(web_stage: WebStage) -> None:
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


async def test_what_is_not_answered_in_time_is_closed(web_stage: WebStage) -> None:
    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        return f"You said {await turn.ask('Which?', within=0.05)}."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "go"})
        await heard.until("run.completed")
        assert heard.names == ["question.request", "request.closed", "run.completed"]
        assert "answer" not in heard.frames[1][1]


async def test_a_message_waits_or_is_taken_along(web_stage: WebStage) -> None:
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


async def test_what_nothing_runs_for_is_not_taken_along_but_answered(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http), hearing(http) as heard:
        steer = {"text": "hello", "mode": "steer"}
        said = (await http.post("/api/sessions/one/messages", json=steer)).json()
        assert said["status"] == "started"
        await heard.until("run.completed")
        assert heard.frames[-1][1]["run_id"] == said["run_id"]


async def test_how_turns_ended_is_read_with_their_messages(web_stage: WebStage) -> None:
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


async def test_what_was_thought_is_still_there_when_the_turn_is_over(web_stage: WebStage) -> None:
    web_stage.agent.on("hello", Script().thinks("First one thing, ").thinks("then another.").says("Done."))
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hello"})
        await heard.until("run.completed")
        rows = (await http.get("/api/sessions/one/messages")).json()["messages"]
        assert [(row["role"], row.get("reasoning")) for row in rows] == [
            ("user", None),
            ("assistant", "First one thing, then another."),
        ]


async def test_a_turn_that_is_taken_up_again_is_known_before_it_says_anything(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await heard.until("message.delta")
    web_stage.agent.on("hang", Script().hangs())
    async with web_stage.served() as (_, http):
        await web_stage.until(lambda: len(web_stage.agent.began) == 2)
        turns = (await http.get("/api/sessions/one/messages")).json()["turns"]
        assert [(turn["outcome"], turn["resumes"]) for turn in turns] == [("cut", False), (None, True)]


async def test_a_session_is_found_by_what_was_said_in_it(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http), hearing(http) as heard:
        for number, text in enumerate(("a zebra runs", "a horse runs"), start=1):
            await http.post(f"/api/sessions/s{number}/messages", json={"text": text})
            await heard.until("run.completed", number)
        for words, found in (("zebra", ["s1"]), ("runs", ["s1", "s2"]), ('"', []), ("no such word", [])):
            sessions = (await http.get("/api/sessions", params={"q": words})).json()["sessions"]
            assert sorted(one["id"] for one in sessions) == found
            assert all(words in one["said"] for one in sessions)


async def test_the_key_is_no_part_of_the_page(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        for path in ("/", "/page/main.js", "/page/login.js"):
            assert KEY not in (await http.get(path)).text
