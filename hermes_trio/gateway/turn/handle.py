"""A turn that is to run, with the handle by which others can end it; and its run: its names, and how it
ends. Values that the tasks of one turn share; what they do with them is in `run` and `settling`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import trio

from ...agent.providers.model_errors import ModelError
from ...base.messages import SessionSource
from ...state.tables.inbox import Received
from ...state.tables.session_entry import SessionEntry
from ...state.tables.turns import Outcome
from ..outbound.lane import Lane
from ..outbound.rows import Chat
from .context import TurnContext
from .questions import OpenQuestion

if TYPE_CHECKING:
    from ..parts import Gateway


@dataclass(slots=True)
class TurnHandle:
    """What a session's actor has to do next, and the handle by which others can end it."""

    rows: Sequence[Received]
    resumes: int | None = None
    """The cut turn that this one takes up again."""
    origin: SessionSource | None = None
    """Where the session lives."""
    run_id: str = ""
    """What its run is called, once it has one."""
    began: float = field(default_factory=trio.current_time)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended_by: Outcome = Outcome.STOPPED
    asked: list[OpenQuestion] = field(default_factory=list)
    """What it waits for a person to answer, the oldest first."""
    steered: list[int] = field(default_factory=list)
    """The messages that are to go into it; it takes them when it can."""
    heard: list[str] = field(default_factory=list)
    """What its processes have written that it waits for; what it does not take is forgotten with it."""
    not_now: list[str] = field(default_factory=list)
    """Why it must not be cut in this moment."""

    @property
    def source(self) -> SessionSource | None:
        """Where the person is who is to hear of it."""
        return self.rows[-1].event.source if self.rows else self.origin

    def end(self, how: Outcome) -> None:
        """End the turn from outside: a person stopped it, or a new message takes its place. The first
        end counts."""
        if not self.scope.cancel_called:
            self.ended_by = how
            self.scope.cancel(reason=how)


@dataclass(slots=True)
class TurnRun:
    """A turn that runs: its names, and how it ends."""

    gateway: Gateway
    entry: SessionEntry
    task: TurnHandle
    chat: Chat | None
    thread_id: str | None
    reply_to: str | None
    run_id: str
    turn_id: int = 0
    turn: TurnContext | None = None
    outcome: Outcome = Outcome.CUT
    answer: str = ""
    trouble: str = ""
    refused: ModelError | None = None
    """Why the model did not answer, if that is why the turn failed."""

    @property
    def lane(self) -> Lane | None:
        """The way to the chat. Asked for each time: an idle lane leaves."""
        return self.gateway.lanes.of(self.chat) if self.chat else None
