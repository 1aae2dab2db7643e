"""The tools of the agent, and their description for the model.

They are built once, and again only when an MCP server offers other tools. Each request begins with them, and
a provider's cache only helps while they stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from ..config.remote_section import REMOTE
from ..config.schema import GatewayConfig
from ..tools.all_tools import names_in
from ..tools.mcp.mcp_servers import ToolServers
from ..tools.tool import Tool
from .delegate import NAME, delegate_tool
from .providers.model import Model, ToolSpec


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools by name, and their description for a model."""

    tools: Mapping[str, Tool]
    specs: tuple[ToolSpec, ...]


def build_toolset(
    open_model: Callable[[], AbstractAsyncContextManager[Model]],
    tools: Mapping[str, Tool],
    disabled: Collection[str],
) -> Toolset:
    """Return these tools without the disabled ones, and the tool that delegates work to another agent with
    the same tools."""
    tools = {name: tool for name, tool in tools.items() if name not in disabled}
    if NAME not in disabled:
        tools = {NAME: delegate_tool(open_model, tools), **tools}
    specs = (ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools.values())
    return Toolset(tools, tuple(specs))


def disabled_tools(config: GatewayConfig) -> Collection[str]:
    """Return the names of our tools that are not offered with this configuration."""
    # The file tools use the disk of this machine, where such commands do not run.
    without_files = ("file",) if config.terminal.sandbox in REMOTE else ()
    return names_in((*config.agent.disabled_toolsets, *without_files))


class Toolbox:
    """The tools of this program and those of the MCP servers, if any are configured."""

    def __init__(
        self,
        open_model: Callable[[], AbstractAsyncContextManager[Model]],
        own: Mapping[str, Tool],
        servers: ToolServers | None = None,
        *,
        disabled: Collection[str] = (),
    ) -> None:
        self._open_model, self._own, self._servers, self._disabled = open_model, own, servers, disabled
        self._of_servers: Mapping[str, Tool] = {}
        self._toolset = build_toolset(open_model, own, disabled)

    async def tools(self) -> Toolset:
        """Return the tools that are available now."""
        of_servers = await self._servers.tools() if self._servers else self._of_servers
        if of_servers is not self._of_servers:
            self._of_servers = of_servers
            self._toolset = build_toolset(self._open_model, {**of_servers, **self._own}, self._disabled)
        return self._toolset

    def has(self, name: str) -> bool:
        """Return whether there is a tool of this program by this name, and it is not disabled."""
        return name in self._own and name not in self._disabled

    def missing(self) -> list[str]:
        """Return the names of the MCP servers whose tools are not available yet. A name is returned only
        once, over all calls."""
        return self._servers.missing() if self._servers else []
