"""A program that is compared, and one life of it as a process.

Each program offers the chat completions of OpenAI on a port of this machine and asks a model on another one.
To add a program, write a subclass of `Subject`, as docs/change/benchmarks.md says.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

KEY = "a-key-for-the-bench-0123456789abcdef"
COMPLETIONS = "/v1/chat/completions"
READY_WITHIN = 90.0
MARKER = "HERMES_BENCH_LIFE"
LOOK_EVERY = 0.01
QUIET = {
    "DO_NOT_TRACK": "1",
    "NO_COLOR": "1",
    "NO_UPDATE_NOTIFIER": "1",
    "PYTHONUNBUFFERED": "1",
}
"""Variables that keep programs from telling others of themselves."""
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR")


class Unavailable(Exception):
    """A program that cannot be installed or started here; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a program is to be started."""

    home: Path
    """Its own directory, new or used."""
    port: int
    """Where it serves."""
    model: int
    """The port of its model."""
    grace: float
    """The seconds for which turns may go on when it is stopped."""
    telegram: int | None = None
    """The port of the chat platform that it connects to; None for none."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program as it is started."""

    command: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict)


class Subject(ABC):
    """A program that is compared."""

    name: str
    ready_path = "/health"
    cannot: Mapping[str, str] = {}
    """Abilities that the program lacks, each with the reason: `cut`, `tools`, `platform`."""
    tool = "terminal command"
    """Its tool for commands, and the argument that takes the command."""
    settings = ""
    """Settings that were changed in its favour."""
    stores = True
    """False if it is expected to remember nothing."""

    def prepare(self) -> str:
        """Install the program if it is not, and return its version. Raises `Unavailable`."""
        return ""

    @abstractmethod
    def program(self, start: Start) -> Program:
        """Write the configuration into the home, and return the program."""

    def headers(self, session: str) -> Mapping[str, str]:
        """Return the headers of a request in this session."""
        return {}

    def body(self, session: str) -> Mapping[str, Any]:
        """Return what the body of a request in this session has beside its messages."""
        return {}

    def run_body(self, session: str, text: str) -> Mapping[str, Any] | None:
        """Return the body that begins a run at `/v1/runs`, which `/v1/runs/ID/stop` stops. None means that
        there is no such thing, and a turn is stopped by closing the connection of its client."""
        return None

    def phases(self, home: Path) -> Mapping[str, float]:
        """Return the milliseconds from the request of a stop to the end of each phase, if it reports them."""
        return {}

    def request(self, session: str, text: str) -> bytes:
        """Return a request for an answer as a stream."""
        asked = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": text}]}
        return post(COMPLETIONS, {**asked, **self.body(session)}, self.headers(session))

    @contextmanager
    def home(self) -> Iterator[Path]:
        """Make an empty home for the block."""
        with tempfile.TemporaryDirectory(prefix=f"bench-{self.name}-") as name:
            yield Path(name)

    @contextmanager
    def life(
        self,
        home: Path,
        model: int,
        grace: float,
        *,
        telegram: int | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Iterator[Life]:
        """Run the program from its readiness on, for the block. Raises `Unavailable`."""
        port, marker = free_port(), str(uuid.uuid4().int)[:15]
        program = self.program(Start(home, port, model, grace, telegram))
        variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        variables |= {**QUIET, "HOME": str(home), MARKER: marker, **program.environ, **(environ or {})}
        with (home / "bench-output.txt").open("ab") as output:
            began = time.monotonic()
            process = subprocess.Popen(
                program.command,
                cwd=home,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                _wait_until_ready(process, port, self.ready_path, home)
                yield Life(self, home, process, port, marker, began, time.monotonic() - began)
            finally:
                process.kill()
                process.wait()
                for one in _marked(marker):
                    with suppress(psutil.Error):
                        one.kill()


@dataclass(frozen=True, slots=True)
class Life:
    """A program that runs and is ready."""

    subject: Subject
    home: Path
    process: subprocess.Popen[bytes]
    port: int
    marker: str
    began: float
    """The time of its start, on the monotonic clock."""
    started_in: float
    """Seconds from its start until it was ready."""

    @property
    def pid(self) -> int:
        """Its process."""
        return self.process.pid

    def stop(self) -> None:
        """Ask it to end."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()

    def children(self) -> list[str]:
        """Return the names of the processes that came of it and run, without itself."""
        return [one.name() for one in _marked(self.marker) if one.pid != self.pid]

    def command_number(self, number: int) -> str:
        """Return a number for a command of its tools; it stands in the arguments of each of its processes,
        because a program may start commands with variables of its own choice."""
        return f"0.{self.marker}{number:04}"

    def commands(self) -> set[str]:
        """Return the numbers of the commands that run."""
        of_this = re.compile(rf"\x000\.{self.marker}\d{{4}}\x00".encode())
        return {found.decode()[1:-1] for line in _command_lines() for found in of_this.findall(line)}

    def tree(self) -> list[psutil.Process]:
        """Return itself and its descendants."""
        itself = psutil.Process(self.pid)
        return [itself, *itself.children(recursive=True)]


def post(path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> bytes:
    """Return a request with a body."""
    data = json.dumps(body).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        *("Host: 127.0.0.1", f"Authorization: Bearer {KEY}", "Content-Type: application/json"),
        *(f"{name}: {value}" for name, value in (headers or {}).items()),
        f"Content-Length: {len(data)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def free_port() -> int:
    """Return a port of this machine that is free."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
    return port


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, path: str, home: Path) -> None:
    until = time.monotonic() + READY_WITHIN
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError, http.client.HTTPException):
            asking = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            try:
                asking.request("GET", path, headers={"Authorization": f"Bearer {KEY}"})
                if asking.getresponse().status == 200:
                    return
            finally:
                asking.close()
        time.sleep(LOOK_EVERY)
    said = (home / "bench-output.txt").read_bytes()[-2000:].decode("utf-8", "replace")
    raise Unavailable(f"it is not ready after {READY_WITHIN:g} s. It wrote:\n{said}")


def _marked(marker: str) -> list[psutil.Process]:
    """Return the processes with the marker in their environment or in their arguments."""
    found = []
    for one in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if one.status() != psutil.STATUS_ZOMBIE and _has_marker(one, marker):
                found.append(one)
    return found


def _has_marker(one: psutil.Process, marker: str) -> bool:
    if any(marker in argument for argument in one.cmdline()):
        return True
    named: str | None = one.environ().get(MARKER)
    return named == marker


def _command_lines() -> Iterator[bytes]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            yield path.read_bytes()
