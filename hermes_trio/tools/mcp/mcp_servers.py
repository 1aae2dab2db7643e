"""The servers that the configuration names, while a block lasts, and what they offer by now.

A server that is not there, or not well, costs its own tools and nothing else: its trouble is told and
logged, and it is tried again. Programs are on the list of a guard of their own, because the agent is opened
by whoever opens the gateway, and may do without one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...base.extras import install_command
from ...base.world import World
from ...config.schema import GatewayConfig, McpServerConfig
from ...host.loop.scoped_task import beside
from ...host.processes.guard import Guard, open_guard
from ...host.processes.process_groups import ChildProcess, running
from ...masking.redaction import Redact
from ..tool import Tool
from .offered_tools import plain

if TYPE_CHECKING:
    from .mcp_server import ToolServer

FIRST_WITHIN = 2.0
"""Seconds from the start in which a turn waits for servers that are still being connected: enough for those
that are there at once. A turn after that has the tools of those that are ready."""
LEAVES_WITHIN = 1.0
"""Seconds for saying goodbye."""


class ToolServers:
    """All of them. Made by `open_servers`."""

    def __init__(self) -> None:
        self.every: Sequence[ToolServer] = ()
        """The servers, connected or not."""
        self._tools: Mapping[str, Tool] | None = {}
        self._wait_until = trio.current_time() + FIRST_WITHIN
        self._spoken_of: set[str] = set()

    async def tools(self) -> Mapping[str, Tool]:
        """What they offer, by our names; the same object as before if nothing has changed. Waits a while for
        who is still being connected."""
        if any(not one.settled.is_set() for one in self.every):
            with trio.move_on_at(self._wait_until):
                for one in self.every:
                    await one.settled.wait()
        if self._tools is None:
            self._tools = {name: tool for one in self.every for name, tool in one.tools.items()}
        return self._tools

    def missing(self) -> list[str]:
        """Return the names of the servers that are still being connected, each of them once."""
        names = [one.name for one in self.every if not one.settled.is_set()]
        new = [name for name in names if name not in self._spoken_of]
        self._spoken_of.update(new)
        return new

    def changed(self) -> None:
        """One of them offers something else."""
        self._tools = None

    async def keep(self, leaving: trio.Event, left: trio.Event) -> None:
        """Keep them connected until somebody leaves."""
        async with trio.open_nursery() as nursery:
            for one in self.every:
                nursery.start_soon(one.keep, leaving, name=f"server of tools {one.name}")
        left.set()


@asynccontextmanager
async def open_servers(
    config: GatewayConfig,
    home: Path,
    world: World,
    *,
    redact: Redact,
    tell: Callable[[str], object],
) -> AsyncIterator[ToolServers | None]:
    """The servers of this configuration, as long as the block; None if there is none."""
    wanted = _wanted(config, tell)
    if not wanted:
        yield None
        return
    from .mcp_server import ToolServer  # with a library that takes its time to load

    servers, leaving, left = ToolServers(), trio.Event(), trio.Event()
    guarded = open_guard() if any(one.command for one in wanted.values()) else nullcontext()
    async with guarded as guard:
        start = partial(_start, config, home, world, guard, leaving)
        servers.every = [
            ToolServer(name, one, start, servers.changed, lambda text: tell(redact(text)))
            for name, one in wanted.items()
        ]
        async with beside(partial(servers.keep, leaving, left)):
            try:
                yield servers
            finally:
                leaving.set()  # from here on nobody has patience with a program
            with trio.move_on_after(LEAVES_WITHIN):
                await left.wait()


def _wanted(config: GatewayConfig, tell: Callable[[str], object]) -> dict[str, McpServerConfig]:
    """The servers that can be used; what is the matter with the others is told."""
    wanted = {name: one for name, one in config.mcp_servers.items() if one.enabled}
    if wanted and find_spec("mcp") is None:
        tell(f"mcp_servers are not used: they need a package. Run `{install_command('mcp')}`.")
        return {}
    for name, one in list(wanted.items()):
        if bool(one.command) is bool(one.url):
            tell(f"The server of tools {name!r} is not used: give it either a command or a url.")
            del wanted[name]
    return wanted


def _start(
    config: GatewayConfig,
    home: Path,
    world: World,
    guard: Guard | None,
    leaving: trio.Event,
    name: str,
    server: McpServerConfig,
) -> AbstractAsyncContextManager[ChildProcess]:
    """Start the program of a server. It sees nothing of our environment but what everybody may, and what it
    is given; what it complains of is in a log of its own."""
    from mcp.client.stdio import get_default_environment

    assert guard is not None and server.command  # noqa: S101, PT018 - it is a program
    return running(
        f"mcp-{world.new_id()}",
        [server.command, *server.args],
        cwd=Path(config.terminal.cwd or Path.cwd()).expanduser(),
        env=get_default_environment() | dict(server.env),
        spool=home / "logs" / f"mcp-{plain(name)}.log",
        guard=guard,
        ending=leaving,
        talk=True,
        hear=True,
    )
