"""The agent: a model, the tools, and what it remembers, opened once for a gateway.

    async with open_agent(...) as agent: ...       # agent(turn) answers one message

What it holds (clients, servers of tools) lives as long as the block; what a turn needs of it, as long as
the turn.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import structlog

from ..config import GatewayConfig
from ..config_file import Loaded
from ..state import compactions, sessions
from ..state.compactions import Compaction
from ..state.database import Database
from ..state.entry import SessionEntry, Usage
from ..state.transcript import Message
from ..tools.memory import snapshot
from ..tools.registry import toolbox
from ..tools.tool import Tool
from ..world import World
from .delegate import delegating
from .demo_model import Demo
from .loop import answer
from .prompt import system_prompt
from .providers.choose import choose
from .providers.endpoint import Endpoint
from .providers.model import Model, Request, ToolSpec
from .shortening import Shortened, Shortener
from .talk import Talk
from .turn import Turn

log = structlog.wrap_logger(logging.getLogger(__name__))


@dataclass(frozen=True, slots=True)
class Agent:
    """Answers messages."""

    open_model: Callable[[], AbstractAsyncContextManager[Model]]
    tools: Mapping[str, Tool]
    specs: tuple[ToolSpec, ...]
    """The tools as a model sees them."""
    world: World
    window: int | None
    """Tokens that the model can take, if anybody has said so."""
    most: int
    """Requests to a model in one turn."""
    is_demo: bool = False

    async def __call__(self, turn: Turn) -> str:
        """Answer one message."""
        prompt, compaction = await turn.database.read(_remembered, turn.session_id)
        if prompt is None:
            # Made once, and the same in every request: what a provider has cached begins with it.
            prompt = system_prompt(turn.home, turn.entry, turn.world.now(), snapshot(turn.home))
            await turn.database.write(sessions.set_prompt, turn.session_id, prompt)
        request = Request(messages=(), system=prompt, tools=self.specs)
        async with self.open_model() as model:
            talk = Talk(turn, model, request, compaction, self.window)
            return await answer(turn, talk, self.tools, most=self.most)

    async def compress(
        self, entry: SessionEntry, rows: Sequence[Message], database: Database, focus: str = ""
    ) -> Shortened | None:
        """Shorten what a model is sent of a session because somebody asks for it; None where no model is
        sent anything."""
        if self.is_demo:
            return None
        used: list[Usage] = []
        compaction = await database.read(compactions.get, entry.session_id)
        fresh = replace(compaction, wasted=0, not_before=0.0)
        async with self.open_model() as model:
            shortener = Shortener(model, database, entry.session_id, self.world.time, used.append)
            done = await shortener.shorten(rows, fresh, window=self.window, focus=focus)
        for usage in used:
            await database.write(sessions.add_usage, entry.session_id, replace(usage, last_prompt_tokens=0))
        return done


@asynccontextmanager
async def open_agent(
    loaded: Loaded,
    environ: Mapping[str, str],
    world: World,
    *,
    tools: Mapping[str, Tool] | None = None,
    tell: Callable[[str], object] | None = None,
) -> AsyncIterator[Agent]:
    """The agent that this configuration asks for, with these tools, or with all there are. `tell` is told
    who answers, and why."""
    chosen = await choose(loaded.config.model, loaded.origins, environ)
    log.info("the model is chosen", why=chosen.why)
    if tell is not None:
        tell(chosen.why)
    endpoint, config = chosen.endpoint, loaded.config
    open_model = _opener(endpoint, config, world)
    tools = toolbox() if tools is None else tools
    delegate = delegating(open_model, tools)
    tools = {delegate.name: delegate, **tools}
    yield Agent(
        open_model,
        tools,
        tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in tools.values()),
        world,
        window=endpoint.context_length if endpoint else None,
        most=config.agent.max_turns,
        is_demo=endpoint is None,
    )


def _opener(
    endpoint: Endpoint | None, config: GatewayConfig, world: World
) -> Callable[[], AbstractAsyncContextManager[Model]]:
    """What opens the model for a turn. Only one behind an address needs an HTTP client."""
    if endpoint is None:
        return lambda: nullcontext(Demo(world))
    from .providers.http import Http
    from .providers.opening import open_model

    return partial(open_model, Http(), [endpoint], world, retries=config.agent.api_max_retries)


def _remembered(db: sqlite3.Connection, session_id: str) -> tuple[str | None, Compaction]:
    return sessions.prompt(db, session_id), compactions.get(db, session_id)
