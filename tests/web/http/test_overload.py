"""A gateway with more streams than its machine can serve: a stop ends all of them in time."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
from collections import Counter
from pathlib import Path

import pytest
import trio

from hermes_trio.host.loop.open_files import raise_open_files
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import open_model_server
from tests.machine import living

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
KEY = "a-key-for-this-story"
GRACE = 2.0
MARGIN = 5.0


class Followers:
    """Clients that each request an answer, and read it to its end."""

    def __init__(self, address: str) -> None:
        host, _, port = address.removeprefix("http://").partition(":")
        self._host, self._port = host, int(port)
        self.heard = Counter[int]()
        """The pieces of text, by client."""
        self.told = set[int]()
        """The clients that got the last event."""

    async def follow(self, number: int) -> None:
        said = {"stream": True, "messages": [{"role": "user", "content": f"Hello from {number}."}]}
        body = json.dumps(said).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        async with await trio.open_tcp_stream(self._host, self._port) as stream:
            await stream.send_all(head.encode() + body)
            rest = b""
            while data := await stream.receive_some(65536):
                self.heard[number] += data.count(b'"word')
                rest = rest[-20:] + data
                if b"[DONE]" in rest:
                    self.told.add(number)


@pytest.mark.parametrize(
    "streams", [60, pytest.param(1000, marks=[pytest.mark.soak, pytest.mark.timeout(600)])]
)
async def test_a_stop_ends_all_event_streams_in_time_with_a_last_event(tmp_path: Path, streams: int) -> None:
    raise_open_files()
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    async with open_model_server() as server:
        server.otherwise = Reply(piece=5, seconds_per_event=0.5).says("word " * 500)
        model = f"{{provider: openai, base_url: '{server.openai_url}', name: x, api_key: k}}"
        (home / "config.yaml").write_text(
            f"model: {model}\nagent: {{restart_drain_timeout: {GRACE}}}\nweb: {{port: 0, key: {KEY}}}\n"
        )
        async with living(home) as life, trio.open_nursery() as clients:
            status = await life.up()
            assert status.web is not None
            followers = Followers(status.web)
            for number in range(streams):
                clients.start_soon(followers.follow, number)
            await server.until(lambda: len(server.requests) >= min(streams, 300))
            await trio.sleep(streams / 50)
            life.signal(signal.SIGTERM)
            asked_at = trio.current_time()
            await life.ended()
            assert trio.current_time() - asked_at <= GRACE + MARGIN + 1, "and the interpreter's exit"
    with sqlite3.connect(home / "gateway.db") as db:
        outcomes = [outcome for (outcome,) in db.execute("SELECT outcome FROM turns")]
    db.close()
    assert set(outcomes) <= {"cut", "unstarted"}, "each turn has its outcome"
    assert len(outcomes) >= min(streams, 300)
    assert set(followers.heard) <= followers.told, "each client that got text also got the last event"
