"""The heartbeat for a watcher outside, through a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pytest
import trio
from trio.testing import MockClock

from hermes_trio.config.heartbeat_section import HeartbeatConfig
from hermes_trio.testing import Script
from tests.stage import Stage, settled

PATH = "/ping/5f2c"


@dataclass
class Watcher:
    """A server that notes the signs it gets."""

    status: int = 200
    got: list[str] = field(default_factory=list)
    url: str = ""

    async def serve(self, stream: trio.SocketStream) -> None:
        async with stream:
            head = await stream.receive_some(65536)
            self.got.append(head.decode().split(" HTTP/")[0])
            await stream.send_all(f"HTTP/1.1 {self.status} Said\r\ncontent-length: 0\r\n\r\n".encode())

    async def reaches(self, number: int) -> None:
        """Wait until so many signs have come."""
        await until(lambda: len(self.got) >= number)


async def until(is_true: Callable[[], bool]) -> None:
    """Wait until something is true; the virtual clock stands still meanwhile."""
    for _ in range(2000):
        if is_true():
            return
        await trio.testing.wait_all_tasks_blocked(0.005)
    raise AssertionError("it did not happen")


@asynccontextmanager
async def watching(stage: Stage) -> AsyncIterator[Watcher]:
    """Run a watcher to which the gateway of a stage sends signs."""
    async with trio.open_nursery() as nursery:
        watcher = Watcher()
        listeners = await nursery.start(partial(trio.serve_tcp, watcher.serve, 0, host="127.0.0.1"))
        watcher.url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}{PATH}"
        heartbeat = HeartbeatConfig(url=watcher.url, every_seconds=60)
        stage.config = msgspec.structs.replace(stage.config, heartbeat=heartbeat)
        yield watcher
        nursery.cancel_scope.cancel()


async def test_a_watcher_gets_a_sign_at_the_start_and_in_intervals(
    real_stage: Stage, mock_clock: MockClock
) -> None:
    async with watching(real_stage) as watcher, real_stage.life():
        await watcher.reaches(1)
        mock_clock.jump(59)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(watcher.got) == 1
        mock_clock.jump(1)
        await watcher.reaches(2)
        assert set(watcher.got) == {f"GET {PATH}"}


async def test_no_sign_is_sent_while_the_gateway_drains(real_stage: Stage, mock_clock: MockClock) -> None:
    async with watching(real_stage) as watcher, real_stage.life() as gateway:
        await watcher.reaches(1)
        real_stage.agent.on("long work", Script().takes(100).says("done"))
        await real_stage.says("long work")
        gateway.stop(grace=500)
        await settled()
        mock_clock.jump(61)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(watcher.got) == 1
        mock_clock.jump(100)


async def test_a_failure_is_logged_once_without_the_address_and_its_end_too(
    real_stage: Stage, mock_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with watching(real_stage) as watcher, real_stage.life():
        watcher.status = 503
        await watcher.reaches(1)
        for number in (2, 3):
            mock_clock.jump(60)
            await watcher.reaches(number)
        watcher.status = 200
        mock_clock.jump(60)
        await until(lambda: "heartbeat sent again" in caplog.text)
        assert caplog.text.count("heartbeat not sent") == 1
        assert PATH not in caplog.text
