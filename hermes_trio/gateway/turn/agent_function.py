"""The agent of a gateway: an async function of a turn, and what else an agent may offer.

Types and one check; it runs nothing.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, cast, runtime_checkable

from ...base.errors import AgentInvalid
from ...state.db.database import Database
from ...state.tables.session_entry import SessionEntry
from ...state.tables.transcript import TranscriptRow
from .context import TurnContext

Agent = Callable[[TurnContext], Awaitable[str | None]]
"""An async function that answers a turn. It returns the answer; None if its last words are the answer."""


def checked_agent(agent: object) -> Agent:
    """Return the agent if it is an async callable, else raise `AgentInvalid`: a blocking function would fail
    in each turn, and people would see it."""
    if not callable(agent):
        raise AgentInvalid(agent, "it cannot be called")
    function = inspect.unwrap(agent)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    call = getattr(type(function), "__call__")  # noqa: B004, B009 - of an object whose call may be async
    if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(call):
        raise AgentInvalid(agent, "it is no async function")
    return cast(Agent, agent)


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
    def about(self) -> str:
        """The model and why it was chosen, in a sentence."""
