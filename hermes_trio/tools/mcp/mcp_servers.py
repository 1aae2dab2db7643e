"""The configured servers, connected for as long as a block, and their current tools.

A server that is missing or broken costs only its own tools: the reason is reported and logged, and connecting
is tried again. Programs are on the list of a guard of their own, because an agent can be opened without a
gateway and its guard.
"""

from __future__ import annotations

import os
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
from ...host.files.private_files import make_private_dir
from ...host.loop.scoped_task import beside
from ...host.processes.guard import Guard, open_guard
from ...host.processes.process_groups import ChildProcess, running
from ...masking.command_environment import command_environment
from ...masking.redaction import Redact
from ..tool import Tool
from .offered_tools import plain_name

if TYPE_CHECKING:
    from .mcp_server import ToolServer

CONNECTS_WITHIN = 60.0
"""Seconds in which a server has to be ready; some are downloaded from the internet first."""
FIRST_WITHIN = 2.0
"""Seconds after the start in which a turn waits for servers that are still being connected: enough for those
that answer at once. A later turn gets the tools of the servers that are ready."""
LEAVES_WITHIN = 1.0
"""Seconds in which the connections have to close."""


class ToolServers:
    """All configured servers. Made by `open_servers`."""

    def __init__(self) -> None:
        self.every: Sequence[ToolServer] = ()
        """The servers, connected or not."""
        self._tools: Mapping[str, Tool] | None = {}
        self._wait_until = trio.current_time() + FIRST_WITHIN
        self._reported: set[str] = set()

    async def tools(self) -> Mapping[str, Tool]:
        """Return their tools by our names; the same object as before if nothing has changed. Wait up to
        `FIRST_WITHIN` seconds after the start for servers that are still being connected."""
        if any(not one.settled.is_set() for one in self.every):
            with trio.move_on_at(self._wait_until):
                for one in self.every:
                    await one.settled.wait()
        if self._tools is None:
            self._tools = {name: tool for one in self.every for name, tool in one.tools.items()}
        return self._tools

    def missing(self) -> list[str]:
        """Return the names of servers that are still being connected, each only the first time."""
        names = [one.name for one in self.every if not one.settled.is_set()]
        new = [name for name in names if name not in self._reported]
        self._reported.update(new)
        return new

    def changed(self) -> None:
        """Forget the tools, because those of a server have changed."""
        self._tools = None

    async def keep(self, leaving: trio.Event, left: trio.Event) -> None:
        """Keep all servers connected until `leaving` is set; then set `left`."""
        async with trio.open_nursery() as nursery:
            for one in self.every:
                nursery.start_soon(one.keep, leaving, name=f"MCP server {one.name}")
        left.set()


@asynccontextmanager
async def open_servers(
    config: GatewayConfig,
    home: Path,
    world: World,
    *,
    redact: Redact,
    tell: Callable[[str], object],
    connects_within: float = CONNECTS_WITHIN,
) -> AsyncIterator[ToolServers | None]:
    """Yield the servers of this configuration, connected for as long as the block; None if there are none."""
    wanted = _wanted(config, tell)
    if not wanted:
        yield None
        return
    from .mcp_server import ToolServer  # imports a library that takes half a second to load

    servers, leaving, left = ToolServers(), trio.Event(), trio.Event()
    guarded = open_guard() if any(one.command for one in wanted.values()) else nullcontext()
    async with guarded as guard:
        start = partial(_start, home, world, guard, leaving)
        servers.every = [
            ToolServer(name, one, start, servers.changed, lambda text: tell(redact(text)), connects_within)
            for name, one in wanted.items()
        ]
        async with beside(partial(servers.keep, leaving, left)):
            try:
                yield servers
            finally:
                leaving.set()  # from now on a program is killed without a grace period
            with trio.move_on_after(LEAVES_WITHIN):
                await left.wait()


def _wanted(config: GatewayConfig, tell: Callable[[str], object]) -> dict[str, McpServerConfig]:
    """Return the servers that can be used; report the problem of each other one."""
    wanted = {name: one for name, one in config.mcp_servers.items() if one.enabled}
    if wanted and find_spec("mcp") is None:
        tell(f"mcp_servers are not used: they need a package. Run `{install_command('mcp')}`.")
        return {}
    for name, one in list(wanted.items()):
        if bool(one.command) is bool(one.url):
            tell(f"The MCP server {name!r} is not used: give it either a command or a url.")
            del wanted[name]
    return wanted


def _start(
    home: Path,
    world: World,
    guard: Guard | None,
    leaving: trio.Event,
    name: str,
    server: McpServerConfig,
) -> AbstractAsyncContextManager[ChildProcess]:
    """Start the program of a server. Its environment holds the variables that every command gets, and the
    configured ones; its error output goes to a log file of its own. It does not start in the work directory:
    programs such as `python -m` and `npx` load what lies where they start, and no sandbox confines them."""
    assert guard is not None and server.command  # noqa: S101, PT018 - only programs are started
    cwd = Path(server.cwd).expanduser() if server.cwd else home / "mcp"
    if server.cwd is None:
        make_private_dir(cwd)
    return running(
        f"mcp-{world.new_id()}",
        [server.command, *server.args],
        cwd=cwd,
        env=command_environment(os.environ) | dict(server.env),
        spool=home / "logs" / f"mcp-{plain_name(name)}.log",
        guard=guard,
        ending=leaving,
        talk=True,
        hear=True,
    )
