"""The conversation before a turn, as messages. It is kept between the turns of a session, and each turn adds
only the rows that are new.

The rows of the turn are the truth: what is kept is used only if it was made of the first of these rows, with
the same compaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import trio

from ..state.tables.compactions import Compaction
from ..state.tables.transcript import TranscriptRow, bytes_of
from .compaction import tokens
from .history import WHOLE, disarmed_rows, first_kept, messages_for, summary_of
from .providers.earlier_messages import EarlierMessages
from .providers.model_messages import Message

MOST_BYTES = 64 << 20
"""Limit for the conversations of all sessions that are kept."""
ROWS_OF_A_STEP = 500
"""Rows that are made into messages at once: some milliseconds."""
_BYTES_OF_A_MESSAGE = 300
"""About the size of a message in memory without its texts, which are those of its row."""


@dataclass(slots=True)
class PastConversation:
    """The messages before a turn."""

    compaction: Compaction = WHOLE
    rows: tuple[TranscriptRow, ...] = ()
    """The rows that the messages were made of."""
    disarmed: list[TranscriptRow] = field(default_factory=list)
    """The same rows, for replay."""
    split: int = 0
    """The index of the first row that the summary does not replace."""
    summary: list[Message] = field(default_factory=list)
    """The first messages, which replace the rows before `split`."""
    messages: list[Message] = field(default_factory=list)
    tokens: int = 0
    """The estimated number of tokens of the messages."""
    earlier: EarlierMessages = field(default_factory=EarlierMessages)
    bytes_of_rows: int = 0
    """About the size of the rows, which may be in memory for this alone."""

    @property
    def size(self) -> int:
        """The bytes in memory, about."""
        return self.bytes_of_rows + self.earlier.bytes + _BYTES_OF_A_MESSAGE * len(self.messages)


async def continued(
    past: PastConversation | None,
    history: Sequence[TranscriptRow],
    opening: TranscriptRow,
    compaction: Compaction,
) -> PastConversation:
    """Return the messages for the rows before a turn. `past` is what was kept of an earlier turn, and may be
    changed; `opening` is the first row of the turn. Many rows are done in steps, so that nobody waits."""
    rows, compaction = tuple(history), replace(compaction, wasted=0, not_before=0.0)
    if (
        past is None
        or past.compaction != compaction
        or rows[: len(past.rows)] != past.rows
        or len(rows) - len(past.rows) >= ROWS_OF_A_STEP
    ):
        past = PastConversation(compaction)
    known, disarmed = len(past.rows), past.disarmed[:]
    for step in _steps(rows, known):
        disarmed += disarmed_rows(step)
        await _pause_after(step)
    split = past.split if past.split < known else first_kept(disarmed, compaction, known)
    summary = summary_of([*disarmed, opening], split, compaction) if compaction.summary else []
    start, bytes_of_rows = max(known, split), past.bytes_of_rows + sum(map(bytes_of, rows[known:]))
    if summary != past.summary:
        past, start = PastConversation(compaction), split
        _add(past, summary)
    past.rows, past.disarmed, past.split, past.summary = rows, disarmed, split, summary
    past.bytes_of_rows = bytes_of_rows
    for step in _steps(disarmed, start):
        _add(past, messages_for(step, compaction))
        await _pause_after(step)
    return past


def _steps(rows: Sequence[TranscriptRow], start: int) -> Iterator[Sequence[TranscriptRow]]:
    return (rows[at : at + ROWS_OF_A_STEP] for at in range(start, len(rows), ROWS_OF_A_STEP))


async def _pause_after(step: Sequence[TranscriptRow]) -> None:
    """Let others run after a whole step. What was kept of an earlier turn gets less than a step at once, so
    a cancellation here leaves nothing half done in it."""
    if len(step) == ROWS_OF_A_STEP:
        await trio.lowlevel.checkpoint()


def _add(past: PastConversation, messages: Sequence[Message]) -> None:
    past.messages += messages
    past.tokens += tokens(messages)
    past.earlier.add(messages)
