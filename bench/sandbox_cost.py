"""The cost of the sandbox: the time of a command and of a background process in each sandbox of this machine,
beside the time without one.

Three gateways run in this process, one for each sandbox and one without. In each round every one of them runs
the same command in a turn of its own, one after the other, so that noise of the machine affects all. The bare
limit is the gateway without a sandbox. The work directory is a small project with 200 files.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Literal

import trio

from hermes_trio import GatewayConfig, PlatformConfig, open_gateway
from hermes_trio.config.schema import TerminalConfig
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import MemoryPlatform
from hermes_trio.tools.sandbox.available import reason_against
from hermes_trio.tools.sandbox.session_sandbox import SandboxKind

from .figures import Figure, at_most, show

ROUNDS = 40
MOST_ADDED = 25.0
"""Milliseconds that a sandbox may add to a command."""
PATIENCE = 60.0
Sandbox = Literal["bubblewrap", "landlock", "off"]
CONFINED: tuple[Sandbox, ...] = ("bubblewrap", "landlock")


class CommandTimer:
    """A gateway whose agent runs one command, or one background process, for each message."""

    def __init__(self, sandbox: Sandbox, folder: Path) -> None:
        self.sandbox, self.folder = sandbox, folder
        self.platform = MemoryPlatform()
        self.took: dict[str, list[float]] = {"command": [], "background process": []}

    async def __call__(self, turn: TurnContext) -> str:
        await turn.requesting()
        what, begun = turn.said[0].text, time.perf_counter()
        if what == "command":
            async with turn.running("true") as process:
                await process.wait()
        else:
            background = await turn.start_background("true")
            await background.over.wait()
        self.took[what].append(time.perf_counter() - begun)
        return f"{what} {len(self.took[what])}"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Run the gateway for as long as the block."""
        work = self.folder / "work"
        _make_project(work)
        config = GatewayConfig(
            platforms={"memory": PlatformConfig(allow_from="all")},
            terminal=TerminalConfig(cwd=str(work), sandbox=self.sandbox),
        )
        async with open_gateway(self.folder / "home", config, agent=self, adapters=[self.platform]):
            yield

    async def measure(self, what: str) -> None:
        """Run one command in a turn, and wait for the answer."""
        answer = f"{what} {len(self.took[what]) + 1}"
        with trio.fail_after(PATIENCE):
            await self.platform.says(what)
            await self.platform.until(lambda: self.platform.chat("42").last == answer)


def main() -> int:
    """Measure and print the figures; takes about half a minute."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        runners = trio.run(_measured, Path(name))
    figures: list[Figure] = []
    bare = runners["off"]
    for what in bare.took:
        limit = median(bare.took[what]) * 1000
        for sandbox, runner in runners.items():
            if sandbox != "off":
                added = median(
                    mine - free for mine, free in zip(runner.took[what], bare.took[what], strict=True)
                )
                figures.append(
                    at_most(f"{sandbox}: added to a {what}", added * 1000, "ms", MOST_ADDED, bare=limit)
                )
    show("sandbox", figures)
    return 0


async def _measured(folder: Path) -> dict[Sandbox, CommandTimer]:
    runners: dict[Sandbox, CommandTimer] = {}
    async with AsyncExitStack() as open_gateways:
        for sandbox in _sandboxes():
            runners[sandbox] = CommandTimer(sandbox, folder / sandbox)
            await open_gateways.enter_async_context(runners[sandbox].open())
        for _ in range(ROUNDS):
            for what in ("command", "background process"):
                for runner in runners.values():
                    await runner.measure(what)
    return runners


def _sandboxes() -> list[Sandbox]:
    """Return the sandboxes of this machine, and none."""
    refused = {one: reason_against(SandboxKind(one)) for one in CONFINED}
    for one, why in refused.items():
        if why:
            print(f"{one} is left out: {why}")
    return [*(one for one in CONFINED if not refused[one]), "off"]


def _make_project(work: Path) -> None:
    (work / ".git" / "hooks").mkdir(parents=True)
    for number in range(200):
        folder = work / f"package{number % 10}"
        folder.mkdir(exist_ok=True)
        (folder / f"module{number}.py").write_text("pass\n")
