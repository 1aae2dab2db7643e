"""The tools of the agent, and as its models see them.

Made once, and again only when a server of tools offers something else: a model's requests all begin with
them, and are the cheaper, the less they change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from ..tools.mcp.servers import Servers
from ..tools.tool import Tool
from .delegate import delegating
from .providers.model import Model, ToolSpec


@dataclass(frozen=True, slots=True)
class Toolset:
    """Tools by their names."""

    tools: Mapping[str, Tool]
    specs: tuple[ToolSpec, ...]


def toolset(
    open_model: Callable[[], AbstractAsyncContextManager[Model]], tools: Mapping[str, Tool]
) -> Toolset:
    """These tools, and the one that hands work to another agent which has them too."""
    delegate = delegating(open_model, tools)
    tools = {delegate.name: delegate, **tools}
    specs = (ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools.values())
    return Toolset(tools, tuple(specs))


class Toolbox:
    """The tools of this program and those of the servers, if there are any."""

    def __init__(
        self,
        open_model: Callable[[], AbstractAsyncContextManager[Model]],
        own: Mapping[str, Tool],
        servers: Servers | None = None,
    ) -> None:
        self._open_model, self._own, self._servers = open_model, own, servers
        self._theirs: Mapping[str, Tool] = {}
        self._made = toolset(open_model, own)

    async def tools(self) -> Toolset:
        """What there is now."""
        theirs = await self._servers.tools() if self._servers else self._theirs
        if theirs is not self._theirs:
            self._theirs, self._made = theirs, toolset(self._open_model, {**theirs, **self._own})
        return self._made
