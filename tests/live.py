"""A gateway that hands over to successors, real processes one after the other, and its clients."""

from __future__ import annotations

import math
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import trio

from hermes_trio.base.pulse import Pulse
from hermes_trio.host.home.state_file import Status, read_status
from tests.machine import PATIENCE, UP, Life, environment, living


@dataclass(frozen=True)
class Successions:
    """A gateway and its successors."""

    home: Path
    first: Life
    environ: dict[str, str]
    address: str

    @property
    def key(self) -> dict[str, str]:
        """The header with the key of the API."""
        return {"Authorization": f"Bearer {(self.home / 'web.key').read_text().strip()}"}

    async def restart(self, **more: float) -> httpx.Response:
        """Request a live restart. The answer comes when the successor is ready, or has failed."""
        body = {"live": True, "ready_within": PATIENCE, **more}
        async with httpx.AsyncClient(timeout=PATIENCE, headers=self.key) as client:
            return await client.post(f"{self.address}/api/admin/restart", json=body)

    async def served_by(self, pid: int) -> Status:
        """Wait until this process is the gateway, and serves."""
        return await self.first.until(lambda status: status.pid == pid and status.gateway_state in UP)


@asynccontextmanager
async def succeeding(home: Path, environ: dict[str, str] | None = None) -> AsyncIterator[Successions]:
    """Run a gateway during the block. The process that has the home at its end is killed."""
    environ = environ or environment(home)
    async with living(home, environ=environ) as life:
        status = await life.up()
        try:
            yield Successions(home, life, environ, status.web or "")
        finally:
            if (last := read_status(home)) is not None:
                with suppress(ProcessLookupError):
                    os.kill(last.pid, signal.SIGKILL)


@dataclass
class Manager:
    """A service manager: the lines of the notifications that it has received."""

    lines: list[str] = field(default_factory=list)
    changed: Pulse = field(default_factory=Pulse)

    async def listen(self, address: Path, *, task_status: trio.TaskStatus[None]) -> None:
        """Receive notifications until cancelled."""
        with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            await manager.bind(str(address))
            task_status.started()
            while True:
                self.lines += (await manager.recv(4096)).decode().split("\n")
                self.changed.set()

    async def named_ready(self, times: int) -> list[str]:
        """Wait for this many processes that are ready. Return their notifications, and which is the main
        one."""
        with trio.fail_after(PATIENCE):
            while self.lines.count("READY=1") < times:
                await self.changed.wait()
        return [line for line in self.lines if line == "READY=1" or line.startswith("MAINPID=")]


@dataclass
class Visits:
    """Requests of a client that opens a connection for each."""

    answers: list[str] = field(default_factory=list)
    """The beginning of each answer, or the error."""
    longest: float = 0.0
    """Seconds of the longest one."""

    async def go_on(self, address: str) -> None:
        """Ask again and again."""
        netloc = urlsplit(address).netloc
        host, _, port = netloc.partition(":")
        request = f"GET /health HTTP/1.1\r\nHost: {netloc}\r\nConnection: close\r\n\r\n".encode()
        while True:
            began = trio.current_time()
            try:
                async with await trio.open_tcp_stream(host, int(port)) as client:
                    await client.send_all(request)
                    head = (await client.receive_some(4096)).decode()
                    self.answers.append(head[:13] or "closed")
            except (OSError, trio.BrokenResourceError) as error:
                self.answers.append(repr(error))
            self.longest = max(self.longest, trio.current_time() - began)
            await trio.sleep(0.002)  # the gateway needs the processor too


@dataclass
class Follower:
    """A client of the stream of all events, which connects again when the stream ends."""

    completed: list[str] = field(default_factory=list)
    """The runs whose end it was told, each as often as it was."""
    longest: float = 0.0
    """Seconds of the longest time without a stream."""
    changed: Pulse = field(default_factory=Pulse)
    """Set when a run is completed."""
    _last_id: str = ""

    async def go_on(self, address: str, key: dict[str, str]) -> None:
        """Follow the events until cancelled."""
        left = math.inf
        async with httpx.AsyncClient(timeout=PATIENCE, headers=key) as client:
            while True:
                with suppress(httpx.TransportError):
                    headers = {"Last-Event-ID": self._last_id} if self._last_id else {}
                    async with client.stream("GET", f"{address}/api/events", headers=headers) as stream:
                        self.longest = max(self.longest, trio.current_time() - left)
                        async for line in stream.aiter_lines():
                            self._take(line)
                left = trio.current_time()

    def _take(self, line: str) -> None:
        name, _, value = line.partition(": ")
        if name == "id":
            self._last_id = value
        elif name == "data":
            event = msgspec.json.decode(value)
            if event.get("event") == "run.completed":
                self.completed.append(event["run_id"])
                self.changed.set()
