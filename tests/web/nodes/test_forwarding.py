"""Requests that reach a gateway which does not own their chat: they are answered by the one that does."""

from __future__ import annotations

from pathlib import Path

import httpx
import trio

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.state.tables import lives
from hermes_trio.testing import Script
from hermes_trio.web.http.auth import FORWARDED_BY, cluster_key
from tests.postgres import PostgresServer
from tests.web.conftest import KEY, PATIENCE
from tests.web.nodes.cluster import Node, becomes, cluster, hand_over, say
from tests.web.openai.run_client import begun, events, listening, until

IN_SESSION = {"X-Hermes-Session-Id": "talk"}


def completion(text: str, *, stream: bool = False) -> dict[str, object]:
    return {"model": "x", "stream": stream, "messages": [{"role": "user", "content": text}]}


async def owned(owner: Node) -> None:
    """Let a gateway own the session `talk`."""
    answer = await owner.http.post("/v1/chat/completions", json=completion("hello"), headers=IN_SESSION)
    assert answer.status_code == 200, answer.text


async def test_each_door_of_any_gateway_leads_to_the_owner_of_the_chat(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with cluster(tmp_path, server, "one", "two", "three") as (one, two, three):
        await owned(one)
        whole = await two.http.post("/v1/chat/completions", json=completion("whole"), headers=IN_SESSION)
        assert whole.json()["choices"][0]["message"]["content"] == "You said: whole"
        assert whole.headers["X-Hermes-Session-Id"] == "talk"
        run = await begun(three.http, input="run", session_id="talk")
        assert (await until(two.http, run, "completed"))["output"] == "You said: run"
        assert (await events(three.http, run)).names[-1] == "run.completed"
        posted = await say(three.http, "talk", "post")
        await until(two.http, posted, "completed")
        sent = await two.http.post("/api/sessions/talk/files", params={"name": "a.txt"}, content=b"abc")
        assert sent.status_code == 201, sent.text
        file = sent.json()["file"]["name"]
        assert (await three.http.get(f"/api/sessions/talk/files/{file}")).content == b"abc"
        obeyed = await two.http.post("/api/sessions/talk/commands", json={"text": "/status"})
        assert obeyed.json()["replies"]
        assert (await two.http.patch("/api/sessions/talk", json={"title": "New"})).status_code == 200
        assert (await three.http.get("/api/sessions/talk")).json()["title"] == "New"
        read = [await node.http.get("/api/sessions/talk/messages") for node in (one, two, three)]
        assert read[0].json() == read[1].json() == read[2].json()
        assert (await three.http.delete("/api/sessions/talk")).json()["deleted"]
        assert one.said == ["hello", "whole", "run", "post"]
        assert two.said == three.said == []


async def test_words_are_passed_on_while_the_turn_runs_and_a_stop_reaches_it(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with cluster(tmp_path, server, "one", "two") as (one, two):
        one.agent.on("long", Script().says("half of it ").takes(600))
        await owned(one)
        run = await begun(two.http, input="long", session_id="talk")
        async with listening(two.http, run) as followed:
            assert (await followed.until("message.delta"))["delta"] == "half of it "
            assert (await two.http.get("/api/sessions/talk")).json()["state"] == "running"
            stopped = await two.http.post(f"/v1/runs/{run['run_id']}/stop")
            assert stopped.json()["status"] == "stopping"
            await followed.until("run.cancelled")
            with trio.fail_after(PATIENCE):
                await followed.over.wait()
        assert followed.is_done
        again = await begun(two.http, input="long", session_id="talk")
        assert (await until(two.http, again, "running"))["status"] == "running"
        done = await two.http.post("/api/sessions/talk/stop")
        assert done.json() == {"stopped": True, "dropped": 0}


async def test_a_client_that_goes_ends_the_turn_that_was_begun_for_it_elsewhere(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with cluster(tmp_path, server, "one", "two") as (one, two):
        one.agent.on("long", Script().says("half of it ").takes(600))
        await owned(one)
        body = completion("long", stream=True)
        heard = trio.Event()

        async def ask() -> None:
            path = "/v1/chat/completions"
            async with two.http.stream("POST", path, json=body, headers=IN_SESSION) as answer:
                async for line in answer.aiter_lines():
                    if "half of it" in line:
                        heard.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await heard.wait()
            nursery.cancel_scope.cancel()
        await becomes(lambda: len(one.agent.left) == 2)
        assert one.agent.left[1][:2] == ("long", "cancelled")


async def test_an_approval_is_granted_at_another_gateway(tmp_path: Path, server: PostgresServer) -> None:
    async def asks(turn: TurnContext) -> str:
        return f"Allowed: {await turn.may('rm -rf build')}."

    async with cluster(tmp_path, server, "one", "two") as (one, two):
        one.agent.does("clean", asks)
        await owned(one)
        run = await begun(two.http, input="clean", session_id="talk")
        async with listening(two.http, run) as followed:
            asked = await followed.until("approval.request")
            [shown] = (await two.http.get("/api/sessions/talk")).json()["asks"]
            assert (shown["id"], shown["command"]) == (asked["approval_id"], "rm -rf build")
            given = {"choice": "once", "approval_id": asked["approval_id"]}
            answered = await two.http.post(f"/v1/runs/{run['run_id']}/approval", json=given)
            assert answered.json()["resolved"] == 1
        assert (await until(two.http, run, "completed"))["output"] == "Allowed: once."
        run = await begun(two.http, input="clean", session_id="talk")
        async with listening(two.http, run) as followed:
            asked = await followed.until("approval.request")
            no = {"id": asked["approval_id"], "answer": "deny"}
            assert (await two.http.post("/api/sessions/talk/answers", json=no)).json()["answer"] == "deny"
        assert (await until(two.http, run, "completed"))["output"] == "Allowed: None."


async def test_a_forwarded_request_needs_the_key_of_the_cluster_and_is_not_forwarded_again(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with cluster(tmp_path, server, "one", "two") as (one, two):
        await owned(one)
        forwarded = {FORWARDED_BY: one.life}
        async with httpx.AsyncClient(base_url=str(two.http.base_url)) as peer:

            async def asks(**more: str) -> httpx.Response:
                return await peer.patch(
                    "/api/sessions/talk", json={"title": "x"}, headers={**forwarded, **more}
                )

            assert (await asks()).status_code == 401
            for wrong in ("", "Bearer wrong", f"Bearer {KEY}", f"Basic {cluster_key(KEY)}"):
                assert (await asks(Authorization=wrong)).status_code == 401
            right = {"Authorization": f"Bearer {cluster_key(KEY)}"}
            assert (await peer.get("/api/sessions/talk", headers=right)).status_code == 401
            # The owner would show the files of its own home.
            sent = await one.http.post("/api/sessions/talk/files", params={"name": "a.txt"}, content=b"abc")
            path = f"/api/sessions/talk/files/{sent.json()['file']['name']}"
            assert (await two.http.get(path)).status_code == 200
            assert (await peer.get(path, headers={**forwarded, **right})).status_code == 404


async def test_gateways_with_different_keys_say_so(tmp_path: Path, server: PostgresServer) -> None:
    keys = (KEY, "another-key-for-tests")
    async with cluster(tmp_path, server, "one", "two", keys=keys) as (one, two):
        await owned(one)
        refused = await two.http.post("/api/sessions/talk/stop")
        assert (refused.status_code, refused.json()["error"]["code"]) == (502, "keys_differ")
        assert "web.key" in refused.json()["error"]["remedy"]


async def test_an_owner_that_cannot_be_reached_refuses_nothing_that_only_reads(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with cluster(tmp_path, server, "one", "two") as (one, two):
        told = trio.Event()

        async def waits(turn: TurnContext) -> str:
            await told.wait()
            return "At last."

        one.agent.does("long", waits)
        await owned(one)
        run = await begun(one.http, input="long", session_id="talk")
        await until(one.http, run, "running")
        with trio.socket.socket() as taken:
            await taken.bind(("127.0.0.1", 0))  # and does not listen
            closed = f"http://127.0.0.1:{taken.getsockname()[1]}"
            await one.gateway.home.database.write(lives.note_address, one.life, closed)
            await becomes(lambda: two.peers.known[one.life].address == closed)
            refused = await two.http.post("/api/sessions/talk/stop")
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "owner_unreachable")
            assert refused.headers["Retry-After"]
            assert (await two.http.get("/api/sessions/talk")).json()["id"] == "talk"
            async with listening(two.http, run) as followed:
                told.set()
                await followed.until("run.completed")
        whole = (await events(one.http, run)).ids
        assert followed.ids == whole


async def test_a_chat_that_is_given_away_is_found_at_its_new_owner(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with cluster(tmp_path, server, "one", "two") as (one, two):
        await owned(one)
        await hand_over(one, two, "talk")
        await begun(one.http, input="again", session_id="talk")
        await becomes(lambda: two.said == ["again"])
        assert one.said == ["hello"]
