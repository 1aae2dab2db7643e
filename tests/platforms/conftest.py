"""Every platform there is: the adapter under test, and the stage with the people behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.webhook import Webhook
from hermes_trio.platform import Adapter, Traits
from hermes_trio.testing import BotApi, LoopbackAdapter, MemoryPlatform, open_bot_api, open_loopback
from hermes_trio.testing.stage import Stage

SECRET = "simulated-secret-of-nobody"
ALL_OF_IT = Traits(edits=True, typing=True, deletes=True, buttons=True)
GENEROUSLY = 45.0
"""Seconds for a story on the real clock, on a machine that has much else to do."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform: what the gateway has of it, and what its people see."""

    adapter: Adapter
    stage: Stage


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where locks of this machine's processes are, for this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
async def telegram(state_home: Path) -> AsyncIterator[BotApi]:
    async with open_bot_api() as server:
        with trio.fail_after(GENEROUSLY):
            yield server


@pytest.fixture
def bot(telegram: BotApi) -> TelegramAdapter:
    return TelegramAdapter(telegram.token, base_url=telegram.base_url)


@pytest.fixture(params=["memory", "loopback", "telegram", "webhook"])
async def platform(request: pytest.FixtureRequest, state_home: Path) -> AsyncIterator[Platform]:
    with trio.fail_after(GENEROUSLY):
        if request.param == "memory":
            memory = MemoryPlatform(traits=ALL_OF_IT)
            yield Platform(memory, memory)
        elif request.param == "loopback":
            async with open_loopback(traits=ALL_OF_IT) as server:
                yield Platform(LoopbackAdapter(server.port, traits=ALL_OF_IT), server)
        else:
            hook = await free_webhook() if request.param == "webhook" else None
            async with open_bot_api() as api:
                yield Platform(TelegramAdapter(api.token, base_url=api.base_url, webhook=hook), api)


async def free_webhook() -> Webhook:
    """A webhook on a port of this machine that nobody uses."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        port = listener.socket.getsockname()[1]
    return Webhook(f"http://127.0.0.1:{port}/telegram", SECRET, "127.0.0.1", port, "/telegram")
