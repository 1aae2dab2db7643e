"""Requests of the agent's processes are refused, even with the key, which a command can read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import trio

from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.processes.guard import open_guard
from hermes_trio.host.processes.process_groups import running
from hermes_trio.tools.sandbox.views import Grants
from hermes_trio.web.route_table import SPECS
from tests.web.conftest import KEY, WebStage
from tests.web.http.test_attacks import at
from tests.web.openai.run_client import begun, listening, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child of a child is not found")

ASKS = """
import http.client, json, sys
address, asked = sys.argv[1].removeprefix("http://"), json.loads(sys.argv[2])
server = http.client.HTTPConnection(address, timeout=20)
for method, path, body in asked:
    server.request(method, path, json.dumps(body), {"Authorization": "Bearer KEY"})
    answer = server.getresponse()
    print(json.dumps([answer.status, json.loads(answer.read() or b"null")]))
""".replace("KEY", KEY)


Asked = tuple[str, str, dict[str, Any]]


def asking(stage: WebStage, *asked: Asked) -> list[str]:
    """Return a command that sends these requests with the key, over one connection."""
    assert stage.web is not None
    return [sys.executable, "-S", "-c", ASKS, stage.web.address, json.dumps(asked)]


def told(output: bytes) -> list[tuple[int, str]]:
    """Return the status and the error code of each answer."""
    answers = [json.loads(line) for line in output.decode().splitlines()]
    return [(status, (body.get("error") or {}).get("code", "")) for status, body in answers]


REFUSED = (403, "sent_by_agent")
NETWORK = Grants(network=True)
"""Without it no request of a command leaves its sandbox."""


@asynccontextmanager
async def served(stage: WebStage) -> AsyncIterator[tuple[RunningGateway, httpx.AsyncClient]]:
    stage.guarded = open_guard
    async with stage.served() as served:
        yield served


@pytest.mark.parametrize("before", [(), ("setsid", "-w"), ("env", "-i")], ids=["plain", "session", "wiped"])
async def test_a_run_does_not_answer_its_own_approval(web_stage: WebStage, before: tuple[str, ...]) -> None:
    tell, hear = trio.open_memory_channel[str](1)
    answers: list[tuple[int, str]] = []

    async def approve(turn: TurnContext) -> None:
        asked, session = await hear.receive(), turn.session_id
        command = asking(
            web_stage,
            ("POST", f"/v1/runs/{turn.run_id}/approval", {"choice": "once", "approval_id": asked}),
            ("POST", f"/api/sessions/{session}/answers", {"id": asked, "answer": "once"}),
            ("POST", f"/api/sessions/{session}/messages", {"text": "yes"}),
            ("POST", f"/api/sessions/{session}/commands", {"text": "/approve"}),
            ("POST", "/v1/runs", {"session_id": session, "input": "yes"}),
        )
        async with turn.running(
            ["sh", "-c", '"$@"; true', "sh", *before, *command], grants=NETWORK
        ) as process:
            await process.wait()
            answers.extend(told(process.output.tail))

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(approve, turn)
            return f"Allowed: {await turn.may('rm -rf build')}."

    web_stage.agent = agent  # type: ignore[assignment]
    async with served(web_stage) as (_, http):
        run = await begun(http, input="clean")
        async with listening(http, run) as followed:
            asked = await followed.until("approval.request")
            await tell.send(asked["approval_id"])
            await web_stage.until(lambda: bool(answers))
            assert answers == [REFUSED] * 5
            given = {"choice": "deny", "approval_id": asked["approval_id"]}
            answered = await http.post(f"/v1/runs/{run['run_id']}/approval", json=given)
            assert answered.status_code == 200, "the embedding program is not the agent"
        assert (await until(http, run, "completed"))["output"] == "Allowed: None."


async def test_a_process_of_the_agent_changes_and_reads_nothing_by_any_route(web_stage: WebStage) -> None:
    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        assert web_stage.web is not None
        every: list[Asked] = [(one.method, at(one, "x"), {}) for one in SPECS if not one.is_open]
        async with turn.running(asking(web_stage, *every, ("GET", "/health", {})), grants=NETWORK) as process:
            await process.wait()
            *refused, seen = told(process.output.tail)
            assert refused == [REFUSED] * len(every)
            assert seen == (200, ""), "what is open to everybody is open to it"
        return "all were refused"

    web_stage.agent = agent  # type: ignore[assignment]
    async with served(web_stage) as (gateway, http):
        run = await begun(http, input="try")
        assert (await until(http, run, "completed"))["output"] == "all were refused"
        assert gateway.control.current is None
        assert not gateway.control.held


async def test_a_sender_that_has_gone_is_not_taken_for_a_person(web_stage: WebStage) -> None:
    sends = """
import socket, sys, os
host, port = sys.argv[1].removeprefix("http://").split(":")
body = b'{"text": "yes"}'
head = f"POST /api/sessions/x/messages HTTP/1.1\\r\\nHost: localhost\\r\\nAuthorization: Bearer KEY\\r\\n"
one = socket.create_connection((host, int(port)))
one.send(head.encode() + b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
os._exit(0)
""".replace("KEY", KEY)

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        assert web_stage.web is not None
        script = [sys.executable, "-S", "-c", sends, web_stage.web.address]
        async with turn.running(
            ["sh", "-c", 'for n in 1 2 3 4 5; do "$@"; done; sleep 1', "sh", *script], grants=NETWORK
        ) as one:
            await one.wait()
        return "sent"

    web_stage.agent = agent  # type: ignore[assignment]
    async with served(web_stage) as (_, http):
        run = await begun(http, input="try")
        assert (await until(http, run, "completed"))["output"] == "sent"
        sessions = (await http.get("/api/sessions")).json()["sessions"]
        assert [one["id"] for one in sessions] == [run["session_id"]], "no message has come to session x"


async def test_a_tool_server_cannot_send_messages_for_a_person(web_stage: WebStage) -> None:
    async with served(web_stage), open_guard() as guard:
        spool, ending = web_stage.home / "logs" / "mcp-x.log", trio.Event()
        command = asking(web_stage, ("POST", "/api/sessions/x/messages", {"text": "yes"}))
        start = running(
            "mcp-1", command, cwd=web_stage.home, env=os.environ, spool=spool, guard=guard, ending=ending
        )
        async with start as process:
            await process.wait()
            assert told(process.output.tail) == [REFUSED]
