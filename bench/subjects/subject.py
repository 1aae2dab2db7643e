"""A program that is compared, and one life of it as a process.

Each program offers the chat completions of OpenAI on a port of this machine and asks a model on another one.
To add a program, write a subclass of `Subject`, as docs/change/benchmarks.md says.
"""

from __future__ import annotations

import http.client
import json
import os
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
class Program:
    """A program as it is started."""

    command: Sequence[str]
    environ: Mapping[str, str] = field(default_factory=dict)


class Subject(ABC):
    """A program that is compared."""

    name: str
    ready_path = "/health"
    uncut = ""
    """The reason if the program cannot be made to cut turns."""
    settings = ""
    """Settings that were changed in its favour."""
    stores = True
    """False if it is expected to remember nothing."""

    def prepare(self) -> str:
        """Install the program if it is not, and return its version. Raises `Unavailable`."""
        return ""

    @abstractmethod
    def program(self, home: Path, port: int, model: int, grace: float) -> Program:
        """Write the configuration into a new or used home, and return the program. It serves on `port`, asks
        the model on that port, and lets turns end for `grace` seconds when it is stopped."""

    def headers(self, session: str) -> Mapping[str, str]:
        """Return the headers of a request in this session."""
        return {}

    def body(self, session: str) -> Mapping[str, Any]:
        """Return what the body of a request in this session has beside its messages."""
        return {}

    def request(self, session: str, text: str) -> bytes:
        """Return a request for an answer as a stream."""
        asked = {"model": "bench", "stream": True, "messages": [{"role": "user", "content": text}]}
        body = json.dumps({**asked, **self.body(session)}).encode()
        lines = [
            f"POST {COMPLETIONS} HTTP/1.1",
            *("Host: 127.0.0.1", f"Authorization: Bearer {KEY}", "Content-Type: application/json"),
            *(f"{name}: {value}" for name, value in self.headers(session).items()),
            f"Content-Length: {len(body)}",
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body

    @contextmanager
    def home(self) -> Iterator[Path]:
        """Make an empty home for the block."""
        with tempfile.TemporaryDirectory(prefix=f"bench-{self.name}-") as name:
            yield Path(name)

    @contextmanager
    def life(self, home: Path, model: int, grace: float) -> Iterator[Life]:
        """Run the program from its readiness on, for the block. Raises `Unavailable`."""
        port, marker = free_port(), uuid.uuid4().hex
        program = self.program(home, port, model, grace)
        environ = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environ |= {**QUIET, "HOME": str(home), MARKER: marker, **program.environ}
        with (home / "bench-output.txt").open("ab") as output:
            began = time.monotonic()
            process = subprocess.Popen(
                program.command,
                cwd=home,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                _wait_until_ready(process, port, self.ready_path, home)
                yield Life(self, process, port, marker, time.monotonic() - began)
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
    process: subprocess.Popen[bytes]
    port: int
    marker: str
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
    found = []
    for one in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if one.environ().get(MARKER) == marker and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found
