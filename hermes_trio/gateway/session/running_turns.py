"""The turns that run now: their handles, their open questions, and the limit of their number. May touch the
status board and the report of the shutdown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from ...base.messages import SessionSource
from ...base.pulse import Pulse
from ...state.tables.turns import Outcome
from ..ending.shutdown import Shutdown
from ..home.open_home import Home
from ..outbound.rows import place_of
from ..turn.handle import TurnHandle
from ..turn.open_question import OpenQuestion
from .turn_limit import TurnLimit

BACKGROUND = "agent:main:background:"
"""Prefix of the keys of sessions that work in the background of a chat's conversation."""


class RunningTurns:
    """The handles of the running turns by session key. A turn runs in a `turn` block."""

    def __init__(self, home: Home, shutdown: Shutdown) -> None:
        self.limit = TurnLimit(home.config.gateway.max_running_turns)
        self.resumes = trio.CapacityLimiter(home.config.gateway.resume_at_once)
        self._key_of: Callable[[SessionSource], str] = home.store.key_of
        self._board, self._shutdown = home.board, shutdown
        self._handles: dict[str, TurnHandle] = {}
        self.changed = Pulse()
        """Set when a turn is listed, has begun, or is not listed any more."""

    def __len__(self) -> int:
        return len(self._handles)

    def items(self) -> list[tuple[str, TurnHandle]]:
        """Return the running turns with their session keys."""
        return list(self._handles.items())

    def handles(self) -> list[TurnHandle]:
        """Return the handles of the running turns."""
        return list(self._handles.values())

    def handle(self, key: str) -> TurnHandle | None:
        """Return the handle of the turn that runs in this session, if one does."""
        return self._handles.get(key)

    def end(self, key: str, outcome: Outcome) -> bool:
        """End the turn that runs in this session. Return False if none does."""
        handle = self._handles.get(key)
        if handle is not None:
            handle.end(outcome)
        return handle is not None

    @contextmanager
    def turn(self, key: str, handle: TurnHandle) -> Iterator[None]:
        """List a turn as running during the block."""
        self._handles[key] = handle
        self._note_change()
        try:
            yield
        finally:
            del self._handles[key]
            self._note_change()
            if self._shutdown.begun.is_set():
                self._shutdown.report.end_turn(key)

    def _note_change(self) -> None:
        self._board.set(active_turns=len(self._handles))
        self.changed.set()

    def in_background(self, key: str) -> list[tuple[str, TurnHandle]]:
        """Return the turns in the background of the conversation of this key, with their own keys."""
        return [
            (other, handle)
            for other, handle in self._handles.items()
            if other.startswith(BACKGROUND)
            and handle.source is not None
            and self._key_of(handle.source) == key
        ]

    def open_questions(self, key: str) -> list[OpenQuestion]:
        """Return the open questions in the conversation of this key: those of its own turn, oldest first,
        then those of turns in its background."""
        own = self._handles.get(key)
        others = [question for _, handle in self.in_background(key) for question in handle.questions]
        return [*(own.questions if own is not None else ()), *sorted(others, key=lambda one: one.at)]

    def approvals_in(self, source: SessionSource) -> list[OpenQuestion]:
        """Return the open approvals of the turns of all people in this chat and topic."""
        place = place_of(source)
        return [
            question
            for handle in self._handles.values()
            if handle.source is not None and place_of(handle.source) == place
            for question in handle.questions
            if question.kind == "approval"
        ]
