"""A scene for tests of the agent: a real gateway, a real model client, and a scripted model server on this
machine.

    async with open_scene(tmp_path) as scene:
        scene.server.answers(Reply().says("Hello."))
        await scene.says("hello", until="Hello.")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import trio
from msgspec import Meta

from hermes_trio.agent.model_agent import Agent, open_agent
from hermes_trio.agent.providers.model import Model
from hermes_trio.agent.toolset import Toolbox
from hermes_trio.base.world import World
from hermes_trio.config.config_file import Loaded
from hermes_trio.config.schema import (
    AgentConfig,
    DisplayConfig,
    FallbackConfig,
    GatewayConfig,
    McpServerConfig,
    ModelConfig,
    PlatformConfig,
    TerminalConfig,
)
from hermes_trio.embed.shielded_tree import open_tree
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.serve import Setup
from hermes_trio.platform.contract import Dialect, Traits
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.model_server import ModelServer, open_model_server
from hermes_trio.tools.tool import Result, Tool, ToolFailed, Workplace
from tests.agent.wire_rules import check
from tests.host.children.kinds import until
from tests.stage import KEY, Busy

Provider = Literal["openai", "anthropic"]

PATIENCE = 30.0
API_KEY = "sk-test-0123456789"


class Word(msgspec.Struct, frozen=True):
    word: Annotated[str, Meta(description="Which word.")]


class ToolBench:
    """Tools that record their calls."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.at_once = self.most_at_once = 0
        self.hold = trio.Event()
        """Ends the calls of `wait`."""

    async def _spell(self, arguments: Word, place: Workplace) -> Result:
        self.done.append(arguments.word)
        return Result("-".join(arguments.word))

    async def _look(self, arguments: Word, place: Workplace) -> Result:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await trio.sleep(0.05)
        self.at_once -= 1
        return Result(f"saw {arguments.word}")

    async def _wait(self, arguments: Word, place: Workplace) -> Result:
        self.done.append(f"waits for {arguments.word}")
        await self.hold.wait()
        return Result("at last")

    async def _fail(self, arguments: Word, place: Workplace) -> Result:
        if arguments.word == "badly":
            raise RuntimeError("a mistake of ours")
        raise ToolFailed(f"I cannot {arguments.word}.")

    @property
    def tools(self) -> dict[str, Tool]:
        made = [
            Tool("spell", "Spells a word.", Word, self._spell),
            Tool("look", "Looks for a word.", Word, self._look, reads_only=True, untrusted=True),
            Tool("wait", "Waits.", Word, self._wait),
            Tool("fail", "Fails.", Word, self._fail),
        ]
        return {tool.name: tool for tool in made}


@dataclass
class Scene:
    gateway: RunningGateway
    platform: MemoryPlatform
    server: ModelServer
    bench: ToolBench

    async def says(self, text: str, *, until: str) -> str:
        """Send a message; return the answer when it contains `until` and its turn has ended."""
        await self.platform.says(text)
        return await self.shows(until)

    async def shows(self, part: str) -> str:
        """Wait for a message with this text and for the end of its turn; return the last message."""
        with trio.fail_after(PATIENCE):
            await self.platform.until(lambda: part in (self.platform.chat("42").last or ""))
        await until(lambda: not self.gateway.work.running)
        with trio.fail_after(PATIENCE):
            await self.gateway.chats.flushed()
        return self.platform.chat("42").last or ""

    async def rows(self) -> list[TranscriptRow]:
        entry = await self.gateway.home.store.get_session_entry(KEY.format("42"))
        assert entry is not None
        return await self.gateway.home.store.load_transcript(entry.session_id)

    def check_requests(self) -> None:
        """Check that every request keeps the rules of its wire format."""
        for asked in self.server.requests:
            check(asked.path, asked.body)


@asynccontextmanager
async def open_scene(
    home: Path,
    *,
    provider: Provider = "openai",
    config: AgentConfig | None = None,
    mode: Busy = "queue",
    window: int | None = None,
    tools: Mapping[str, Tool] | None = None,
    servers: Mapping[str, McpServerConfig] | None = None,
    fallback: FallbackConfig | None = None,
    dialect: Dialect = "plain",
    model: Model | None = None,
    terminal: TerminalConfig | None = None,
) -> AsyncIterator[Scene]:
    """Open a gateway with the agent. `model` answers in place of the model server."""
    bench, platform = ToolBench(), MemoryPlatform(traits=Traits(edits=True, fetches=True, dialect=dialect))
    async with open_model_server() as server:
        url = server.openai_url if provider == "openai" else server.anthropic_url
        everything = GatewayConfig(
            model=ModelConfig(
                provider=provider,
                base_url=url,
                name="test-model",
                api_key=API_KEY,
                context_length=window,
                fallback=fallback or FallbackConfig(),
            ),
            agent=config or AgentConfig(),
            display=DisplayConfig(busy_input_mode=mode),
            platforms={"memory": PlatformConfig(allow_from="all", allow_admin_from=("42",))},
            mcp_servers=servers or {},
            terminal=terminal or TerminalConfig(),
        )
        tools = bench.tools if tools is None else tools
        agent: AbstractAsyncContextManager[Agent]
        if model is None:
            loaded = Loaded(everything, (), home / "config.yaml", {"model.provider": "config.yaml"})
            agent = open_agent(loaded, {}, World(), tools=tools)
        else:
            agent = nullcontext(_agent_with(model, tools, everything.agent.max_turns))
        async with open_tree(Setup(home, everything, agent=agent, adapters=[platform])) as gateway:
            yield Scene(gateway, platform, server, bench)


def _agent_with(model: Model, tools: Mapping[str, Tool], most: int) -> Agent:
    def open_model() -> nullcontext[Model]:
        return nullcontext(model)

    return Agent(open_model, Toolbox(open_model, tools), World(), window=None, most=most)


def contents(rows: list[TranscriptRow]) -> list[tuple[str, str]]:
    return [(row.role, row.content) for row in rows]
