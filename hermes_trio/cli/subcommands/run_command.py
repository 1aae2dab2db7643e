"""`hermes-trio run`: the gateway, until it is asked to end."""

from __future__ import annotations

import gc
import math
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import click
import trio

from ... import __version__
from ...agent.model_agent import open_agent
from ...base.errors import EXIT_CONFIG, EXIT_FAILURE, EXIT_RESTART, GatewayError
from ...base.world import World
from ...config.config_file import Loaded, home_directory
from ...gateway.ending.control import Control
from ...gateway.ending.endings_table import (
    GATEWAY_SERVICE_RESTART_EXIT_CODE,
    MARGIN,
    Cause,
    Exit,
    Supervisor,
    consequences,
    supervisor,
)
from ...gateway.ending.triggers import obey_signals, run_planned_stop_watcher, watch_drain_request
from ...gateway.facade import Gateway
from ...gateway.links.adapters import find_adapters
from ...gateway.outbound.texts import database_damaged
from ...gateway.serve import Setup, serve
from ...host.home.home_lock import refuse_if_busy
from ...host.home.state_file import PlatformState, is_wanted, read_status
from ...host.home.status_board import StatusBoard, leave_failed_start
from ...host.loop.open_files import raise_open_files
from ...host.loop.task_tree import waits_noted, write_tree_on_signal
from ...host.loop.watchdog import WATCHDOG_LOG, last_resort, watch_loop
from ...host.processes.process_identity import own
from ...host.service.pid_one import become_init
from ...host.service.sd_notify import notify_service_manager
from ...host.service.systemd import queue_restart
from ...log import Log
from ...platform.contract import Adapter
from ...state.rules.original_home import unused
from ...web.app import Web
from ...web.http.auth import web_key
from ..logs import log_to_file
from ..start_check import startable
from .config_command import load_and_warn

log = Log(__name__)

_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")


@click.command()
@click.option("--if-wanted", is_flag=True, help="Only if it was running when it was last heard of.")
def command(if_wanted: bool) -> None:
    """Run the gateway."""
    home = home_directory(os.environ)
    if if_wanted and not is_wanted(status := read_status(home)):
        left = f"it was left {status.gateway_state}" if status else "it has never run in this home"
        click.echo(f"Not started: {left}. `hermes-trio run` starts it.")
        return
    if os.getpid() == 1:
        become_init(_this_command(), EXIT_RESTART)
    with ExitStack() as opened:
        try:
            loaded = load_and_warn(startable)
            refuse_if_busy(home)
            config = loaded.config
            adapters = find_adapters(config)
            web_key(
                home, config.web
            )  # made before the log is opened, which has to know it in order to mask it
            opened.enter_context(log_to_file(home, config, loaded.environ))
            arm = opened.enter_context(last_resort(home / WATCHDOG_LOG))
        except GatewayError as error:
            leave_failed_start(home, error, World())
            raise
        names = ", ".join(adapter.name for adapter in adapters) or "no platform is configured"
        _tell(f"hermes-trio {__version__}: {names}; home {home}")
        for finding in unused(home):
            _tell(f"{finding.level}: {finding.text}. {finding.remedy}".rstrip())
            log.warning("part of the home not used", what=finding.text)
        raise_open_files()
        watched_by = supervisor(os.environ, in_container=_is_what_a_container_runs())
        gateway = trio.run(_run, home, loaded, adapters, watched_by, arm)
        ending = gateway.control.current
        assert ending is not None  # noqa: S101 - that is what ended it
        way = consequences(ending, watched_by).exit
        log.info("ended", cause=ending.cause, exit=way)
        if ending.cause is Cause.STORE_REPLACED:
            _tell("Its database was removed or replaced while it ran: logs/gateway.log names the saved copy.")
    leave(way)


def _is_what_a_container_runs() -> bool:
    """Whether the container ends with us, or its first process waits for us. Nobody does so for what a shell
    in a container has started."""
    return os.getppid() == 1 and any(map(os.path.exists, _CONTAINER_FILES))


async def _run(
    home: Path,
    loaded: Loaded,
    adapters: Sequence[Adapter],
    watched_by: Supervisor,
    arm: Callable[[float], None],
) -> Gateway:
    control, world, me = Control(), World(), own()
    grace = loaded.config.agent.restart_drain_timeout
    web = Web(loaded.config, __version__, owns_process=True)
    setup = Setup(
        home,
        loaded.config,
        agent=open_agent(loaded, loaded.environ, world, tell=_tell),
        adapters=[*adapters, web.platform],
        doors=[web.door],
        world=world,
    )
    serving = partial(serve, setup, control=control, supervised_by=watched_by)
    with waits_noted() as waits:
        async with trio.open_nursery() as beside:
            await beside.start(obey_signals, control, home, me, world, grace)
            beside.start_soon(run_planned_stop_watcher, control, home, me, world, grace)
            await beside.start(watch_drain_request, control, home, world)
            await beside.start(write_tree_on_signal, home, world, waits)
            beside.start_soon(watch_loop, home / WATCHDOG_LOG, world, waits)
            beside.start_soon(keep_armed, control, arm)
            async with trio.open_nursery() as tree:
                gateway: Gateway = await tree.start(serving)
                beside.start_soon(notify_service_manager, gateway.home.board, os.environ, world)
                if gateway.home.database.damaged_copy is not None:
                    _tell(database_damaged(gateway.home.database.damaged_copy.name))
                beside.start_soon(_tell_of_refusals, gateway.home.board)
                _say_where_to_go(home, watched_by, web)
            beside.cancel_scope.cancel(reason="the gateway has ended")
    return gateway


def _tell(text: str) -> None:
    # Nobody has to listen: a restart in place comes long after the terminal was closed.
    with suppress(OSError):
        click.echo(text)


def _say_where_to_go(home: Path, watched_by: Supervisor, web: Web) -> None:
    # What systemd starts is heard by a log alone, and a link that lets somebody in must not stand there.
    page = web.address if watched_by is Supervisor.SYSTEMD else web.link()
    _tell(f"Its page: {page}")
    _tell("Another link that lets a browser in: `hermes-trio link`.")
    _tell(f"Its log: {home / 'logs' / 'gateway.log'}")
    _tell("To look: `hermes-trio status`. To stop: `hermes-trio stop`, or Ctrl-C here.")
    if watched_by is Supervisor.NONE:
        _tell("To have it run always: `hermes-trio service install`.")


async def _tell_of_refusals(board: StatusBoard) -> None:
    """Print why a platform is given up, once for each."""
    told: set[str] = set()
    while True:
        version = board.version
        for name, platform in board.status.platforms.items():
            if platform.state is PlatformState.FATAL and name not in told:
                told.add(name)
                _tell(f"error: {name} is given up. {platform.error or ''}".rstrip())
        await board.changed_since(version)


async def keep_armed(control: Control, arm: Callable[[float], None]) -> None:
    """Once we are ending, let nothing but the kernel keep us longer than that may take."""
    await control.ends_before(math.inf)
    # A moment early: when the grace is over, the turns that are cut keep the loop for themselves.
    while (patience := (end_by := control.end_by) - MARGIN - 0.1 - trio.current_time()) > 0:
        arm(end_by - trio.current_time())
        with trio.move_on_after(patience):
            await control.ends_before(end_by)
    arm(control.end_by - trio.current_time())
    # What is cut unwinds all at once, and the collector would look through all of it again and again: half
    # of the time that it takes to cut ten thousand turns. We are gone in `MARGIN` seconds, so nothing has to
    # be collected any more. Embedded we leave it alone: it is the collector of a program that goes on.
    gc.disable()


def leave(way: Exit) -> None:
    """End the process in the way its ending says."""
    if way is Exit.EXEC:
        # Everything is closed by now: the next life begins in this very process.
        os.execv(sys.executable, _this_command())  # noqa: S606
    code = exit_code(way)
    gc.freeze()  # nobody waits for the interpreter to look for garbage once more: 30 ms, or half a second
    raise SystemExit(code)


def _this_command() -> list[str]:
    return [sys.executable, "-m", "hermes_trio", *sys.argv[1:]]


def exit_code(way: Exit) -> int:
    """What the process returns. The restart of our unit is queued here, as the last act."""
    if way is Exit.QUEUE_UNIT:
        answer = queue_restart(os.environ)
        if answer.ok:
            return 0
        click.echo(f"systemd was not asked to start us again ({answer.text}); the exit code asks", err=True)
        return GATEWAY_SERVICE_RESTART_EXIT_CODE
    return {
        Exit.OK: 0,
        Exit.FAILURE: EXIT_FAILURE,
        Exit.CONFIG: EXIT_CONFIG,
        Exit.TEMPFAIL: GATEWAY_SERVICE_RESTART_EXIT_CODE,
    }[way]
