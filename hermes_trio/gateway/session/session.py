"""One session that is being looked after: what it does now, what is asked of it next, and who has come
meanwhile. It decides what becomes of a message that meets a turn; the task around it is in `session`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal

import trio

from ...base.messages import MessageEvent
from ...state.tables.turns import Outcome, TurnRow
from ..outbound import texts
from ..turn.handle import TurnHandle

TELL_EVERY = 30.0
"""Seconds in which nobody is told twice in a session what becomes of a message."""
FOLLOW_UP = 3.0
"""Seconds after the begin of a turn in which another message is a part of what was being said."""

Job = Callable[[], Awaitable[None]]
Mode = Literal["interrupt", "queue", "steer"]


class Session:
    """A session that is being looked after."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.task: TurnHandle | None = None
        """The turn that runs now."""
        self.resume: TurnRow | None = None
        """The cut turn that is to be taken up first."""
        self.jobs: deque[Job] = deque()
        """What is to be done when the turn that runs has ended."""
        self.came: list[tuple[MessageEvent, int, Mode]] = []
        """Who came while no turn ran: the next one may begin without them."""
        self._told_at = -math.inf
        self._hint = trio.Event()

    @property
    def is_woken(self) -> bool:
        """Whether there may be something to do."""
        return self._hint.is_set()

    def wake(self) -> None:
        """There may be something to do."""
        self._hint.set()

    async def woken(self) -> None:
        """Wait for that."""
        await self._hint.wait()
        self._hint = trio.Event()

    def may_tell(self) -> bool:
        """Whether somebody may be told here what becomes of a message: nobody was, a moment ago."""
        now = trio.current_time()
        if now - self._told_at < TELL_EVERY:
            return False
        self._told_at = now
        return True

    def begin(self, task: TurnHandle) -> None:
        """A turn begins. Who came too late for it meets it now."""
        self.task = task
        for one in self.came:
            self.meet(*one)

    def meet(self, event: MessageEvent, inbox_id: int, mode: Mode) -> str | None:
        """A message has come, and is stored: let it meet the turn that runs. Returns what to tell of it."""
        task = self.task
        if event.kind == "internal":
            return None  # nobody is interrupted by it
        if task is None:
            self.came.append((event, inbox_id, mode))
            return None
        if any(row.inbox_id == inbox_id for row in task.rows):
            return None  # it has begun with this very message, while that was being stored
        if mode == "steer" and event.text.strip() and not event.attachments:
            task.steered.append(inbox_id)
            return texts.steered()
        if mode != "interrupt":
            return texts.queued()
        if task.not_now:
            return texts.not_now(task.not_now[-1])
        task.end(Outcome.SUPERSEDED)
        # Just after the begin it is a part of what was being said, and nothing to speak of.
        return texts.interrupting() if trio.current_time() - task.began > FOLLOW_UP else None
