"""Shortening of a conversation: make the plan, let a model write the summary if the plan wants one, and store
the compaction for the next turn and the next life.

If the model writes no summary, only old results and arguments are shortened. Then no automatic attempt is
made for a while, nor after two consecutive attempts that saved too little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import trio

from ..log import Log
from ..state.db.database import Database
from ..state.db.engine import Db
from ..state.tables import compactions, todos
from ..state.tables.compactions import Compaction
from ..state.tables.session_entry import Usage
from ..state.tables.transcript import TranscriptRow
from .compaction import (
    COOLDOWN,
    MOST_WASTED,
    SUMMARISER,
    Plan,
    longest_summary,
    plan,
    record_savings,
    summary_prompt,
    tokens,
)
from .history import messages_of
from .providers.model import Model, ModelRequest, TextDelta
from .providers.model_errors import ContextTooLong, ModelError
from .providers.model_messages import UserMessage

WITHIN = 300.0
"""Deadline for a summary, in seconds."""
LONGEST_TODO = 4_000
SHARES = (1, 4, 16)
"""Divisors of the length of the request for a summary, one for each try."""

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class ShorteningResult:
    """The result of an attempt to shorten a conversation."""

    compaction: Compaction
    before: int
    """Estimated tokens of the conversation before the attempt."""
    after: int
    """Estimated tokens of the conversation after the attempt."""
    trouble: str = ""
    """Reason why a summary that the plan wanted was not written; else empty."""

    @property
    def saved(self) -> bool:
        """True if the conversation is shorter than before."""
        return self.after < self.before


def may_shorten_automatically(compaction: Compaction, now: float) -> bool:
    """Return whether an attempt may be made that no person asked for."""
    return compaction.wasted < MOST_WASTED and now >= compaction.not_before


@dataclass(frozen=True, slots=True)
class Shortener:
    """Shortens the conversation of a session."""

    model: Model
    database: Database
    session_id: str
    now: Callable[[], float]
    on_usage: Callable[[Usage], object]
    """Called with the tokens that a summary has used."""
    on_activity: Callable[[], object] = lambda: None
    """Called for each item of the model's answer."""

    async def shorten(
        self,
        rows: Sequence[TranscriptRow],
        compaction: Compaction,
        *,
        window: int | None,
        attempt: int = 0,
        focus: str = "",
    ) -> ShorteningResult:
        """Shorten the conversation of these rows more than `compaction` does, and store the result."""
        before = tokens(messages_of(rows, compaction))
        planned, trouble = plan(rows, compaction, attempt), ""
        new = planned.lighter if planned else compaction
        if planned and planned.old:
            summary = ""
            try:
                summary = await self._summary(planned, window, focus)
                trouble = "" if summary else "The model wrote no summary."
            except ModelError as error:
                trouble = str(error)
            todo = await self.database.read(_open_todos, self.session_id)
            with_summary = replace(planned.with_summary(summary[: longest_summary(window)]), todo=todo)
            if summary and tokens(messages_of(rows, with_summary)) < before:
                new = with_summary
        after = tokens(messages_of(rows, new))
        new = (
            replace(new, not_before=self.now() + COOLDOWN) if trouble else record_savings(before, after, new)
        )
        await self.database.write(compactions.put, self.session_id, new)
        log.info(
            "conversation shortened",
            session=self.session_id,
            before=before,
            after=after,
            trouble=trouble,
        )
        return ShorteningResult(new, before, after, trouble)

    async def _summary(self, planned: Plan, window: int | None, focus: str) -> str:
        """Return the summary that the model writes. A request that is too long is repeated with less
        material. Raises `ModelError`."""
        for share in SHARES[:-1]:
            with suppress(ContextTooLong):
                return await self._answer_to(summary_prompt(planned, window, focus, share))
        return await self._answer_to(summary_prompt(planned, window, focus, SHARES[-1]))

    async def _answer_to(self, prompt: str) -> str:
        """Return the model's answer to one prompt; empty after the deadline."""
        request, text = ModelRequest(messages=(UserMessage(prompt),), system=SUMMARISER), ""
        with trio.move_on_after(WITHIN) as patience:
            async with self.model.stream(request) as items:
                async for item in items:
                    self.on_activity()
                    if isinstance(item, TextDelta):
                        text += item.text
                    elif isinstance(item, Usage):
                        self.on_usage(item)
        return "" if patience.cancelled_caught else text.strip()


def _open_todos(db: Db, session_id: str) -> str:
    """Return the to-do items that are not done, one per line."""
    items = (item for item in todos.get(db, session_id) if item.status in ("pending", "in_progress"))
    return "\n".join(f"- {item.id} ({item.status}): {item.content}" for item in items)[:LONGEST_TODO]
