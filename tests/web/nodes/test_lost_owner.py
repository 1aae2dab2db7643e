"""The owner of a chat is killed while another gateway passes its answer on. It is a real process, so nothing
of it is put in order at its end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
import trio

from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import open_model_server
from tests.machine import environment, living
from tests.postgres import PostgresServer
from tests.web.conftest import KEY, PATIENCE
from tests.web.nodes.cluster import becomes, serving, stage_of
from tests.web.openai.run_client import Followed, begun, events, stands

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(sys.platform == "win32", reason="the test sends a signal"),
]

CONFIG = """\
web: {{port: 0, key: {key}}}
database: {{url: "{url}", schema: {schema}, node: one, lease: 8}}
model: {{provider: openai, base_url: "{model}", name: test, api_key: none}}
"""


async def test_a_follower_of_a_killed_owner_goes_on_from_its_cursor(
    tmp_path: Path, server: PostgresServer
) -> None:
    home = tmp_path / "one" / "home"
    home.mkdir(parents=True, mode=0o700)
    stage = stage_of(tmp_path, "two", server, lease=8)
    async with open_model_server() as model:
        model.answers(Reply().says("Half of it").hangs())
        values = {"key": KEY, "url": server.url(), "model": model.openai_url}
        schema = stage.config.database.schema
        (home / "config.yaml").write_text(CONFIG.format(**values, schema=schema))
        async with living(home, environ=environment(home)) as life, serving(stage) as two:
            await life.up()
            await becomes(lambda: any(peer.address for peer in two.peers.known.values()))
            [one] = two.peers.known.values()
            headers = {"Authorization": f"Bearer {KEY}"}
            async with httpx.AsyncClient(base_url=one.address or "", headers=headers) as http:
                run = await begun(http, input="long", session_id="talk")
            before = await followed_until_killed(two.http, run["run_id"], life.signal)
            acts = await two.http.post("/api/sessions/talk/stop")
            assert (acts.status_code, acts.json()["error"]["code"]) == (503, "owner_unreachable")
            with trio.fail_after(PATIENCE):
                after = await events(two.http, run, before.ids[-1])
            assert after.names == ["run.failed"]
            assert after.is_done
            numbers = [int(str(one_id).rpartition(":")[2]) for one_id in before.ids + after.ids]
            assert numbers == list(range(1, len(numbers) + 1))
            await becomes(lambda: two.said == ["long"])
            resumed = await stands(two.http, run)
            assert resumed["status"] == "interrupted"
            whole = await events(two.http, {"run_id": resumed["resumed_as"]})
            assert whole.names[-1] == "run.completed"


async def followed_until_killed(
    http: httpx.AsyncClient, run_id: str, send: Callable[[signal.Signals], None]
) -> Followed:
    """Follow a run through another gateway; kill its owner at the first word. Return what was received."""
    followed = Followed()
    broken = trio.Event()

    async def follow() -> None:
        try:
            async with http.stream("GET", f"/v1/runs/{run_id}/events") as response:
                await followed.read(response)
        except httpx.RemoteProtocolError:
            broken.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await followed.until("message.delta")
        send(signal.SIGKILL)
        with trio.fail_after(PATIENCE):
            await broken.wait()
    return followed
