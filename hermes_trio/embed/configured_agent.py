"""The gateway's own agent in another program: the model of the configuration, with tools of the program."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from ..base.errors import AgentInvalid
from ..base.world import World
from ..config.config_file import given_by_program
from ..config.schema import GatewayConfig
from ..gateway.turn.agent_function import AnyAgent
from ..tools.tool import Tool
from ..tools.typed_function import as_tool

AnyTool = Tool | Callable[..., object]
"""A tool, or a function that becomes one."""


def agent_of(
    agent: AnyAgent | None, tools: Sequence[AnyTool], home: Path, config: GatewayConfig, world: World
) -> AnyAgent:
    """Return the agent of a program; without one, the gateway's own with these tools. Raises `AgentInvalid`
    and `ToolInvalid`."""
    if agent is not None:
        if tools:
            raise AgentInvalid(
                agent, "it would not see `tools`, which are for the model of the configuration"
            )
        return agent
    own = {tool.name: tool for tool in map(as_tool, tools)}
    from ..agent.model_agent import open_agent  # loads much that other agents do not need

    return open_agent(given_by_program(config, home, os.environ), os.environ, world, tools=own)
