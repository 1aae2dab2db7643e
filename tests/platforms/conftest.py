"""Every platform there is: the adapter under test, and the stage with the people behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_trio.platform import Adapter, Traits
from hermes_trio.testing import BotApi, LoopbackAdapter, MemoryPlatform, open_bot_api, open_loopback
from hermes_trio.testing.stage import Stage

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


@pytest.fixture(params=["memory", "loopback", "telegram"])
async def platform(request: pytest.FixtureRequest, state_home: Path) -> AsyncIterator[Platform]:
    with trio.fail_after(GENEROUSLY):
        if request.param == "memory":
            memory = MemoryPlatform(traits=Traits(edits=True, typing=True, deletes=True))
            yield Platform(memory, memory)
        elif request.param == "loopback":
            traits = Traits(edits=True, typing=True, deletes=True)
            async with open_loopback(traits=traits) as server:
                yield Platform(LoopbackAdapter(server.port, traits=traits), server)
        else:
            async with open_bot_api() as api:
                yield Platform(TelegramAdapter(api.token, base_url=api.base_url), api)
