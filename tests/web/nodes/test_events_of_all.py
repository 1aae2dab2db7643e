"""The stream of all events of one gateway has the events of the others, too."""

from __future__ import annotations

from pathlib import Path

import trio

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import Script, perform
from tests.postgres import PostgresServer
from tests.web.conftest import PATIENCE, client, hearing, log_in
from tests.web.nodes.cluster import cluster, meet, say, serving, stage_of
from tests.web.openai.run_client import events


async def test_a_page_at_any_gateway_hears_the_runs_of_all_while_they_happen(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with cluster(tmp_path, server, "one", "two", "three") as nodes:
        one, two, three = nodes
        for node in nodes:
            node.agent.on("long", Script().says("half of it ").takes(600))
        async with hearing(two.http) as heard:
            posted = [await say(node.http, f"s-{number}", "hello") for number, node in enumerate(nodes)]
            await heard.until("run.completed", times=3)
            for run in posted:
                of_run = [place for place in heard.ids if place.startswith(f"{run['run_id']}:")]
                assert of_run == (await events(one.http, run)).ids
            assert "gap" not in heard.names
            run = await say(three.http, "s-2", "long")
            await heard.until("message.delta", times=4)
            listed = (await two.http.get("/api/sessions")).json()["sessions"]
            [shown] = [session for session in listed if session["id"] == "s-2"]
            assert (shown["state"], shown["run_id"]) == ("running", run["run_id"])
            await heard.until("session.changed", times=3)
            instances = {one["instance"] for one in heard.changes if one["event"] == "gateway.changed"}
            assert len(instances) == 1, "that of the gateway which it is connected to"


async def test_a_page_that_changes_gateways_gets_each_event_once(
    tmp_path: Path, server: PostgresServer
) -> None:
    go_on = trio.Event()

    async def long(turn: TurnContext) -> str:
        first = await perform(Script().says("half of it"), turn)
        await go_on.wait()
        return first

    async with cluster(tmp_path, server, "one", "two", "three") as (one, two, three):
        one.agent.does("long", long)
        async with hearing(two.http) as before:
            run = await say(one.http, "talk", "long")
            await before.until("message.delta")
        go_on.set()
        async with hearing(three.http, before.ids[-1]) as after:
            await after.until("run.completed")
        assert before.ids + after.ids == (await events(one.http, run)).ids


async def test_a_gateway_that_comes_or_goes_makes_a_page_connect_again(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with cluster(tmp_path, server, "one", "two") as (one, two):
        run = await say(one.http, "talk", "hello")
        async with hearing(two.http) as heard:
            await heard.until("gateway.changed")
            async with serving(stage_of(tmp_path, "three", server)) as three:
                await meet(three, 2)
                await heard.until("cut")
                with trio.fail_after(PATIENCE):
                    await heard.over.wait()
                async with hearing(two.http, f"{run['run_id']}:1") as again:
                    await again.until("run.completed")
                    await say(three.http, "new", "hello")
                    await again.until("run.completed", times=2)
                    three.gateway.stop(grace=0, asked_by="the story")
                    await again.until("cut")


async def test_a_browser_that_logs_in_at_one_gateway_is_known_to_all(
    tmp_path: Path, server: PostgresServer
) -> None:
    async with cluster(tmp_path, server, "one", "two") as (one, two):
        assert one.stage.web is not None
        assert two.stage.web is not None
        auth = two.stage.web.opened.auth
        auth.cookie = one.stage.web.opened.auth.cookie  # behind one address their ports are the same
        async with client(one.stage.web, None) as browser:
            await log_in(browser, one.stage.web.link())
            path = two.http.base_url.join("/api/sessions")
            assert (await browser.get(path)).status_code == 200
            [login] = (await one.http.get("/api/logins")).json()["logins"]
            await one.http.delete(f"/api/logins/{login['id']}")
            with trio.fail_after(PATIENCE):
                while (await browser.get(path)).status_code == 200:  # noqa: ASYNC110 - a look announces it
                    await trio.sleep(0.05)
