"""A real gateway with an agent that follows the test: each message of the test is a list of calls, which the
agent makes in one turn, with the turn as their workplace. Other messages are recorded."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from typing import Any

import trio

from hermes_trio.base.errors import GatewayError
from hermes_trio.embed.shielded_tree import open_tree
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.serve import Setup
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.tools.builtin.process import Processes
from hermes_trio.tools.builtin.terminal import Terminal
from hermes_trio.tools.tool import Result, Tool
from tests.stage import Stage

PATIENCE = 30.0
"""Seconds after which a test fails, even on a busy machine."""


@dataclass
class Bench:
    """The agent, and the results of its calls."""

    stage: Stage
    gateway: RunningGateway | None = None
    results: list[Result] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)
    """Messages that started a turn and were no list of calls, as the model gets them: with the gateway's
    note."""
    within: list[str] = field(default_factory=list)
    """Messages that went into a running turn."""
    prompts: list[str] = field(default_factory=list)
    tools: dict[str, Tool] = field(default_factory=dict)

    async def __call__(self, turn: TurnContext) -> str:
        await turn.requesting()
        self.prompts.append(turn.prompt)
        said = " ".join(event.text for event in turn.said)
        if not said.startswith("["):
            self.heard.append(turn.prompt)
            return f"Heard: {said[:60]}"
        for arguments in json.loads(said):
            if "sleep" in arguments:
                await trio.sleep(arguments["sleep"])
            elif "until" in arguments:
                while not any(arguments["until"] in text for text in self.within):
                    self.within += await turn.steered()
                    await trio.sleep(0.02)
            else:
                self.results.append(await self._made(turn, dict(arguments)))
        self.within += await turn.steered()
        return f"Made {len(self.results)} calls."

    async def _made(self, turn: TurnContext, arguments: dict[str, Any]) -> Result:
        tool = self.tools["process" if "action" in arguments else "terminal"]
        if arguments.get("process_id") == "last":
            arguments["process_id"] = turn.background()[-1].id
        elif arguments.get("process_id") == "first":
            ((arguments["process_id"],),) = self.rows(
                "SELECT process_id FROM processes WHERE background ORDER BY started_at LIMIT 1"
            )
        try:
            return await tool.run(tool.read(json.dumps(arguments)), turn)
        except GatewayError as error:
            return Result(str(error), is_error=True)

    @asynccontextmanager
    async def life(self) -> AsyncIterator[RunningGateway]:
        """Open the gateway for one life."""
        stage = self.stage
        setup = Setup(stage.home, stage.config, agent=self, adapters=[stage.platform])
        async with open_tree(setup) as gateway:
            self.gateway = gateway
            self.tools = {tool.name: tool for tool in (*Terminal().tools, Processes().tool)}
            yield gateway

    async def begin(self, *calls: dict[str, Any], chat: str = "42") -> None:
        """Start a turn with these calls, and do not wait for it."""
        await self.stage.platform.says(json.dumps(calls), chat=chat)

    async def do(self, *calls: dict[str, Any], chat: str = "42") -> list[Result]:
        """Run a turn with these calls, and return their results after it."""
        before = len(self.results)
        with trio.fail_after(PATIENCE):
            await self.begin(*calls, chat=chat)
            made = sum("sleep" not in call and "until" not in call for call in calls)
            answer = f"Made {before + made} calls."
            await self.stage.platform.until(lambda: self.stage.platform.chat(chat).last == answer)
            await self.quiet()
        return self.results[before:]

    async def run(self, command: str, **how: Any) -> Result:
        """Run one command in a turn of its own."""
        (result,) = await self.do({"command": command, **how})
        return result

    async def quiet(self) -> None:
        """Wait until no turn runs and no message is pending."""
        with trio.fail_after(PATIENCE):
            while self.busy():  # noqa: ASYNC110 - no event tells the end of a turn
                await trio.sleep(0.02)

    def busy(self) -> bool:
        assert self.gateway is not None
        waiting = self.rows("SELECT 1 FROM inbox WHERE state = 'pending'")
        return bool(self.gateway.work.running or waiting)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.stage.home / "gateway.db")) as db:
            return db.execute(query).fetchall()

    async def until(self, condition: Any) -> None:
        with trio.fail_after(PATIENCE):
            while not condition():  # noqa: ASYNC110 - no event covers every condition
                await trio.sleep(0.02)
