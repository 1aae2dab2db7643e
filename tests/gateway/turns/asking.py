"""Agents that ask a person a question or for an approval, and what the database has of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import trio

from hermes_trio.gateway.turn.context import TurnContext
from tests.stage import Agent, Stage

Got = list[Any]


def let_agent_ask(
    stage: Stage, question: Callable[[TurnContext], Awaitable[Any]], *, then_takes: float = 0
) -> list[tuple[Any, float]]:
    """Let the agent ask at the message `work`; return the list of answers with their times."""
    got: list[tuple[Any, float]] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        if turn.said and turn.said[0].text != "work":
            return f"You said: {turn.said[0].text}"
        got.append((await question(turn), trio.current_time()))
        await trio.sleep(then_takes)
        return f"Then {got[-1][0]}."

    stage.opened_agent = nullcontext(agent)
    return got


async def ask_which(turn: TurnContext) -> str | None:
    return await turn.ask("Which one?")


async def ask_approval(turn: TurnContext) -> str | None:
    return await turn.may("rm -rf build")


def requests(stage: Stage) -> list[tuple[str, str | None, str | None, bool]]:
    """Return the kind, the answer, the answering person and the closed flag of each stored request."""
    with stage.looking() as db:
        query = (
            "SELECT kind, answer, answered_by, closed_at IS NOT NULL FROM approvals "
            "ORDER BY asked_at, approval_id"
        )
        return [(*row[:3], bool(row[3])) for row in db.execute(query)]


async def ask_twice(turn: TurnContext) -> Got:
    got: Got = [None, None]

    async def one(number: int) -> None:
        got[number] = await turn.may(f"step {number}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, 0)
        await trio.sleep(1)
        nursery.start_soon(one, 1)
    return got


class AskingAgent(Agent):
    """An agent that asks, and repeats the answer that it got."""

    def __init__(self) -> None:
        super().__init__()
        self.got: list[str | None] = []

    async def __call__(self, turn: TurnContext) -> str:
        await turn.requesting()
        said = turn.said[0].text if turn.said else "resumed"
        if said == "may I":
            self.got.append(await turn.may("rm -rf /tmp/x"))
        elif said == "which":
            self.got.append(await turn.ask("Which colour?", ["red", "blue", "a colour " * 20]))
        elif said == "long":
            self.got.append(await turn.ask("Which? " + "word " * 2000, ["red", "blue"]))
        else:
            return "Nothing to ask."
        return f"It was {self.got[-1]}."


class AlwaysAskingAgent(AskingAgent):
    """An agent that asks for approval at every message."""

    async def __call__(self, turn: TurnContext) -> str:
        await turn.requesting()
        self.got.append(await turn.may("rm -rf /tmp/x"))
        return f"It was {self.got[-1]}."
