"""The programs in `examples/`: each is stopped in the middle of a turn by the means of its host, ends its
turn, and leaves no process behind."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import httpx
import psutil
import pytest
import trio

from hermes_trio import blocking
from hermes_trio.testing.model_replies import Reply
from hermes_trio.testing.model_server import open_model_server
from tests.machine import HERMES, environment
from tests.stage import Agent

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PATIENCE = 30.0
KEY = "a-key-for-tests-of-examples"
BEARER = {"authorization": f"Bearer {KEY}"}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are stopped by signals")


@contextmanager
def program(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run an example during the block, in Python's development mode: it shows what is not closed or awaited,
    and asyncio has its debug mode."""
    command = [sys.executable, "-X", "dev", str(EXAMPLES / name), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def line_of(running: subprocess.Popen[str]) -> str:
    """Return the next line that an example prints."""
    assert running.stdout is not None
    line = running.stdout.readline()
    assert line, running.stderr.read() if running.stderr else ""
    return line


def stop(running: subprocess.Popen[str], how: signal.Signals) -> int:
    """Stop an example and return its exit status; check that its child processes end with it, and that it
    leaves nothing open."""
    children = psutil.Process(running.pid).children(recursive=True)
    running.send_signal(how)
    _, told = running.communicate(timeout=PATIENCE)
    for complaint in ("Warning", "never awaited", "was destroyed", "never retrieved", "abandoned"):
        assert complaint not in told, told
    assert psutil.wait_procs(children, timeout=PATIENCE)[1] == []
    return running.returncode


def outcomes(home: Path) -> list[str | None]:
    """Return the ends of all turns of a home, which the next gateway can open."""
    with closing(sqlite3.connect(home / "gateway.db")) as db:
        found = [outcome for (outcome,) in db.execute("SELECT outcome FROM turns")]
    assert found
    with blocking.open_gateway(home, agent=Agent()) as gateway:
        assert gateway.say("after", "hello") == "You said: hello"
    return found


def connected(port: int) -> socket.socket:
    """Connect as soon as somebody listens."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        except ConnectionRefusedError:
            assert time.monotonic() < end
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("name", "arguments", "first"),
    [
        ("trio_service.py", [], "1 \n"),
        ("anyio_program.py", ["trio"], "1 \n"),
        ("anyio_program.py", ["asyncio"], "1 \n"),
        ("blocking_script.py", [], "1 \n"),
    ],
)
def test_ctrl_c_ends_a_program_in_the_middle_of_a_turn(
    name: str, arguments: list[str], first: str, tmp_path: Path
) -> None:
    with program(name, str(tmp_path), *arguments) as running:
        assert line_of(running).endswith(first)
        assert stop(running, signal.SIGINT) != 0
    assert set(outcomes(tmp_path)) <= {"stopped", "cut"}


def test_ctrl_c_ends_a_bot_on_asyncio_while_it_answers(tmp_path: Path) -> None:
    with program("asyncio_bot.py", str(tmp_path)) as running, connected(int(line_of(running))) as person:
        person.sendall(b"count\n")
        assert person.recv(1) == b"1"
        assert stop(running, signal.SIGINT) != 0
    assert set(outcomes(tmp_path)) <= {"stopped", "cut"}


def test_a_web_server_closes_its_gateway_while_it_answers(tmp_path: Path) -> None:
    port = free_port()
    with program("web_app.py", str(tmp_path), str(port)) as running, connected(port) as client:
        client.sendall(b"POST /first HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\ncount")
        answer = b""
        while b"1 \n" not in answer:
            piece = client.recv(1000)
            assert piece
            answer += piece
        stop(running, signal.SIGTERM)
    assert set(outcomes(tmp_path)) <= {"stopped", "cut"}


def test_ctrl_c_ends_an_agent_of_its_own_while_its_tool_runs(tmp_path: Path) -> None:
    with program("custom_agent.py", str(tmp_path)) as running:
        assert line_of(running) == "I have waited 0.01 s.\n"
        assert line_of(running) == 'wait {"seconds": 100.0}\n'
        assert stop(running, signal.SIGINT) != 0
    assert (tmp_path / "answers").read_text("utf-8") == "0.01\n100\n"
    assert set(outcomes(tmp_path)) - {"answered"} <= {"stopped", "cut"}


@pytest.mark.skipif(find_spec("trio_asyncio") is None, reason="needs the extra asyncio")
def test_ctrl_c_closes_the_sdk_of_an_agent_of_asyncio_on_trio(tmp_path: Path) -> None:
    with program("asyncio_sdk.py", str(tmp_path)) as running:
        assert line_of(running) == "1 \n"
        children = psutil.Process(running.pid).children(recursive=True)
        running.send_signal(signal.SIGINT)
        printed, _ = running.communicate(timeout=PATIENCE)
        assert printed.endswith("closed\n"), "the SDK was closed before the program ended"
        assert psutil.wait_procs(children, timeout=PATIENCE)[1] == []
    assert set(outcomes(tmp_path)) <= {"stopped", "cut"}


SERVERS = [
    pytest.param("uvicorn fastapi_app:app --port {port}", id="uvicorn"),
    pytest.param("hypercorn fastapi_app:app --bind 127.0.0.1:{port}", id="hypercorn"),
    pytest.param("hypercorn fastapi_app:app -k trio --bind 127.0.0.1:{port}", id="hypercorn trio"),
    pytest.param("granian fastapi_app:app --interface asgi --port {port}", id="granian"),
]


@pytest.mark.parametrize("command", SERVERS)
async def test_a_web_server_ends_its_gateway_while_somebody_follows_a_turn(
    command: str, tmp_path: Path
) -> None:
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    async with open_model_server() as model, httpx.AsyncClient(base_url=address, headers=BEARER) as http:
        model.answers(
            Reply().calls("stock", '{"article": "tea"}'), Reply().says("Twelve."), Reply().says("One").hangs()
        )
        of_model = f"{{provider: openai, base_url: '{model.openai_url}', name: m, api_key: k}}"
        (tmp_path / "config.yaml").write_text(f"model: {of_model}\nweb: {{key: {KEY}}}\n", "utf-8")
        name, *arguments = command.format(port=port).split()
        environ = {**os.environ, "BOT_HOME": str(tmp_path)}
        running = await trio.lowlevel.open_process(
            [sys.executable, "-m", name, *arguments], cwd=EXAMPLES, env=environ, stderr=subprocess.DEVNULL
        )
        try:
            with trio.fail_after(PATIENCE):
                await listens(port)
                asked = await http.post("/ask/one", json={"text": "How much tea is there?"}, timeout=PATIENCE)
                assert asked.text == "Twelve."
                assert model.requests[1].body["messages"][-1]["content"] == "12"
                async with http.stream("GET", "/hermes/api/events", timeout=PATIENCE) as events:
                    await http.post("/hermes/api/sessions/two/messages", json={"text": "Go on."})
                    lines = events.aiter_lines()
                    async for line in lines:
                        if '"delta":"One"' in line:
                            break
                    children = psutil.Process(running.pid).children(recursive=True)
                    running.terminate()
                    rest: list[str] = []
                    # Hypercorn does not tell its workers of the signal, and cuts streams after 3 seconds.
                    with suppress(httpx.RemoteProtocolError):
                        rest += [line async for line in lines]
                        assert any('"event":"gateway.ending"' in line for line in rest)
                    assert rest or name == "hypercorn", "cut by the server"
                await running.wait()
            assert psutil.wait_procs(children, timeout=PATIENCE)[1] == []
        finally:
            running.kill()
            await running.wait()  # noqa: ASYNC102 - it was killed
    found = await trio.to_thread.run_sync(outcomes, tmp_path)
    assert found == ["answered", "cut"]


def installed(example: Path, site: Path) -> None:
    """Install a package without its files: what an installer writes about it, for a directory of the path."""
    project = tomllib.loads((example / "pyproject.toml").read_text("utf-8"))["project"]
    about = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (about / "METADATA").write_text(metadata, "utf-8")
    groups = (
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
        for group, points in project["entry-points"].items()
    )
    (about / "entry_points.txt").write_text("".join(groups), "utf-8")


def test_a_gateway_finds_the_platform_of_another_package(tmp_path: Path) -> None:
    home, port = tmp_path / "home", free_port()
    home.mkdir(mode=0o700)
    installed(EXAMPLES / "line_platform", tmp_path / "site")
    platforms = f"{{line: {{port: {port}, allow_from: all}}}}"
    config = f"model: {{provider: demo}}\nweb: {{port: 0}}\nplatforms: {platforms}\n"
    (home / "config.yaml").write_text(config, "utf-8")
    path = os.pathsep.join([str(EXAMPLES / "line_platform"), str(tmp_path / "site"), str(ROOT)])
    environ = environment(home, PYTHONPATH=path)
    with subprocess.Popen([*HERMES, "run"], env=environ, stdout=subprocess.DEVNULL) as running:
        try:
            with connected(port) as person, person.makefile("r", encoding="utf-8") as lines:
                person.sendall(b"good day\n")
                assert lines.readline() == "You said: good day\n"
                person.sendall(b"count to 90\n")
                with closing(sqlite3.connect(home / "gateway.db")) as db:
                    while db.execute("SELECT count(*) FROM turns").fetchone() != (2,):
                        time.sleep(0.05)
                running.terminate()
                assert "shutting down" in lines.read().lower()
            running.wait(PATIENCE)
        finally:
            running.kill()
    first, second = outcomes(home)
    assert (first, second in ("cut", "unstarted")) == ("answered", True)


def free_port() -> int:
    """Return a port on which nobody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port: int = taken.getsockname()[1]
    return port


async def listens(port: int) -> None:
    """Wait until somebody listens."""
    while True:
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
            await trio.sleep(0.05)
        else:
            return await stream.aclose()


def test_the_page_names_each_example() -> None:
    page = (ROOT / "docs/embed/index.md").read_text("utf-8")
    assert [one.name for one in EXAMPLES.iterdir() if f"`examples/{one.name}`" not in page] == []
