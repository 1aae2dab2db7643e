"""The conversation before a turn, as messages. It is kept between the turns of a session, and each turn adds
only the rows that are new.

The rows of the turn are the truth: what is kept is used only if it was made of the first of these rows, with
the same compaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ..state.tables.compactions import Compaction
from ..state.tables.transcript import TranscriptRow
from .compaction import tokens
from .history import WHOLE, disarmed_rows, first_kept, messages_for, summary_of
from .providers.earlier_messages import EarlierMessages
from .providers.model_messages import Message

MOST_BYTES = 64 << 20
"""Limit for the conversations of all sessions that are kept."""
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

    @property
    def size(self) -> int:
        """The bytes in memory, about."""
        return self.earlier.bytes + _BYTES_OF_A_MESSAGE * len(self.rows)


def continued(
    past: PastConversation | None,
    history: Sequence[TranscriptRow],
    opening: TranscriptRow,
    compaction: Compaction,
) -> PastConversation:
    """Return the messages for the rows before a turn. `past` is what was kept of an earlier turn, and is
    changed; `opening` is the first row of the turn."""
    rows, compaction = tuple(history), replace(compaction, wasted=0, not_before=0.0)
    if past is None or past.compaction != compaction or rows[: len(past.rows)] != past.rows:
        past = PastConversation(compaction)
    known = len(past.rows)
    past.disarmed += disarmed_rows(rows[known:])
    past.rows = rows
    if past.split == known:
        past.split = first_kept(past.disarmed, compaction, known)
    if compaction.summary:
        summary = summary_of([*past.disarmed, opening], past.split, compaction)
        if summary != past.summary:
            past.summary, past.messages, past.tokens, past.earlier = summary, [], 0, EarlierMessages()
            _add(past, summary)
            known = 0
    _add(past, messages_for(past.disarmed[max(known, past.split) :], compaction))
    return past


def _add(past: PastConversation, messages: Sequence[Message]) -> None:
    past.messages += messages
    past.tokens += tokens(messages)
    past.earlier.add(messages)
