"""The programs in `examples/`: each is stopped in the middle of a turn by the means of its host, ends its
turn, and leaves no process behind."""

from __future__ import annotations

import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from hermes_trio import blocking
from tests.stage import Agent

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PATIENCE = 30.0

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
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    with program("web_app.py", str(tmp_path), str(port)) as running, connected(port) as client:
        client.sendall(b"POST /first HTTP/1.1\r\nHost: here\r\nContent-Length: 5\r\n\r\ncount")
        answer = b""
        while b"1 \n" not in answer:
            piece = client.recv(1000)
            assert piece
            answer += piece
        stop(running, signal.SIGTERM)
    assert set(outcomes(tmp_path)) <= {"stopped", "cut"}


def test_the_page_names_each_example() -> None:
    page = (ROOT / "docs/embed/index.md").read_text("utf-8")
    assert [one.name for one in EXAMPLES.glob("*.py") if f"`examples/{one.name}`" not in page] == []
