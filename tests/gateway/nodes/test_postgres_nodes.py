"""Two `hermes-trio run` on one PostgreSQL server, each with a home of its own, and one bot: one of them is
killed, and the other one takes over its chat."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from hermes_platforms.telegram.testing import open_bot_api
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import open_model_server
from tests.machine import PATIENCE, environment, hermes, living
from tests.postgres import PostgresServer, postgres_server

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(sys.platform == "win32", reason="the tests send signals"),
]

CONFIG = """\
agent: {{restart_drain_timeout: 0}}
streaming: {{enabled: false}}
web: {{port: 0}}
database: {{url: "{url}", node: {node}, lease: 8}}
model: {{provider: openai, base_url: "{model}", name: test, api_key: none}}
platforms:
  telegram: {{allow_from: all, token: "{token}", base_url: "{base_url}"}}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def machine(tmp_path: Path, node: str) -> dict[str, str]:
    """Return the environment of a gateway that shares no file with others, not even the lock of its bot."""
    return environment(tmp_path / node / "home", XDG_STATE_HOME=str(tmp_path / node / "state"))


async def nodes(environ: dict[str, str]) -> dict[str, dict[str, Any]]:
    """Return what `hermes-trio nodes` prints, by the names of the nodes."""
    done = await hermes("nodes", "--json", environ=environ)
    return {one["node"]: one for one in json.loads(done.stdout)}


async def test_the_chats_of_a_killed_gateway_are_taken_over(tmp_path: Path, server: PostgresServer) -> None:
    environs = {node: machine(tmp_path, node) for node in ("one", "two")}
    async with open_bot_api() as telegram, open_model_server() as model:
        for node, environ in environs.items():
            home = Path(environ["HERMES_HOME"])
            home.mkdir(parents=True, mode=0o700)
            values = {"url": server.url(), "model": model.openai_url, "node": node}
            more = {"token": telegram.token, "base_url": telegram.base_url}
            (home / "config.yaml").write_text(CONFIG.format(**values, **more))
        homes = {node: Path(environ["HERMES_HOME"]) for node, environ in environs.items()}
        chat = telegram.chat("42")
        model.answers(Reply().says("First."), Reply().says("Let me th").hangs(), Reply().says("Resumed."))
        async with (
            living(homes["one"], environ=environs["one"]) as one,
            living(homes["two"], environ=environs["two"]) as two,
        ):
            lives = {"one": one, "two": two}
            for life in lives.values():
                await life.up()
            with trio.fail_after(PATIENCE):
                await telegram.says("hello")
                await telegram.until(lambda: "First." in chat.texts)
                telegram.post("and now?")
                await model.until(lambda: len(model.requests) == 2)
            known = await nodes(environs["one"])
            [owner] = [node for node, state in known.items() if state["chats"]]
            [other] = set(lives) - {owner}
            assert {node: state["lives"] for node, state in known.items()} == {"one": True, "two": True}
            lives[owner].signal(signal.SIGKILL)
            await lives[owner].ended()
            with trio.fail_after(PATIENCE):
                await telegram.until(lambda: any("Resumed." in text for text in chat.texts))
                telegram.post("thanks")
                await telegram.until(lambda: any("Hello." in text for text in chat.texts))
            listed = await hermes("sessions", "list", "--json", environ=environs[other])
            [session] = json.loads(listed.stdout)
            shown = await hermes("sessions", "show", session["session_id"], environ=environs[other])
            assert "Let me th" in shown.stdout, "the journal of the killed gateway is read by the other one"
            [(node, state)] = (await nodes(environs[other])).items()
            assert (node, state["chats"], len(state["roles"])) == (other, 1, 2)
            await hermes("stop", environ=environs[other])
            assert await lives[other].ended() == 0
    for word in ("First.", "Resumed.", "Hello."):
        assert sum(word in text for text in chat.texts) == 1
    assert len(model.requests) == 4


async def test_a_copy_of_a_home_is_refused_while_the_gateway_of_that_home_works(
    tmp_path: Path, server: PostgresServer
) -> None:
    """Two homes with one name would end each other."""
    environ = machine(tmp_path, "original")
    home = Path(environ["HERMES_HOME"])
    home.mkdir(parents=True, mode=0o700)
    database = f'{{url: "{server.url()}", schema: of_copies, node: same, lease: 2}}'
    (home / "config.yaml").write_text(f"database: {database}\nweb: {{port: 0}}\n")
    async with living(home, environ=environ) as life:
        await life.up()
        copied = machine(tmp_path, "copy")
        shutil.copytree(home, copied["HERMES_HOME"], ignore=shutil.ignore_patterns("gateway*"))
        refused = await hermes("run", environ=copied)
        assert (refused.returncode, "another home has the name same" in refused.stderr) == (78, True)
        assert (await nodes(environ))["same"]["lives"], "it was not ended by the copy"
        await hermes("stop", environ=environ)
        assert await life.ended() == 0
    async with living(Path(copied["HERMES_HOME"]), environ=copied) as life:
        await life.up()
        await hermes("stop", environ=copied)
        assert await life.ended() == 0
