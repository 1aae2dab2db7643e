"""A gateway that may open few files: requests are answered at once, and a failure for lack of a file is
reported and does not last."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import ModelServer, open_model_server
from tests.host.children.kinds import until

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform == "win32", reason="it has no such limit"),
    # A client that is refused before it has sent its body leaves the rest to the garbage collector.
    pytest.mark.filterwarnings("ignore:Async generator 'httpx:ResourceWarning"),
]

PATIENCE = 40.0
FILES = 64
KEY = "a-key-for-tests-only"
HEADERS = {"Authorization": f"Bearer {KEY}"}
CONFIG = """
web: {{port: 0, key: {key}}}
model: {{provider: openai, base_url: "{model}", name: test-model, api_key: kkkkkkkkkkkkkkkk}}
agent: {{api_max_retries: 0}}
terminal: {{sandbox: "off"}}
"""


def _few_files() -> None:
    import resource

    # The hard limit too: `run` raises the soft one to it.
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


@asynccontextmanager
async def gateway(home: Path, model: ModelServer) -> AsyncIterator[str]:
    """Run a gateway in a process that may open few files; yield its address."""
    home.mkdir()
    (home / "config.yaml").write_text(CONFIG.format(key=KEY, model=model.openai_url))
    environ = {name: value for name, value in os.environ.items() if name != "INVOCATION_ID"}
    out = home.with_name("out.txt")
    with out.open("wb") as said:
        process = await trio.lowlevel.open_process(
            [sys.executable, "-m", "hermes_trio", "run"],
            env={**environ, "HERMES_HOME": str(home)},
            stdout=said,
            stderr=subprocess.STDOUT,
            preexec_fn=_few_files,
        )
    try:
        pattern = re.compile(r"http://127\.0\.0\.1:\d+")
        await until(lambda: bool(pattern.search(out.read_text().partition("Page:")[2])), within=PATIENCE)
        found = pattern.search(out.read_text().partition("Page:")[2])
        assert found is not None
        yield found[0]
        assert process.poll() is None, "the process still runs"
    finally:
        process.kill()
        with trio.move_on_after(10, shield=True):
            await process.wait()


async def asked(address: str, path: str) -> int:
    """Return the status for a request on a new connection."""
    async with httpx.AsyncClient(base_url=address, headers=HEADERS, timeout=PATIENCE) as http:
        return (await http.get(path)).status_code


async def watcher(address: str) -> tuple[trio.SocketStream, bytes]:
    """Open an event stream, and return the beginning of the answer."""
    stream = await trio.open_tcp_stream(*_host_and_port(address))
    await stream.send_all(
        f"GET /api/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n\r\n".encode()
    )
    with trio.fail_after(PATIENCE):
        return stream, bytes(await stream.receive_some(1 << 16))


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("http://").partition(":")
    return host, int(port)


async def test_event_streams_leave_file_descriptors_for_requests_and_for_turns(tmp_path: Path) -> None:
    async with open_model_server() as model, gateway(tmp_path / "home", model) as address:
        async with AsyncExitStack() as held:
            first, _ = await watcher(address)
            await held.enter_async_context(first)
            assert await asked(address, "/ready") == 200
            answers = []
            for _ in range(FILES):
                stream, told = await watcher(address)
                await held.enter_async_context(stream)
                answers.append(told.partition(b"\r\n")[0])
            assert answers[0].startswith(b"HTTP/1.1 200")
            assert answers[-1] == b"HTTP/1.1 503 Full"
            for path in ("/ready", "/health", "/ready"):
                assert await asked(address, path) in (200, 503), "at once, whatever the answer is"
        with trio.fail_after(PATIENCE):
            while await asked(address, "/ready") != 200:  # noqa: ASYNC110 - it may take a moment
                await trio.sleep(0.05)
        body = {"messages": [{"role": "user", "content": "hello"}]}
        answered = await posted(address, "/v1/chat/completions", body)
        assert answered.json()["choices"][0]["message"]["content"] == "Hello."


async def test_turns_without_file_descriptors_fail_with_a_message_and_the_next_turn_is_answered(
    tmp_path: Path,
) -> None:
    async with open_model_server() as model, gateway(tmp_path / "home", model) as address:
        model.otherwise = Reply().pauses(5.0).says("Hello.")
        runs = []
        for number in range(FILES):
            begun = await posted(address, "/v1/runs", {"input": "hello", "session_id": f"s{number}"})
            assert begun.status_code in (202, 500, 503), begun.text
            if begun.status_code == 202:
                runs.append(begun.json()["run_id"])
            assert await asked(address, "/ready") in (200, 503), "at once, whatever the answer is"
        assert len(runs) > 10
        stands = [await ended(address, run) for run in runs]
        assert {stand["status"] for stand in stands} <= {"completed", "failed"}
        assert "completed" in [stand["status"] for stand in stands]
        errors = [stand["error"] for stand in stands if stand["status"] == "failed"]
        assert all(errors), "each failure has a reason"
        model.otherwise = Reply().says("Hello.")
        answered = await posted(
            address, "/v1/chat/completions", {"messages": [{"role": "user", "content": "hello again"}]}
        )
        assert answered.json()["choices"][0]["message"]["content"] == "Hello."


async def posted(address: str, path: str, body: dict[str, Any]) -> httpx.Response:
    async with httpx.AsyncClient(base_url=address, headers=HEADERS, timeout=PATIENCE) as http:
        return await http.post(path, json=body)


async def ended(address: str, run: str) -> dict[str, Any]:
    """Return the state of a run when it is over. The request is repeated while the server is full."""
    with trio.fail_after(PATIENCE):
        async with httpx.AsyncClient(base_url=address, headers=HEADERS, timeout=PATIENCE) as http:
            while True:
                answered = await http.get(f"/v1/runs/{run}")
                if answered.status_code == 200 and answered.json()["status"] not in ("queued", "running"):
                    stand: dict[str, Any] = answered.json()
                    return stand
                await trio.sleep(0.05)
