"""The agent of a gateway: an async function of a turn, and what else an agent may offer.

Types and one check; it runs nothing.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import Protocol, cast, runtime_checkable

from ...base.errors import AgentInvalid
from ...state.db.database import Database
from ...state.tables.session_entry import SessionEntry
from ...state.tables.transcript import TranscriptRow
from .context import TurnContext

Agent = Callable[[TurnContext], Awaitable[str | None]]
"""An async function that answers a turn. It returns the answer; None if its last words are the answer."""
PiecesAgent = Callable[[TurnContext], AsyncGenerator[str]]
"""An async generator that yields the pieces of the answer."""
AnyAgent = Agent | PiecesAgent | AbstractAsyncContextManager[Agent]
"""The agent of a gateway: a function, a generator, or a context that yields a function."""


def checked_agent(agent: object) -> Agent:
    """Return the agent if it is an async callable, or an agent that says the pieces of an async generator.
    Else raise `AgentInvalid`: a blocking function would fail in each turn, and people would see it."""
    if not callable(agent):
        raise AgentInvalid(agent, "it cannot be called")
    function = inspect.unwrap(agent)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    call = getattr(type(function), "__call__")  # noqa: B004, B009 - of an object whose call may be async
    if inspect.isasyncgenfunction(function) or inspect.isasyncgenfunction(call):
        return partial(_say_pieces, agent)
    if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(call):
        raise AgentInvalid(agent, "it is no async function")
    return cast(Agent, agent)


async def _say_pieces(agent: Callable[[TurnContext], AsyncGenerator[str]], turn: TurnContext) -> None:
    """Say each piece that an async generator yields."""
    async with aclosing(agent(turn)) as pieces:
        async for piece in pieces:
            await turn.say(piece)


class CompressionResult(Protocol):
    """The result of shortening a session: about how many tokens its model was sent before, and is sent
    now."""

    @property
    def before(self) -> int: ...
    @property
    def after(self) -> int: ...
    @property
    def trouble(self) -> str:
        """Reason why it could not be shortened further; empty if it could."""


@runtime_checkable
class Compresses(Protocol):
    """An agent that can shorten the part of a session that its model is sent."""

    async def compress(
        self, entry: SessionEntry, rows: Sequence[TranscriptRow], database: Database, focus: str
    ) -> CompressionResult | None:
        """Shorten it; return None if there is no model."""


def asks_at_once(agent: object) -> bool:
    """Return whether an agent says that it does nothing before its first request to a model that must not be
    repeated: it has a true attribute `asks_at_once`."""
    return getattr(agent, "asks_at_once", False) is True


@runtime_checkable
class TellsModel(Protocol):
    """An agent that knows which model answers."""

    @property
    def model(self) -> str:
        """The name of the model; `demo` if there is none."""

    @property
    def about(self) -> str:
        """The model and why it was chosen, in a sentence."""
