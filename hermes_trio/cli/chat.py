"""`hermes-trio chat`: a gateway in this terminal, with one person in it."""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

import click
import msgspec
import trio

from .. import __version__
from ..agent.agent import open_agent
from ..config import GatewayConfig, PlatformConfig
from ..config_file import Loaded, home_directory
from ..errors import GatewayError
from ..gateway.control import Control
from ..gateway.ending import Cause, Ending, Supervisor, consequences
from ..gateway.gateway import Gateway
from ..gateway.outside import signals_we_know, watch_drain_request
from ..gateway.serve import serve
from ..host.home import refuse_if_busy
from ..host.tasks import show_tree_when_asked, waits_noted
from ..state.turns import Outcome
from ..world import World
from .config import load_and_warn, whereabouts
from .console import GROWING, Console, terminal
from .logs import log_to_file


@click.command()
def command() -> None:
    """Talk to the agent in this terminal."""
    if sys.stdin is None or sys.stdout is None:
        raise GatewayError("There is no terminal here: standard input or standard output is closed.")
    home = home_directory(os.environ)
    loaded = load_and_warn()
    refuse_if_busy(home)
    with log_to_file(home, loaded.config, loaded.environ):
        click.echo(f"hermes-trio {__version__}, {whereabouts(loaded)}")
        click.echo("/help lists commands, Ctrl-C stops an answer, Ctrl-D leaves.")
        ending = trio.run(_chat, home, replace(loaded, config=_for_a_terminal(loaded.config)))
    if ending is not None and ending.kind == "restart":
        from .run import leave  # here: it brings the web along

        leave(consequences(ending, Supervisor.NONE).exit)


def _for_a_terminal(config: GatewayConfig) -> GatewayConfig:
    """The same configuration with nobody in it but who sits here."""
    streaming = msgspec.structs.replace(config.streaming, edit_interval=0.03, cursor=GROWING)
    return msgspec.structs.replace(
        config, streaming=streaming, platforms={Console.name: PlatformConfig(allow_from="all")}
    )


async def _chat(home: Path, loaded: Loaded) -> Ending | None:
    control, world = Control(), World()
    agent = open_agent(loaded, loaded.environ, world, tell=click.echo)

    def leave() -> None:
        control.ask(Ending(Cause.PLANNED, grace=0, asked_by="terminal"))

    with trio.open_signal_receiver(*signals_we_know()) as signals, waits_noted() as waits:
        async with trio.open_nursery() as nursery:
            await nursery.start(watch_drain_request, control, home, world)
            await nursery.start(show_tree_when_asked, home, world, waits)

            async def serving(task_status: trio.TaskStatus[Gateway]) -> None:
                console = terminal(leave, world.new_id)
                await serve(
                    home,
                    loaded.config,
                    agent=agent,
                    adapters=[console],
                    control=control,
                    world=world,
                    task_status=task_status,
                )
                nursery.cancel_scope.cancel(reason="the gateway has ended")

            gateway = await nursery.start(serving)
            async for number in signals:
                tasks = [actor.task for actor in gateway.sessions.running if actor.task is not None]
                if signal.Signals(number).name == "SIGUSR1":
                    grace = loaded.config.agent.restart_drain_timeout
                    control.ask(Ending(Cause.RESTART, grace, asked_by="SIGUSR1"))
                elif number == signal.SIGTERM or not tasks:
                    leave()
                else:  # Ctrl-C stops what runs; with nothing to stop, it leaves
                    for task in tasks:
                        task.end(Outcome.STOPPED)
    click.echo()
    return control.current
