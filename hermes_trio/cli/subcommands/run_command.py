"""`hermes-trio run`: run the gateway until it ends."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable, Sized
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from dataclasses import dataclass
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
from ...gateway.ending.triggers import (
    obey_signals,
    run_planned_stop_watcher,
    signals_we_know,
    watch_drain_request,
)
from ...gateway.facade import RunningGateway
from ...gateway.links.adapters import find_adapters
from ...gateway.outbound.texts import database_damaged
from ...gateway.processes.command import ChooseSandbox, CommandRunner
from ...gateway.serve import Setup, serve
from ...host.home.home_lock import HomeLock, handed_home, locked_home, refuse_if_busy
from ...host.home.state_file import PlatformState, is_wanted, read_status
from ...host.home.status_board import StatusBoard, leave_failed_start
from ...host.loop.garbage import GROWN, GROWN_MUCH, collect_garbage
from ...host.loop.memory_shield import close_memory
from ...host.loop.open_files import raise_open_files
from ...host.loop.task_tree import waits_noted, write_tree_on_signal
from ...host.loop.watchdog import WATCHDOG_LOG, last_resort, watch_loop
from ...host.processes.process_identity import own
from ...host.service.listening_sockets import ListeningSockets, listening_sockets
from ...host.service.pid_one import become_init
from ...host.service.sd_notify import notify_service_manager
from ...host.service.successor import (
    KILLED_WITHIN,
    SERVES_WITHIN,
    Predecessor,
    Ready,
    Serves,
    predecessor_of,
)
from ...host.service.systemd import queue_restart
from ...log import Log
from ...state.db.migrations import shipped_steps
from ...state.rules.original_home import unused
from ...tools.sandbox.available import choose
from ...web.app import Web
from ...web.http.auth import web_key
from ..live_restart import LiveRestart
from ..logs import log_to_file
from ..start_check import check_start
from .config_command import load_and_warn

log = Log(__name__)

_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")


@dataclass(frozen=True, slots=True)
class Origin:
    """The sockets, the lock and the sandbox of a process: its own, or those of its predecessor."""

    sockets: ListeningSockets
    predecessor: Predecessor | None = None
    locked: Callable[[Path], AbstractContextManager[HomeLock]] = locked_home
    choose_sandbox: ChooseSandbox = choose


@click.command()
@click.option(
    "--if-wanted", is_flag=True, help="Start only if it was running when its state was last written."
)
def command(if_wanted: bool) -> None:
    """Run the gateway."""
    close_memory()
    home = home_directory(os.environ)
    if if_wanted and not is_wanted(status := read_status(home)):
        reason = f"the last state is {status.gateway_state}" if status else "no gateway has run in this home"
        click.echo(f"Not started: {reason}. `hermes-trio run` starts it.")
        return
    if os.getpid() == 1:
        become_init(_this_command(), EXIT_RESTART)
    with listening_sockets(os.environ) as sockets, predecessor_of(os.environ) as predecessor:
        origin = Origin(sockets) if predecessor is None else _origin_of_successor(sockets, predecessor)
        if origin is None:
            return  # the gateway goes on, or has ended for another cause
        way = _run_until_end(home, origin)
        if way is Exit.EXEC:
            sockets.pass_on(os.environ)
        leave(way)


def _origin_of_successor(sockets: ListeningSockets, predecessor: Predecessor) -> Origin | None:
    """Load and try everything that needs no home, report that to the gateway whose place this process takes,
    and wait until it hands over. Return None if it does not."""
    try:
        config = load_and_warn(check_start).config
        find_adapters(config)
        available = choose(config.terminal)
    except GatewayError as error:
        predecessor.tell(Ready(problem=str(error)))
        raise
    # From now on a signal waits until this process can obey it. Its default action would look like a failure
    # of the successor, and the predecessor would go on although somebody has stopped the gateway.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals_we_know())
    predecessor.tell(Ready(__version__, tuple(step.name for step in shipped_steps())))
    handed = predecessor.receive()
    if handed is None:
        return None
    lock_files, listening = handed
    sockets.receive(listening)
    return Origin(
        sockets,
        predecessor,
        locked=partial(handed_home, descriptors=lock_files),
        # The configuration may have changed since then.
        choose_sandbox=lambda terminal: available if terminal == config.terminal else choose(terminal),
    )


def _run_until_end(home: Path, origin: Origin) -> Exit:
    """Run the gateway, and return how the process is to end. Everything but the sockets is closed then."""
    with ExitStack() as opened:
        try:
            loaded = load_and_warn(check_start)
            if origin.predecessor is None:
                refuse_if_busy(home)
            config = loaded.config
            adapters = find_adapters(config)
            web_key(home, config.web)  # made before the log is opened, so that the log masks it
            opened.enter_context(log_to_file(home, config, loaded.environ))
            lock = opened.enter_context(origin.locked(home))
        except GatewayError as error:
            if origin.predecessor is None:  # else the home is the predecessor's, which goes on
                leave_failed_start(home, error, World())
            raise
        names = ", ".join(adapter.name for adapter in adapters) or "no platform is configured"
        _print(f"hermes-trio {__version__}: {names}; home {home}")
        for finding in unused(home):
            _print(f"{finding.level}: {finding.text}. {finding.remedy}".rstrip())
            log.warning("part of the home not used", part=finding.text)
        raise_open_files()
        while True:
            way = _live(home, loaded, lock, origin)
            if way is not Exit.HAND_OVER or not lock.is_held:
                return way
            # The successor failed, and the next life of this process begins in its place.
            origin = Origin(origin.sockets)


def _live(home: Path, loaded: Loaded, lock: HomeLock, origin: Origin) -> Exit:
    """Run the gateway once, and return how the process is to end."""
    with last_resort(home / WATCHDOG_LOG) as arm:
        watched_by = supervisor(os.environ, in_container=_is_main_process_of_container())
        gateway = trio.run(_run, home, loaded, watched_by, arm, lock, origin)
        ending = gateway.control.current
        assert ending is not None  # noqa: S101 - `_run` returns after the ending
        way = consequences(ending, watched_by).exit
        log.info("gateway ended", cause=ending.cause, exit=way)
        if ending.cause is Cause.STORE_REPLACED:
            _print(
                "The database was removed or replaced while the gateway ran: "
                "logs/gateway.log names the saved copy."
            )
    return way


def _is_main_process_of_container() -> bool:
    """Return whether the container ends with this process, or its first process waits for this one. For a
    command that a shell in a container starts, neither is true."""
    return os.getppid() == 1 and any(map(os.path.exists, _CONTAINER_FILES))


async def _run(
    home: Path,
    loaded: Loaded,
    watched_by: Supervisor,
    arm: Callable[[float], None],
    lock: HomeLock,
    origin: Origin,
) -> RunningGateway:
    """Run the gateway until it has ended, and has handed over what it hands over."""
    control, world, me = Control(), World(), own()
    grace = loaded.config.agent.restart_drain_timeout
    with waits_noted() as waits:
        async with trio.open_nursery() as services:
            await services.start(obey_signals, control, home, me, world, grace)
            if origin.predecessor is not None:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, signals_we_know())
            services.start_soon(run_planned_stop_watcher, control, home, me, world, grace)
            await services.start(watch_drain_request, control, home, world)
            await services.start(write_tree_on_signal, home, world, waits)
            services.start_soon(watch_loop, home / WATCHDOG_LOG, world, waits)
            services.start_soon(keep_armed, control, partial(_arm_later, control, arm))
            async with trio.open_nursery() as handing:
                live_restart = LiveRestart(_this_command(), lock, origin.sockets, handing)
                web = Web(
                    loaded.config,
                    __version__,
                    owns_process=True,
                    long_steps=waits.long_steps,
                    open_listeners=origin.sockets.listen,
                    restart_live=live_restart.request,
                )
                setup = Setup(
                    home,
                    loaded.config,
                    agent=open_agent(loaded, loaded.environ, world, tell=_print),
                    adapters=[*find_adapters(loaded.config), web.platform],
                    doors=[web.door],
                    world=world,
                    locked=lambda _: nullcontext(lock),
                    choose_sandbox=origin.choose_sandbox,
                )
                async with trio.open_nursery() as tree:
                    gateway: RunningGateway = await tree.start(
                        partial(serve, setup, control=control, supervised_by=watched_by)
                    )
                    board = gateway.home.board
                    services.start_soon(_notify_manager, origin, board, world)
                    services.start_soon(_print_refusals, board)
                    _print_start(gateway, web, watched_by)
                    allowed_growth = partial(_allowed_growth, control, gateway.work.running)
                    services.start_soon(collect_garbage, allowed_growth)
                live_restart.over.set()
                if not control.hands_over:
                    handing.cancel_scope.cancel(reason="the gateway has ended for another cause")
            services.cancel_scope.cancel(reason="the gateway has ended")
    return gateway


async def _notify_manager(origin: Origin, board: StatusBoard, world: World) -> None:
    """Tell the predecessor that this process serves, and keep the service manager informed when it has left:
    the manager listens to one process at a time."""
    if origin.predecessor is not None:
        origin.predecessor.tell(Serves(os.getpid()))
        await origin.predecessor.gone()
    await notify_service_manager(board, os.environ, world, origin.sockets.kept)


def _arm_later(control: Control, arm: Callable[[float], None], seconds: float) -> None:
    """Arm the last resort. A gateway that hands over waits for its successor after it has ended."""
    arm(seconds + SERVES_WITHIN + KILLED_WITHIN if control.hands_over else seconds)


def _allowed_growth(control: Control, running: Sized) -> float:
    """Return the growth of memory, in blocks, without a collection of garbage. A collection holds the loop:
    for a moment that nobody notices while no turn runs, else for up to a second."""
    if control.current is not None:
        return math.inf  # the process ends soon, and a collection would delay that
    return GROWN_MUCH if running else GROWN


def _print(text: str) -> None:
    """Print a line. A closed output is no error: after a restart in place the terminal may be closed."""
    with suppress(OSError):
        click.echo(text)


def _print_start(gateway: RunningGateway, web: Web, watched_by: Supervisor) -> None:
    """Print what people have to know at the start, the address of the page, and the next commands."""
    if gateway.home.database.damaged_copy is not None:
        _print(database_damaged(gateway.home.database.damaged_copy.name))
    _print_sandbox(gateway.work.background.commands)
    # systemd writes the output to its journal, which must not contain a log-in link.
    page = web.address if watched_by is Supervisor.SYSTEMD else web.link()
    _print(f"Page: {page}")
    _print("Another log-in link: `hermes-trio link`.")
    _print(f"Log: {gateway.home.path / 'logs' / 'gateway.log'}")
    _print("State: `hermes-trio status`. Stop: `hermes-trio stop`, or Ctrl-C here.")
    if watched_by is Supervisor.NONE:
        _print("Run it as a service: `hermes-trio service install`.")


def _print_sandbox(commands: CommandRunner) -> None:
    """Print what confines the commands of the agent, and where they work."""
    available = commands.available
    if commands.warning is not None:
        _print(f"warning: {commands.warning}")
    elif available.remote is not None:
        _print(f"Commands: in {available.remote.name}, in {commands.work}")
    else:
        _print(f"Commands: under {available.kind}, in {commands.work}")


async def _print_refusals(board: StatusBoard) -> None:
    """Print the reason when a platform is given up, once for each platform."""
    printed: set[str] = set()
    while True:
        version = board.version
        for name, platform in board.status.platforms.items():
            if platform.state is PlatformState.FATAL and name not in printed:
                printed.add(name)
                _print(f"error: {name} is given up. {platform.error or ''}".rstrip())
        await board.changed_since(version)


async def keep_armed(control: Control, arm: Callable[[float], None]) -> None:
    """Set the timer that kills the process to the deadline of the shutdown, whenever that changes."""
    await control.ends_before(math.inf)
    # 0.1 s before the end of the grace: after it the loop is busy with the turns that are cut.
    while (remaining := (end_by := control.end_by) - MARGIN - 0.1 - trio.current_time()) > 0:
        arm(end_by - trio.current_time())
        with trio.move_on_after(remaining):
            await control.ends_before(end_by)
    arm(control.end_by - trio.current_time())


def leave(way: Exit) -> None:
    """End the process in the way that the ending decided."""
    if way is Exit.EXEC:
        # Everything else is closed: the next life begins in the same process.
        os.execv(sys.executable, _this_command())  # noqa: S606
    code = exit_code(way)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # it may be closed
            stream.flush()
    # Everything is closed. The interpreter would free one object after the other, which takes longer than the
    # stop of an idle gateway.
    os._exit(code)


def _this_command() -> list[str]:
    return [sys.executable, "-m", "hermes_trio", *sys.argv[1:]]


def exit_code(way: Exit) -> int:
    """Return the exit code of the process. The restart of our systemd unit is queued here, as the last
    step."""
    if way is Exit.QUEUE_UNIT:
        answer = queue_restart(os.environ)
        if answer.ok:
            return 0
        click.echo(
            f"warning: systemd refused to queue the restart ({answer.text}). The exit code requests it.",
            err=True,
        )
        return GATEWAY_SERVICE_RESTART_EXIT_CODE
    return {
        Exit.OK: 0,
        Exit.HAND_OVER: 0,
        Exit.FAILURE: EXIT_FAILURE,
        Exit.CONFIG: EXIT_CONFIG,
        Exit.TEMPFAIL: GATEWAY_SERVICE_RESTART_EXIT_CODE,
    }[way]
