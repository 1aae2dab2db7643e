"""A gateway process, killed many times during its work, often while it resumes the turns that the last kill
has cut: every accepted message is answered, none twice unless the answer says so, no process outlives the
gateway, and at the end the database and the journals are consistent.

The moments are random. STORM_SEED repeats the random numbers of an earlier storm (not its timing, which
depends on the machine), STORM_KILLS is the number of kills of the soak test.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
import trio

from hermes_trio.platform.contract import FOR_EVER, Traits
from hermes_trio.testing import LoopbackServer, open_loopback
from tests.host.children.kinds import KINDS, alive, is_dead, token, until
from tests.kill import audit

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL and these commands are POSIX")

CONFIG = """\
agent: {{stuck_after: 1000000}}
display: {{busy_input_mode: queue}}
streaming: {{edit_interval: 0.05}}
terminal: {{sandbox: {sandbox}}}
web: {{port: 0}}
platforms:
  loopback:
    allow_from: all
    port: {port}
    traits: {{edits: true, takes_keys_for: {takes_keys_for}}}
"""
GATEWAY = Path(__file__).parent / "gateway.py"
BUSY, HASTY, IDLE = ("1", "2"), ("3",), ("4", "5")
CHATS = (*BUSY, *HASTY, *IDLE)
"""Chats of people who run commands and wait for answers, who never wait, and who say nothing more."""
REPEATED = "♻ Possibly a repeat:"

PATIENCE = 60.0
"""Seconds until an expected state must be reached, even on a slow machine."""
LONGEST_END = 10.0
"""Seconds after a kill within which every process of the gateway must have ended. The promise is one second
on an idle machine; the measured time is in the report."""
MOST_MEMORY = 150 << 20
SPOOL = (10 << 20) + (64 << 10)


@dataclass
class People:
    """People who send one message after the other while they may, and their accepted messages."""

    server: LoopbackServer
    dice: random.Random
    token: str = field(default_factory=token)
    """The text that all commands of this storm have in their command lines."""
    may_talk: trio.Event = field(default_factory=trio.Event)
    accepted: list[tuple[str, str]] = field(default_factory=list)
    waiting: list[tuple[str, str]] = field(default_factory=list)
    """The accepted messages without an answer."""
    on_the_way: int = 0
    _tools: itertools.count[int] = field(default_factory=lambda: itertools.count(10_000))

    async def talk(self, chat: str) -> None:
        for number in itertools.count(1):
            await self.may_talk.wait()
            said = await self.say(chat, f"thing {number} of chat {chat}.")
            if chat in BUSY:
                await self.server.until(lambda said=said: said not in self.look())  # type: ignore[misc]
            await trio.sleep(self.dice.uniform(0, 0.4))

    async def say(self, chat: str, text: str) -> tuple[str, str]:
        """Send a message, and return when it is accepted."""
        self.on_the_way += 1
        await self.server.says(f"{text}\n{self._tool()}" if chat in BUSY else text, chat=chat)
        self.on_the_way -= 1
        said = chat, text
        self.accepted.append(said)
        self.waiting.append(said)
        return said

    def _tool(self) -> str:
        command = self.dice.choice(list(KINDS.values())).format(t=f"{self.token}{next(self._tools)}")
        return f"{self.dice.uniform(0.1, 0.6):.2f} {command}"

    def look(self) -> list[tuple[str, str]]:
        """Return the accepted messages without an answer."""
        self.waiting = [(chat, text) for chat, text in self.waiting if not self.answers(chat, text)]
        return self.waiting

    def answers(self, chat: str, text: str) -> list[str]:
        """Return the complete answers to a message; an interrupted one says so and does not count."""
        return [
            shown
            for shown in self.server.chat(chat).texts
            if "You said: " in shown and text in shown and not shown.endswith(("(interrupted)", "▉"))
        ]

    def hears(self, chat: str, answer: str | None) -> bool:
        """Return whether this answer has arrived, also as a possible repeat."""
        return answer is not None and any(text.endswith(answer) for text in self.server.chat(chat).texts)

    async def all_answered(self, home: Path) -> None:
        """Stop new messages, and wait until every message is accepted and answered, or is not run again
        by the rules."""
        if self.may_talk.is_set():
            self.may_talk = trio.Event()
        with trio.move_on_after(PATIENCE) as patience:
            while True:
                with trio.move_on_after(0.3):
                    await self.server.until(lambda: not (self.on_the_way or self.look()))
                    return
                alone, told = audit.left_alone(home), audit.told_of_results(home)
                self.waiting = [
                    (chat, text)
                    for chat, text in self.look()
                    if text not in alone and not self.hears(chat, told.get(text))
                ]
        assert not patience.cancelled_caught, f"not answered: {self.on_the_way} and {self.waiting}"


@dataclass
class Figures:
    """The measurements for the report."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    commands: list[int] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)
    repeats: int = 0
    alone: int = 0

    @contextmanager
    def timing(self, what: str) -> Iterator[None]:
        """Measure the duration of the block."""
        start = time.monotonic()
        yield
        self.seconds[what].append(time.monotonic() - start)

    def __str__(self) -> str:
        lines = [
            f"{what}: {statistics.median(took):.2f} s, at worst {max(took):.2f} s; "
            f"{sum(one > 1 for one in took)} of {len(took)} in more than one"
            for what, took in self.seconds.items()
        ]
        return "\n".join(
            (
                *lines,
                f"{sum(map(bool, self.commands))} of {len(self.commands)} kills met commands, "
                f"at most {max(self.commands)} processes",
                f"{max(self.memory) >> 20} MiB at most; {self.repeats} answers marked as repeats; "
                f"{self.alone} messages left alone by the rules",
            )
        )


@dataclass
class Storm:
    """One home, and the gateway processes that use it one after the other."""

    home: Path
    people: People
    figures: Figures = field(default_factory=Figures)
    repeats: dict[str, int] = field(default_factory=dict)
    """The number of messages of each chat so far that say that they may be repeats."""

    @property
    def witness(self) -> Path:
        return self.home.parent / "witness"

    @asynccontextmanager
    async def life(self, *, ours: bool = True) -> AsyncIterator[subprocess.Popen[bytes]]:
        """Run a gateway process, by our program or by the public command; kill it at the end of the block if
        it still runs."""
        program = [str(GATEWAY), str(self.home), str(self.witness)] if ours else ["-m", "hermes_trio", "run"]
        process = subprocess.Popen(
            [sys.executable, *program],
            env={**os.environ, "HERMES_HOME": str(self.home)},
            stdout=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    async def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill the gateway, and assert that all its processes end."""
        assert process.poll() is None, "the gateway must run until it is killed"
        it, figures = psutil.Process(process.pid), self.figures
        figures.commands.append(len(alive(self.people.token)))
        figures.memory.append(it.memory_info().rss)
        family = it.children(recursive=True)
        with figures.timing("after a kill its guard has ended"):
            with figures.timing("after a kill all commands have ended"):
                process.kill()
                process.wait()
                await until(lambda: not alive(self.people.token), LONGEST_END)
            await until(lambda: all(map(is_dead, family)), LONGEST_END)
        assert figures.memory[-1] < MOST_MEMORY
        for spool in self.home.glob("spools/*"):
            assert spool.stat().st_size <= SPOOL
            spool.unlink()  # a thousand of them would fill the disk
        with trio.fail_after(PATIENCE):
            await self.people.server.until(lambda: not self.people.server.connected)
        self._count_repeats()

    def _count_repeats(self) -> None:
        """Assert that a kill, which cuts one send of a chat, causes at most one repeat there."""
        for chat in CHATS:
            repeats = len(self._marked(chat))
            assert repeats <= self.repeats.get(chat, 0) + (not self.people.server.traits.takes_keys_for)
            self.repeats[chat] = repeats

    async def rage(self, kills: int) -> None:
        """Kill the gateway `kills` times, then let the last one end normally."""
        people = self.people
        async with trio.open_nursery() as nursery:
            idle = await self._first_life()
            for chat in (*BUSY, *HASTY):
                nursery.start_soon(people.talk, chat)
            for number in range(kills):
                async with self.life(ours=number % 5 > 0) as process:
                    if people.dice.random() < 0.25:  # at any moment, also while it starts or resumes turns
                        await trio.sleep(people.dice.uniform(0, 1))
                    else:
                        await self._all_well()
                        assert {chat: audit.rows_of(self.home, chat) for chat in IDLE} == idle
                        people.may_talk.set()
                        await trio.sleep(people.dice.uniform(0, 0.8))
                    await self.kill(process)
            async with self.life(ours=False) as process:
                await self._end_in_peace(process)
            nursery.cancel_scope.cancel()
        self._count_repeats()
        assert {chat: audit.rows_of(self.home, chat) for chat in IDLE} == idle
        assert any(self.figures.commands), "some kills happened while commands ran"

    async def _all_well(self) -> None:
        with self.figures.timing("to be up"), trio.fail_after(PATIENCE):
            await self.people.server.until(lambda: self.people.server.connected)
        with self.figures.timing("to have answered"):
            await self.people.all_answered(self.home)

    async def _first_life(self) -> dict[str, audit.Rows]:
        """Play the conversations that are never continued, and return their rows."""
        async with self.life(ours=False) as process:
            for chat in IDLE:
                await self.people.say(chat, f"thing 1 of chat {chat}.")
            await self._end_in_peace(process)
        return {chat: audit.rows_of(self.home, chat) for chat in IDLE}

    async def _end_in_peace(self, process: subprocess.Popen[bytes]) -> None:
        await self._all_well()
        process.send_signal(signal.SIGINT)
        await until(lambda: process.poll() is not None, PATIENCE)
        assert process.returncode == 0

    def check_chats(self) -> None:
        """Check the messages that people see."""
        people, alone = self.people, audit.left_alone(self.home)
        told = audit.told_of_results(self.home)
        for chat, text in people.accepted:
            answers = people.answers(chat, text)
            in_other_words = people.hears(chat, told.get(text))
            assert answers or in_other_words or text in alone, f"{text} is not answered"
            repeats = [one for one in self._marked(chat) if text in one]
            unmarked = [one for one in answers if one not in repeats]
            assert len(unmarked) <= 1 + len(repeats), f"{text} is answered {unmarked}"
        for chat in CHATS:
            dangling = [text for text in people.server.chat(chat).texts if text.endswith("▉")]
            assert not dangling, "no dangling cursor"
        self.figures.repeats, self.figures.alone = sum(self.repeats.values()), len(alone)

    def _marked(self, chat: str) -> list[str]:
        return [text for text in self.people.server.chat(chat).texts if text.startswith(REPEATED)]


async def storm(folder: Path, kills: int, *, takes_keys: bool, sandbox: str) -> str:
    """Run a storm, check its results, and return the measurements."""
    seed = int(os.environ.get("STORM_SEED") or time.time_ns() % 10**9)
    print(f"STORM_SEED={seed}")  # shown if this fails
    home = folder / "home"
    home.mkdir()
    async with open_loopback(
        traits=Traits(edits=True, takes_keys_for=FOR_EVER if takes_keys else 0)
    ) as server:
        config = CONFIG.format(
            port=server.port, takes_keys_for=1_000_000_000 if takes_keys else 0, sandbox=sandbox
        )
        (home / "config.yaml").write_text(config)
        it = Storm(home, People(server, random.Random(seed)))  # noqa: S311 - moments, not secrets
        await it.rage(kills)
    assert len(it.people.accepted) > kills, "the gateway did work between the kills"
    audit.check(home, it.witness, {text for _, text in it.people.accepted})
    it.check_chats()
    return f"STORM_SEED={seed}\n{it.figures}"


kinds = pytest.mark.parametrize(
    ("takes_keys", "sandbox"), [(True, "bubblewrap"), (False, "landlock"), (True, "off")]
)
"""Platforms that take keys and that do not, and every sandbox of commands."""


@kinds
@pytest.mark.timeout(900)
async def test_thirty_kills_of_the_gateway_lose_and_repeat_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], takes_keys: bool, sandbox: str
) -> None:
    report = await storm(tmp_path, kills=30, takes_keys=takes_keys, sandbox=sandbox)
    with capsys.disabled():
        print(f"\n{report}")


@kinds
@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_a_thousand_kills_of_the_gateway_lose_and_repeat_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], takes_keys: bool, sandbox: str
) -> None:
    kills = int(os.environ.get("STORM_KILLS", "1000"))
    report = await storm(tmp_path, kills=kills, takes_keys=takes_keys, sandbox=sandbox)
    with capsys.disabled():
        print(f"\n{report}")
