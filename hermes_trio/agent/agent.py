"""The agent: a model, the tools, and what it remembers, opened once for a gateway.

    async with open_agent(...) as agent: ...       # agent(turn) answers one message

What it holds (clients, servers of tools) lives as long as the block; what a turn needs of it, as long as
the turn.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

import structlog

from ..config_file import Loaded
from ..state import sessions
from ..tools.registry import toolbox
from ..tools.tool import Tool
from ..world import World
from .demo import demo
from .loop import answer
from .prompt import system_prompt
from .providers.choose import choose
from .turn import Turn

Agent = Callable[..., Awaitable[str | None]]

log = structlog.wrap_logger(logging.getLogger(__name__))


@asynccontextmanager
async def open_agent(
    loaded: Loaded, environ: Mapping[str, str], world: World, *, tools: Mapping[str, Tool] | None = None
) -> AsyncIterator[Agent]:
    """The agent that this configuration asks for, with these tools, or with all there are."""
    chosen = await choose(loaded.config.model, loaded.origins, environ)
    log.info("the model is chosen", why=chosen.why)
    if chosen.endpoint is None:
        yield demo
        return
    from .providers.http import Http
    from .providers.opening import open_model

    endpoint, config, http = chosen.endpoint, loaded.config, Http()
    tools = toolbox() if tools is None else tools

    async def agent(turn: Turn) -> str:
        system = await _prompt(turn)
        async with open_model(http, [endpoint], world, retries=config.agent.api_max_retries) as model:
            return await answer(turn, model, tools, system, most=config.agent.max_turns)

    yield agent


async def _prompt(turn: Turn) -> str:
    """The prompt of the turn's session: the one it has had from its first turn on."""
    stored = await turn.database.read(sessions.prompt, turn.session_id)
    if stored is not None:
        return stored
    made = system_prompt(turn.home, turn.entry, turn.world.now())
    await turn.database.write(sessions.set_prompt, turn.session_id, made)
    return made
