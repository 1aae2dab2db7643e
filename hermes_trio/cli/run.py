"""`hermes-trio run`: the gateway, until it is asked to end."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click
import structlog
import trio

from .. import __version__
from ..agent.demo import demo
from ..config import GatewayConfig
from ..config_file import home_directory
from ..errors import EXIT_CONFIG, EXIT_FAILURE
from ..gateway.adapters import find_adapters
from ..gateway.control import Control
from ..gateway.ending import (
    GATEWAY_SERVICE_RESTART_EXIT_CODE,
    MARGIN,
    Ending,
    Exit,
    Supervisor,
    consequences,
    supervisor,
)
from ..gateway.outside import obey_signals, run_planned_stop_watcher
from ..gateway.serve import serve
from ..host.process import own
from ..host.systemd import queue_restart
from ..host.tasks import show_tree_when_asked, waits_noted
from ..host.watchdog import WATCHDOG_LOG, last_resort, watch_loop
from ..platform import Adapter
from ..world import World
from .config import load_and_warn
from .logs import log_to_file

log = structlog.wrap_logger(logging.getLogger(__name__))

_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")


@click.command()
def command() -> None:
    """Run the gateway."""
    home = home_directory(os.environ)
    config = load_and_warn().config
    adapters = find_adapters(config)
    if not adapters:
        click.echo(
            "error: no platform is configured, so nobody could talk to the gateway. "
            "Talk to it in this terminal with `hermes-trio chat`, or add a platform to config.yaml.",
            err=True,
        )
        raise SystemExit(EXIT_CONFIG)
    click.echo(f"hermes-trio {__version__}: {', '.join(adapter.name for adapter in adapters)}; home {home}")
    watched_by = supervisor(os.environ, in_container=any(map(os.path.exists, _CONTAINER_FILES)))
    with log_to_file(home), last_resort(home / WATCHDOG_LOG) as arm:
        ending = trio.run(_run, home, config, adapters, watched_by, arm)
        way = consequences(ending, watched_by).exit
        log.info("ended", cause=ending.cause, exit=way)
    leave(way)


async def _run(
    home: Path,
    config: GatewayConfig,
    adapters: Sequence[Adapter],
    watched_by: Supervisor,
    arm: Callable[[float], None],
) -> Ending:
    control, world, me = Control(), World(), own()
    grace = config.agent.restart_drain_timeout
    with waits_noted() as waits:
        async with trio.open_nursery() as nursery:
            await nursery.start(obey_signals, control, home, me, world, grace)
            nursery.start_soon(run_planned_stop_watcher, control, home, me, world, grace)
            await nursery.start(show_tree_when_asked, home, world, waits)
            nursery.start_soon(watch_loop, home / WATCHDOG_LOG, world, waits)
            nursery.start_soon(_arm, control, arm)
            ending = await serve(
                home,
                config,
                agent=demo,
                adapters=adapters,
                control=control,
                world=world,
                supervised_by=watched_by,
            )
            nursery.cancel_scope.cancel(reason="the gateway has ended")
    return ending


async def _arm(control: Control, arm: Callable[[float], None]) -> None:
    """Once an ending is decided, let nothing but the kernel keep us longer than it says."""
    ending = await control.ending()
    arm(ending.grace + MARGIN)
    await control.hurried()
    arm(MARGIN)


def leave(way: Exit) -> None:
    """End the process in the way its ending says."""
    if way is Exit.EXEC:
        # Everything is closed by now: the next life begins in this very process.
        os.execv(sys.executable, [sys.executable, "-m", "hermes_trio", *sys.argv[1:]])  # noqa: S606
    raise SystemExit(exit_code(way))


def exit_code(way: Exit) -> int:
    """What the process returns. The restart of our unit is queued here, as the last act."""
    if way is Exit.QUEUE_UNIT:
        return 0 if queue_restart(os.environ) else GATEWAY_SERVICE_RESTART_EXIT_CODE
    return {
        Exit.OK: 0,
        Exit.FAILURE: EXIT_FAILURE,
        Exit.CONFIG: EXIT_CONFIG,
        Exit.TEMPFAIL: GATEWAY_SERVICE_RESTART_EXIT_CODE,
    }[way]
