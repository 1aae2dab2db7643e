"""Shortening a conversation: the plan is made, a model writes the summary if one is wanted, and what has
come of it is stored, for the next turn and the next life.

When the model does not write a summary, the conversation stays as it was but for the results that are one
line now. No attempt is made by itself for a while then, nor when two in a row have saved too little.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import trio

from ..log import Log
from ..state.db.database import Database
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
from .providers.model import Model, ModelRequest, TextDelta, UserMessage
from .providers.model_errors import ContextTooLong, ModelError

WITHIN = 300.0
"""Seconds a model may take for a summary."""
LONGEST_TODO = 4_000
SHARES = (1, 4, 16)
"""By what its material is divided, from one try to the next."""

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class ShorteningResult:
    """What came of an attempt."""

    compaction: Compaction
    before: int
    """About how many tokens were sent, and are now."""
    after: int
    trouble: str = ""
    """Why there is no summary where there should be one."""

    @property
    def saved(self) -> bool:
        return self.after < self.before


def may_shorten_automatically(compaction: Compaction, now: float) -> bool:
    """Whether an attempt may be made that nobody asked for."""
    return compaction.wasted < MOST_WASTED and now >= compaction.not_before


@dataclass(frozen=True, slots=True)
class Shortener:
    """Makes the conversation of a session shorter."""

    model: Model
    database: Database
    session_id: str
    now: Callable[[], float]
    use: Callable[[Usage], object]
    """Is told what the model has used for it."""
    active: Callable[[], object] = lambda: None
    """Is called whenever the model gives a sign of life."""

    async def shorten(
        self,
        rows: Sequence[TranscriptRow],
        compaction: Compaction,
        *,
        window: int | None,
        attempt: int = 0,
        focus: str = "",
    ) -> ShorteningResult:
        """Make what is sent of these rows shorter than `compaction` does, and store how."""
        before = tokens(messages_of(rows, compaction))
        made, trouble = plan(rows, compaction, attempt), ""
        new = made.lighter if made else compaction
        if made and made.old:
            summary = ""
            try:
                summary = await self._summary(made, window, focus)
                trouble = "" if summary else "The model wrote no summary."
            except ModelError as error:
                trouble = str(error)
            todo = await self.database.read(_still_to_do, self.session_id)
            with_summary = replace(made.with_summary(summary[: longest_summary(window)]), todo=todo)
            if summary and tokens(messages_of(rows, with_summary)) < before:
                new = with_summary
        after = tokens(messages_of(rows, new))
        new = (
            replace(new, not_before=self.now() + COOLDOWN) if trouble else record_savings(before, after, new)
        )
        await self.database.write(compactions.put, self.session_id, new)
        log.info(
            "a conversation was shortened",
            session=self.session_id,
            before=before,
            after=after,
            trouble=trouble,
        )
        return ShorteningResult(new, before, after, trouble)

    async def _summary(self, made: Plan, window: int | None, focus: str) -> str:
        """What the model writes; it gets less to read where that was too much. Raises `ModelError`."""
        for share in SHARES[:-1]:
            with suppress(ContextTooLong):
                return await self._written(summary_prompt(made, window, focus, share))
        return await self._written(summary_prompt(made, window, focus, SHARES[-1]))

    async def _written(self, wanted: str) -> str:
        request, text = ModelRequest(messages=(UserMessage(wanted),), system=SUMMARISER), ""
        with trio.move_on_after(WITHIN) as patience:
            async with self.model.stream(request) as items:
                async for item in items:
                    self.active()
                    if isinstance(item, TextDelta):
                        text += item.text
                    elif isinstance(item, Usage):
                        self.use(item)
        return "" if patience.cancelled_caught else text.strip()


def _still_to_do(db: sqlite3.Connection, session_id: str) -> str:
    items = (item for item in todos.get(db, session_id) if item.status in ("pending", "in_progress"))
    return "\n".join(f"- {item.id} ({item.status}): {item.content}" for item in items)[:LONGEST_TODO]
