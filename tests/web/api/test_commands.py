"""Chat commands by request: they work as in a chat, and their output is the answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import trio

from hermes_trio.gateway.outbound import texts
from hermes_trio.gateway.turn.agent_function import CompressionResult
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script
from tests.stage import Agent, home_channels
from tests.web.conftest import WebStage, hearing


@dataclass(frozen=True)
class Done:
    """The result of the compression."""

    before: int
    after: int
    trouble: str = ""


async def typed(http: httpx.AsyncClient, text: str, session: str = "one") -> dict[str, Any]:
    """Send this text as a command, and return the answer."""
    answer = await http.post(f"/api/sessions/{session}/commands", json={"text": text})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def refused(http: httpx.AsyncClient, text: str, session: str) -> str:
    answer = await http.post(f"/api/sessions/{session}/commands", json={"text": text})
    assert answer.status_code == 409
    return str(answer.json()["error"]["code"])


async def says(http: httpx.AsyncClient, text: str, session: str = "one") -> None:
    answer = await http.post(f"/api/sessions/{session}/messages", json={"text": text})
    assert answer.status_code == 202, answer.text


async def transcript(http: httpx.AsyncClient, session: str = "one") -> list[str]:
    read = (await http.get(f"/api/sessions/{session}/messages")).json()
    return [row["content"] for row in read["messages"]]


async def test_a_command_is_answered_and_adds_nothing_to_the_session(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        told = await typed(http, " /STATUS ")
        assert told["command"] == "status"
        assert "The gateway is up; 0 turns are running\nNo session yet" in told["replies"][0]
        assert "/stop ends the running turn" in (await typed(http, "/help"))["replies"][0]
        assert "You are an admin." in (await typed(http, "/whoami"))["replies"][0]
        assert (await typed(http, "/nonsense"))["replies"] == [texts.unknown_command("nonsense")]
        assert (await typed(http, "/sethome"))["replies"] == [texts.no_notices_here()]
        assert (await typed(http, "/queue"))["replies"] == [texts.needs_text("queue")]
        assert (await http.get("/api/sessions")).json()["sessions"] == []
        assert web_stage.agent.began == []


@pytest.mark.parametrize("text", ["hello", "/etc/hosts is what?", "/", "// no", "/var/log/x\n" * 5_000])
async def test_a_text_that_is_not_a_command_is_left_to_the_client(web_stage: WebStage, text: str) -> None:
    async with web_stage.served() as (_, http):
        assert await typed(http, text) == {"command": None, "rest": "", "replies": []}


@pytest.mark.parametrize(
    ("text", "command"),
    [("/queue  a b", "queue"), ("/q a b", "queue"), ("/steer a b", "steer"), ("/btw a b", "background")],
)
async def test_the_message_after_a_command_is_returned(web_stage: WebStage, text: str, command: str) -> None:
    async with web_stage.served() as (_, http):
        assert await typed(http, text) == {"command": command, "rest": "a b", "replies": []}
        assert (await http.get("/api/sessions")).json()["sessions"] == []


async def test_the_stop_command_stops_the_turn_and_the_page_is_told(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await says(http, "hang")
        await heard.until("message.delta")
        assert "Working for" in (await typed(http, "/status"))["replies"][0]
        assert (await typed(http, "/stop"))["replies"] == [texts.stopped(was_running=True, dropped=0)]
        await heard.until("run.cancelled")
        assert await transcript(http) == ["hang", "I begin."]
        assert (await typed(http, "/stop"))["replies"] == [texts.stopped(was_running=False, dropped=0)]


async def test_a_command_that_waits_for_the_turn_replies_after_it(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().hangs(resists=0.2))
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await says(http, "hang")
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        assert (await typed(http, "/undo"))["replies"] == [texts.taken_back("hang")]
        assert await transcript(http) == []
        assert (await typed(http, "/retry"))["replies"] == [texts.nothing_to_take_back()]
        await says(http, "hello")
        await heard.until("run.completed")
        assert (await typed(http, "/retry"))["replies"] == []
        await heard.until("run.completed", 2)
        assert [said for said, _ in web_stage.agent.began] == ["hang", "hello", "hello"]
        assert await transcript(http) == ["hello", "You said: hello"]


async def test_the_compress_command_replies_after_the_compression(web_stage: WebStage) -> None:
    done = Done(before=2000, after=500)

    class Shortens(Agent):
        async def compress(self, *_: object) -> CompressionResult:
            await trio.sleep(0.2)
            return done

    web_stage.agent = Shortens()
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await says(http, "hello")
        await heard.until("run.completed")
        assert (await typed(http, "/compress"))["replies"] == [
            texts.compressed(done.before, done.after, done.trouble)
        ]


async def test_a_client_with_the_key_may_give_admin_commands_in_a_chat(web_stage: WebStage) -> None:
    got: list[str | None] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        got.append(await turn.may("rm -rf build"))
        return "Done."

    web_stage.agent = agent  # type: ignore[assignment]
    web_stage.allow(allow_admin_from=("7",))
    async with web_stage.served() as (gateway, http):
        await web_stage.platform.says("go")
        chat = web_stage.platform.chat("42")
        await web_stage.until(lambda: "May I do this?" in "".join(chat.texts))
        session = web_stage.entry().session_id
        assert (await typed(http, "/approve", session))["replies"] == [texts.decided("once", 1)]
        await web_stage.until(lambda: chat.texts[-1] == "Done.")
        assert got == ["once"]
        said = len(chat.texts)
        assert (await typed(http, "/deny always", session))["replies"] == [texts.permissions_removed(0)]
        assert (await typed(http, "/sethome", session))["replies"] == [texts.home_channel_set()]
        assert home_channels(gateway) == ["42"]
        assert len(chat.texts) == said, "the chat got no question"
        assert (await typed(http, "/restart", session))["replies"] == [texts.restart_asked(0, 0)]
        assert gateway.control.current is not None
        assert gateway.control.current.kind == "restart"


async def test_an_ended_or_unreachable_session_accepts_no_command(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        await web_stage.platform.says("hello")
        await web_stage.until(lambda: web_stage.platform.chat("42").texts == ["You said: hello"])
        former = web_stage.entry().session_id
        assert (await typed(http, "/new", former))["replies"] == [texts.new_session(0)]
        assert await refused(http, "/stop", former) == "session_ended"
        await web_stage.platform.says("again")
        await web_stage.until(lambda: web_stage.platform.chat("42").texts[1:] == ["You said: again"])
        session = web_stage.entry().session_id
    web_stage.platform.name = "elsewhere"
    async with web_stage.served() as (_, http):
        assert await refused(http, "/retry", session) == "no_way_to_chat"


async def test_a_message_a_run_and_a_completion_never_are_commands(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        await says(http, "/status")
        asked = {"messages": [{"role": "user", "content": "/stop"}]}
        answer = (await http.post("/v1/chat/completions", json=asked)).json()
        assert answer["choices"][0]["message"]["content"] == "You said: /stop"
        await http.post("/v1/runs", json={"input": "/new", "session_id": "one"})
        await web_stage.until(lambda: len(web_stage.agent.left) == 3)
        assert {said for said, _, _ in web_stage.agent.left} == {"/status", "/stop", "/new"}
