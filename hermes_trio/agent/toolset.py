"""The tools of the agent, and as its models see them.

Made once, and again only when a server of tools offers something else: a model's requests all begin with
them, and are the cheaper, the less they change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from ..tools.mcp.mcp_servers import ToolServers
from ..tools.tool import Tool
from .delegate import NAME, delegate_tool
from .providers.model import Model, ToolSpec


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools by their names."""

    tools: Mapping[str, Tool]
    specs: tuple[ToolSpec, ...]


def build_toolset(
    open_model: Callable[[], AbstractAsyncContextManager[Model]],
    tools: Mapping[str, Tool],
    disabled: Collection[str],
) -> Toolset:
    """Return these tools and the one that hands work to another agent, which has them too; all without the
    disabled ones."""
    tools = {name: tool for name, tool in tools.items() if name not in disabled}
    if NAME not in disabled:
        tools = {NAME: delegate_tool(open_model, tools), **tools}
    specs = (ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools.values())
    return Toolset(tools, tuple(specs))


class Toolbox:
    """The tools of this program and those of the servers, if there are any."""

    def __init__(
        self,
        open_model: Callable[[], AbstractAsyncContextManager[Model]],
        own: Mapping[str, Tool],
        servers: ToolServers | None = None,
        *,
        disabled: Collection[str] = (),
    ) -> None:
        self._open_model, self._own, self._servers, self._disabled = open_model, own, servers, disabled
        self._theirs: Mapping[str, Tool] = {}
        self._made = build_toolset(open_model, own, disabled)

    async def tools(self) -> Toolset:
        """What there is now."""
        theirs = await self._servers.tools() if self._servers else self._theirs
        if theirs is not self._theirs:
            self._theirs = theirs
            self._made = build_toolset(self._open_model, {**theirs, **self._own}, self._disabled)
        return self._made

    def missing(self) -> list[str]:
        """Return the names of the servers whose tools are not there yet, each of them once."""
        return self._servers.missing() if self._servers else []
