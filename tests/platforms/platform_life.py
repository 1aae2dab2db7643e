"""A gateway with one adapter, and a link alone, for the stories of a platform."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from hermes_trio.config.schema import GatewayConfig, PlatformConfig, StreamingConfig
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.platform import Adapter, MessageEvent
from hermes_trio.testing import Stage
from hermes_trio.testing.laws.receiving import receiving
from hermes_trio.tools.tool import Approval
from tests.stage import Agent, no_guard


class Allows(Agent):
    """An agent that asks for the approval of a command."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self.command = command

    async def __call__(self, turn: TurnContext) -> str:
        await turn.requesting()
        await turn.may(Approval(self.command, "||It hides||", "/srv/a*b"))
        return "Done."


@asynccontextmanager
async def life(home: Path, bot: Adapter, agent: Agent) -> AsyncIterator[RunningGateway]:
    """Run a gateway with one bot for the block, then stop it when no turn runs."""
    config = GatewayConfig(
        platforms={bot.name: PlatformConfig(allow_from="all", allow_admin_from=("42",))},
        streaming=StreamingConfig(edit_interval=0.05),
    )
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[RunningGateway]) -> None:
            setup = Setup(home, config, agent=agent, adapters=[bot], guarded=no_guard)
            await serve(setup, task_status=task_status)

        gateway = await nursery.start(run)
        yield gateway
        while gateway.work.running:  # noqa: ASYNC110
            await trio.sleep(0.01)
        gateway.stop(grace=0, asked_by="the test")


async def heard_while(bot: Adapter, act: Callable[[], object], stage: Stage, last: str) -> list[str]:
    """Return the texts that a link hears until `last`. `act` is called after the first one is stored."""
    heard: list[MessageEvent] = []
    async with bot.connect() as link, trio.open_nursery() as nursery:
        nursery.start_soon(receiving, link, heard)
        await stage.says("before")
        act()
        await until_heard(heard, last)
        nursery.cancel_scope.cancel()
    return [one.text for one in heard]


async def until_heard(heard: list[MessageEvent], text: str) -> None:
    """Wait until an event has this text."""
    while not any(one.text == text for one in heard):  # noqa: ASYNC110
        await trio.sleep(0.01)
