"""The gateway as a process, killed again and again in the middle of its work: every message it accepted
is answered, and none of them twice."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import trio

from hermes_trio.platform import Traits
from hermes_trio.testing import LoopbackServer, open_loopback

CONFIG = """\
agent: {{stuck_after: 1000}}
display: {{busy_input_mode: queue}}
streaming: {{edit_interval: 0.05}}
platforms:
  loopback:
    allow_from: all
    port: {port}
    traits: {{edits: true, takes_keys: true}}
"""
CHATS = ("1", "2", "3")


@asynccontextmanager
async def living(home: Path) -> AsyncIterator[subprocess.Popen[bytes]]:
    """A life of the gateway, killed at the end of the block; nothing of it is alive then."""
    environ = {**os.environ, "HERMES_HOME": str(home)}
    process = subprocess.Popen(
        [sys.executable, "-m", "hermes_trio", "run"], env=environ, stdout=subprocess.DEVNULL
    )
    try:
        yield process
        assert process.poll() is None, "it must live until it is killed"
    finally:
        family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        process.wait()
        _, left = psutil.wait_procs(family, timeout=1)
        assert [one for one in left if is_alive(one)] == []


def is_alive(process: psutil.Process) -> bool:
    """The dead whose new parent has not looked yet are dead."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@dataclass
class Traffic:
    """People who say one thing after the other while they may, and what of it was accepted."""

    server: LoopbackServer
    dice: random.Random
    may_talk: trio.Event = field(default_factory=trio.Event)
    accepted: list[tuple[str, str]] = field(default_factory=list)
    on_the_way: int = 0

    async def talk(self, chat: str) -> None:
        for number in itertools.count(1):
            await self.may_talk.wait()
            text = f"thing {number} of chat {chat}."
            self.on_the_way += 1
            await self.server.says(text, chat=chat)
            self.on_the_way -= 1
            self.accepted.append((chat, text))
            await trio.sleep(self.dice.uniform(0, 0.4))

    async def all_answered(self) -> None:
        """Wait until everything that was said is accepted and answered. Nobody talks meanwhile: a turn
        that is cut a second time before it has said anything is, on purpose, not run again by itself."""
        self.may_talk = trio.Event()
        with trio.fail_after(30):
            await self.server.until(
                lambda: (
                    not self.on_the_way
                    and all(answers(self.server, chat)[text] for chat, text in self.accepted)
                )
            )


async def storm(home: Path, kills: int, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - moments, not secrets
    home.mkdir()
    async with open_loopback(traits=Traits(edits=True, takes_keys=True)) as server:
        (home / "config.yaml").write_text(CONFIG.format(port=server.port))
        traffic = Traffic(server, dice)
        async with trio.open_nursery() as nursery:
            for chat in CHATS:
                nursery.start_soon(traffic.talk, chat)
            for _ in range(kills):
                async with living(home):
                    await traffic.all_answered()
                    traffic.may_talk.set()
                    await trio.sleep(dice.uniform(0, 0.8))
            async with living(home):
                await traffic.all_answered()
            nursery.cancel_scope.cancel()
    assert len(traffic.accepted) > kills, "the storm did hit work"
    for chat in CHATS:
        said = [text for where, text in traffic.accepted if where == chat]
        found = answers(server, chat)
        assert {text: found[text] for text in said} == dict.fromkeys(said, 1)
        assert not any(text.endswith("▉") for text in server.chat(chat).texts), "no dangling cursor"


def answers(server: LoopbackServer, chat: str) -> Counter[str]:
    """How often each thing was answered. What was cut says so, and is no answer."""
    found: Counter[str] = Counter()
    for text in server.chat(chat).texts:
        _, said, what = text.partition("You said: ")
        if said and not text.endswith(("(interrupted)", "▉")):
            found[what] += 1
    return found


@pytest.mark.timeout(240)
async def test_thirty_kills_of_the_gateway_lose_and_repeat_nothing(tmp_path: Path) -> None:
    await storm(tmp_path / "home", kills=30, seed=20260520)


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_a_thousand_kills_of_the_gateway_lose_and_repeat_nothing(tmp_path: Path) -> None:
    await storm(tmp_path / "home", kills=1000, seed=20261118)
