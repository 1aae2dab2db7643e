"""The gateway that a terminal talks to: the running one of the home, else one of its own.

A gateway of its own serves this terminal and the page, and no platform. It runs as long as the terminal.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import trio

from ... import __version__
from ...agent.model_agent import open_agent
from ...base.errors import GatewayError
from ...base.world import World
from ...config.config_file import Loaded
from ...config.schema import GatewayConfig
from ...gateway.ending.control import Control
from ...gateway.ending.endings_table import Cause, Ending
from ...gateway.ending.triggers import watch_drain_request
from ...gateway.facade import RunningGateway
from ...gateway.outbound.texts import database_damaged
from ...gateway.serve import Setup, serve
from ...host.home.home_lock import is_locked
from ...host.home.state_file import read_status
from ...host.loop.task_tree import waits_noted, write_tree_on_signal
from ...host.processes.process_identity import is_alive
from ...web.app import Web
from ...web.http.auth import web_key
from ...web.http.server import CannotListen, listen
from ..logs import log_to_file

START_TIMEOUT = 30.0
LOOK_EVERY = 0.2


class NoApi(GatewayError):
    """A gateway runs, and has no API."""

    def __init__(self) -> None:
        super().__init__(
            "The running gateway has no API: it is ending, or runs inside another program. "
            "Run `hermes-trio status`."
        )


@dataclass(frozen=True, slots=True)
class GatewayPlace:
    """A gateway, and the way to it."""

    address: Callable[[], str | None]
    """Returns the address of its API; None while it does not run."""
    key: str
    is_own: bool
    """True if it ends with the terminal."""
    notices: tuple[str, ...] = ()
    """Sentences of the start for the owner."""


Talk = Callable[[GatewayPlace], Awaitable[None]]


async def with_gateway(home: Path, loaded: Loaded, talk: Talk) -> Ending | None:
    """Call `talk` with the gateway of this home, and return the ending of a gateway of our own."""
    key = web_key(home, loaded.config.web)
    if is_locked(home):
        await _wait_for_api(home)
        await talk(GatewayPlace(partial(_address, home), key, is_own=False))
        return None
    with log_to_file(home, loaded.config, loaded.environ):
        return await _with_own_gateway(home, loaded, key, talk)


async def _with_own_gateway(home: Path, loaded: Loaded, key: str, talk: Talk) -> Ending | None:
    control, world, notices = Control(), World(), list[str]()
    config = await _for_a_terminal(loaded.config)
    with waits_noted() as waits:
        web = Web(config, __version__, owns_process=True, long_steps=waits.long_steps)
        setup = Setup(
            home,
            config,
            agent=open_agent(loaded, loaded.environ, world, tell=notices.append),
            adapters=[web.platform],
            doors=[web.door],
            world=world,
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(watch_drain_request, control, home, world)
            await nursery.start(write_tree_on_signal, home, world, waits)
            gateway = await nursery.start(_serve, setup, control, nursery.cancel_scope)
            if gateway.home.database.damaged_copy is not None:
                notices.append(database_damaged(gateway.home.database.damaged_copy.name))
            if gateway.work.background.commands.warning is not None:
                notices.append(f"Warning: {gateway.work.background.commands.warning}")
            grace = loaded.config.agent.restart_drain_timeout
            nursery.start_soon(_restart_on_signal, control, grace)
            # The first notice is the choice of the model, which the gateway itself tells.
            await talk(GatewayPlace(lambda: web.address, key, is_own=True, notices=tuple(notices[1:])))
            control.ask(Ending(Cause.PLANNED, grace=0, asked_by="terminal"))
    return control.current


async def _serve(
    setup: Setup, control: Control, scope: trio.CancelScope, *, task_status: trio.TaskStatus[RunningGateway]
) -> None:
    """Run the gateway, and cancel `scope` when it has ended."""
    await serve(setup, control=control, task_status=task_status)
    scope.cancel(reason="the gateway has ended")


async def _restart_on_signal(control: Control, grace: float) -> None:
    """Restart when `hermes-trio restart` asks for it."""
    number = getattr(signal, "SIGUSR1", None)
    if number is not None:
        with trio.open_signal_receiver(number) as signals:
            async for _ in signals:
                control.ask(Ending(Cause.RESTART, grace, asked_by="SIGUSR1"))


async def _for_a_terminal(config: GatewayConfig) -> GatewayConfig:
    """Return the configuration without platforms, and with a free port: that of the page may be taken by the
    gateway of another home."""
    web = config.web
    try:
        for listener in await listen(web):
            await listener.aclose()
    except CannotListen:
        web = msgspec.structs.replace(web, port=0)
    return msgspec.structs.replace(config, platforms={}, web=web)


async def _wait_for_api(home: Path) -> None:
    """Wait until the running gateway listens: it may be starting. Raises `NoApi`."""
    with trio.move_on_after(START_TIMEOUT):
        # Another process writes the state file, so there is nothing else to wait for.
        while _address(home) is None and is_locked(home) and not _has_no_api(home):  # noqa: ASYNC110
            await trio.sleep(LOOK_EVERY)
    if _address(home) is None:
        raise NoApi


def _has_no_api(home: Path) -> bool:
    """Return whether the gateway runs and will not listen any more."""
    status = read_status(home)
    return status is not None and is_alive(status.process) and status.gateway_state in ("running", "degraded")


def _address(home: Path) -> str | None:
    """Return the address of the gateway that runs now."""
    status = read_status(home)
    return status.web if status is not None and is_alive(status.process) else None
