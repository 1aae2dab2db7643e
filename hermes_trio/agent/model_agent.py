"""The agent: a model, the tools and the memory, opened once for a gateway.

    async with open_agent(...) as agent: ...       # agent(turn) answers one message

HTTP clients and MCP servers live as long as the block; a turn's model lives as long as the turn.

The first request of a turn is the costly part of its beginning. When hundreds of turns begin in one moment,
each pass of the event loop would run a step of every one of them, and a word of a running answer needs
several passes. So only a few turns enter this part in each pass.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import trio

from ..base.byte_cache import ByteCache
from ..base.world import World
from ..config.config_file import Loaded
from ..config.known_secrets import masking_of
from ..config.schema import GatewayConfig
from ..log import Log
from ..state.db.database import Database
from ..state.db.engine import Db
from ..state.tables import compactions, sessions
from ..state.tables.compactions import Compaction
from ..state.tables.session_entry import SessionEntry, Usage
from ..state.tables.transcript import TranscriptRow
from ..tools.all_tools import toolbox
from ..tools.builtin.memory import snapshot
from ..tools.builtin.skill import SKILL
from ..tools.mcp.mcp_servers import open_servers
from ..tools.memory_folder import memory_folder
from ..tools.paths import files_of
from ..tools.skill_folders import Skill, find_skills, skill_places
from ..tools.tool import Tool
from .agent_turn import AgentTurn
from .conversation import Conversation
from .demo_model import DemoModel
from .history import opening_of
from .loop import answer
from .past_conversation import MOST_BYTES, PastConversation, continued
from .prompt import system_prompt
from .providers.choose import choose, fallback
from .providers.endpoint import Endpoint
from .providers.model import Model, ModelRequest
from .shortening import Shortener, ShorteningResult
from .toolset import Toolbox, disabled_tools

ENTER_AT_ONCE = 3
"""Turns that begin to ask their models in one pass of the event loop. Fewer would show words little sooner
and cost more passes."""

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Agent:
    """Answers messages."""

    open_model: Callable[[], AbstractAsyncContextManager[Model]]
    box: Toolbox
    world: World
    window: int | None
    """Context length of the model in tokens, if known."""
    most: int
    """Maximum number of requests to the model in one turn."""
    model: str = "demo"
    """The name of the model."""
    about: str = ""
    """A sentence that names the model and the reason for its choice."""
    is_demo: bool = False
    asks_at_once: bool = True
    """Nothing is done before the first request to a model that must not be repeated."""
    past: ByteCache[PastConversation] = field(default_factory=partial(ByteCache, MOST_BYTES))
    """The conversations of sessions that had a turn lately, by session id."""
    entrance: trio.Semaphore = field(default_factory=partial(trio.Semaphore, ENTER_AT_ONCE))
    """Lets turns ask their models in the order of their arrival, `ENTER_AT_ONCE` in each pass of the event
    loop: to enter takes one pass, and who leaves lets the next turn in for the next pass."""

    async def __call__(self, turn: AgentTurn) -> str:
        """Answer one message."""
        prompt, compaction = await turn.database.read(_prompt_and_compaction, turn.session_id)
        if prompt is None:
            # Built once per session: a provider's cache needs the same beginning in every request.
            memory = snapshot(memory_folder(turn.home, turn.config, turn.entry.origin))
            skills = await self._skills(turn)
            now = turn.world.now()
            prompt = system_prompt(turn.home, turn.entry, now, memory, skills, dialect=turn.dialect)
            await turn.database.write(sessions.set_prompt, turn.session_id, prompt)
        # Rows with the role `system` hold the instructions of the API client that opened the conversation.
        instructions = [row.content for row in turn.history if row.role == "system"]
        toolset = await self.box.tools()
        if missing := self.box.missing():
            turn.mention(
                f"⏳ Still being connected, so without its tools in this turn: {', '.join(missing)}."
            )
        async with self.entrance:  # nothing of the turn waits for the database between here and its request
            pass
        request = ModelRequest(
            messages=(),
            files=files_of(turn.home, turn.session_id),
            system="\n\n".join([prompt, *instructions]),
            tools=toolset.specs,
        )
        async with self.open_model() as model:
            opening = opening_of(turn.turn_id, turn.prompt, turn.said)
            past = await continued(self.past.get(turn.session_id), turn.history, opening, compaction)
            conversation = Conversation(turn, model, request, past, compaction, self.window)
            try:
                return await answer(turn, conversation, toolset.tools, most=self.most)
            finally:
                self.past.put(turn.session_id, conversation.past, conversation.past.size)

    async def _skills(self, turn: AgentTurn) -> Sequence[Skill]:
        """Return the skills that a new session knows."""
        if not self.box.has(SKILL.name) or not any(map(Path.is_dir, skill_places(turn.home))):
            return ()
        find = partial(find_skills, turn.home, turn.sandbox)
        found = await trio.to_thread.run_sync(find, abandon_on_cancel=True)
        for refused in found.refused:
            log.warning("skill not loaded", folder=str(refused.folder), why=refused.problem)
        return tuple(found.skills.values())

    async def compress(
        self, entry: SessionEntry, rows: Sequence[TranscriptRow], database: Database, focus: str = ""
    ) -> ShorteningResult | None:
        """Shorten the conversation of a session at a person's request. Return None if the demo answers: it
        sends nothing to a model."""
        if self.is_demo:
            return None
        used: list[Usage] = []
        compaction = await database.read(compactions.get, entry.session_id)
        unlimited = replace(compaction, wasted=0, not_before=0.0)
        async with self.open_model() as model:
            shortener = Shortener(model, database, entry.session_id, self.world.time, used.append)
            done = await shortener.shorten(rows, unlimited, window=self.window, focus=focus)
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
    """Open the agent of this configuration, with these tools or with all. `tell` is called with the choice
    of the model and its reason, and with problems of MCP servers."""
    chosen = await choose(loaded.config.model, loaded.origins, environ)
    log.info("model chosen", why=chosen.why)
    if tell is not None:
        tell(chosen.why)
    endpoint, config = chosen.endpoint, loaded.config
    home = loaded.path.parent
    redact = masking_of(home, config, environ)
    async with (
        _model_opener(endpoint, config, environ, world) as open_model,
        open_servers(config, home, world, redact=redact, tell=tell or log.warning) as servers,
    ):
        yield Agent(
            open_model,
            Toolbox(
                open_model,
                toolbox() if tools is None else tools,
                servers,
                disabled=disabled_tools(config),
            ),
            world,
            window=endpoint.context_length if endpoint else None,
            most=config.agent.max_turns,
            model=endpoint.model if endpoint else "demo",
            about=chosen.why,
            is_demo=endpoint is None,
        )


@asynccontextmanager
async def _model_opener(
    endpoint: Endpoint | None, config: GatewayConfig, environ: Mapping[str, str], world: World
) -> AsyncIterator[Callable[[], AbstractAsyncContextManager[Model]]]:
    """Yield the function that opens the model for a turn. The demo needs no HTTP client, so its modules are
    not imported for it."""
    if endpoint is None:
        yield lambda: nullcontext(DemoModel(world))
        return
    from .providers.model_clients import open_http
    from .providers.open_models import open_model

    other = fallback(config.model, endpoint, environ)
    endpoints = [endpoint, other] if other else [endpoint]
    async with open_http() as http:
        yield partial(open_model, http, endpoints, world, retries=config.agent.api_max_retries)


def _prompt_and_compaction(db: Db, session_id: str) -> tuple[str | None, Compaction]:
    compaction = compactions.ask(db, session_id)
    return sessions.prompt(db, session_id), compaction()
