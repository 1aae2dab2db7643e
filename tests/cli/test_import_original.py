"""`hermes-trio import` on a home that hermes-agent itself has made: it is installed from the package index,
and its gateway talks to a person on a simulated Telegram and to clients of its API."""

from __future__ import annotations

import json
import urllib.request
from functools import partial
from pathlib import Path

import pytest
import trio

from bench.subjects.environments import python_environment
from bench.subjects.original import VERSION, HermesAgent
from bench.subjects.subject import KEY, Unavailable
from bench.subjects.telegram_server import TOKEN
from hermes_platforms.telegram.testing.bot_api import BotApi, open_bot_api
from hermes_trio.state.db.opening import connect_reading
from hermes_trio.state.tables import transcript
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import RecordedRequest, open_model_server
from tests.machine import PATIENCE, environment, hermes

pytestmark = pytest.mark.soak

SAYS_ITSELF = """
import json, sys
from pathlib import Path
from hermes_state import SessionDB
db = SessionDB(db_path=Path(sys.argv[1]))
ids = [row["id"] for row in db._conn.execute("SELECT id FROM sessions")]
print(json.dumps({one: [(m["role"], m["content"]) for m in db.get_messages(one)] for one in ids}))
"""
"""A program in the environment of hermes-agent that prints each conversation as that reads it."""


def answer(request: RecordedRequest) -> Reply:
    messages = request.body["messages"]
    if messages[-1]["role"] == "user" and "list" in str(messages[-1]["content"]):
        command = json.dumps({"command": "printf 'a\\nb ü'"})
        return Reply().thinks("Hm.").says("Let me look.").calls("terminal", command)
    return Reply().says(f"Answer {len(messages)}.\n\n**Bold** 🙂")


def ask(port: int, session: str, text: str) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        data=json.dumps({"model": "bench", "messages": [{"role": "user", "content": text}]}).encode(),
        headers={
            "Authorization": f"Bearer {KEY}",
            "Content-Type": "application/json",
            "X-Hermes-Session-Id": session,
        },
    )
    urllib.request.urlopen(request, timeout=PATIENCE).read()  # noqa: S310 - on this machine


def has_answers(telegram: BotApi, number: int) -> bool:
    return sum("Bold" in text for text in telegram.chat("42").texts) >= number


@pytest.mark.timeout(1800)
async def test_every_conversation_of_a_real_home_is_here_word_for_word(tmp_path: Path) -> None:
    original = HermesAgent()
    try:
        await trio.to_thread.run_sync(original.prepare)
    except Unavailable as reason:
        pytest.skip(str(reason))
    source, home = tmp_path / "hermes", tmp_path / "home"
    source.mkdir()
    async with open_model_server() as model, open_bot_api() as telegram:
        model.otherwise = answer
        telegram.token = TOKEN
        port = int(model.openai_url.split(":")[2].partition("/")[0])
        life = original.life(source, port, 0, telegram=telegram.port)
        running = await trio.to_thread.run_sync(life.__enter__)
        try:
            for session, text in (
                ("one", "Hello."),
                ("one", "Please list it."),
                ("two", "Ünïcode <b>🙂</b>\n2"),
            ):
                await trio.to_thread.run_sync(ask, running.port, session, text)
            with trio.fail_after(PATIENCE):
                for number, text in enumerate(("Hello from a chat.", "Please list it."), 1):
                    await telegram.says(text)
                    await telegram.until(partial(has_answers, telegram, number))
        finally:
            await trio.to_thread.run_sync(life.__exit__, None, None, None)
    written = await trio.run_process(
        [
            str(python_environment(f"hermes-agent-{VERSION}") / "python"),
            "-c",
            SAYS_ITSELF,
            str(source / "state.db"),
        ],
        env=environment(source),
        capture_stdout=True,
    )
    theirs = json.loads(written.stdout)
    assert {"one", "two"} < set(theirs)

    done = await hermes("import", str(source), environ=environment(home))
    assert done.returncode == 0, done.stderr
    with connect_reading(home / "gateway.db") as db:
        for session_id, rows in theirs.items():
            wanted = [
                (role, content or "") for role, content in rows if role in ("user", "assistant", "tool")
            ]
            assert [(row.role, row.content) for row in transcript.load(db, session_id)] == wanted
            assert len(wanted) >= 2
    before = await hermes("sessions", "list", "--json", environ=environment(home))
    again = await hermes("import", str(source), environ=environment(home))
    assert "taken" not in again.stdout
    assert (await hermes("sessions", "list", "--json", environ=environment(home))).stdout == before.stdout
