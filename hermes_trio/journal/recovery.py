"""Recovery: pure functions from the journal of a cut run to transcript rows and a recovery state.

`fold` turns the events that the transcript does not contain yet into rows and tool cards. It starts after the
last place that the transcript has of that turn, so stored output is never found again, and no text is
compared, because people and models repeat themselves. Folding the same journal again gives the same rows;
folding a longer one gives these rows and more.

`next_step` decides the recovery state of a cut run, and when to stop reading its journal:

| the journal | recovery state |
|---|---|
| has output, or proves how the run ended | recovered; completed, cancelled or failed |
| is complete, and the transcript contains all of it | recovered |
| is complete, says that the run was cut, and has no output | no output |
| is missing or empty | still arriving; costs nothing, for at most a day |
| exists, but is useless | still arriving, for at most twelve readings, then given up |
| has changed since | decided again, with the new events; rows and states found before stay |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ..base.events import (
    KNOWN,
    Event,
    MessageDelta,
    ReasoningAvailable,
    RunFailed,
    ToolCompleted,
    ToolStarted,
)
from ..state.tables.transcript import ToolCard, TranscriptRow
from ..state.tables.turns import Recovery, TurnRow
from .reader import Reading
from .record import Record, TerminalState

JOURNAL_RETRY_MAX_ATTEMPTS = 12
JOURNAL_RETRY_GIVEUP_SECONDS = 86_400

_MAX_ARGS = 4
_MAX_ARG_TEXT = 120


@dataclass(frozen=True, slots=True)
class AlreadyStored:
    """The part of a turn that the transcript contains already."""

    place: int = 0
    call_ids: frozenset[str] = frozenset()
    found: tuple[TranscriptRow, ...] = ()
    """The rows that an earlier reading of the journal has recovered."""


@dataclass(slots=True)
class _Draft:
    """A recovered row under construction."""

    created_at: float
    place: int
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    cards: list[ToolCard] = field(default_factory=list)
    closed: bool = False
    """True after a tool call: later text begins another row."""

    @classmethod
    def of(cls, row: TranscriptRow) -> _Draft:
        """Return the draft of a row that was recovered before. Only its tool calls can still change."""
        reasoning = [row.reasoning] if row.reasoning else []
        return cls(row.created_at, row.place, [row.content], reasoning, list(row.cards), closed=True)

    def row(self, turn: TurnRow) -> TranscriptRow:
        return TranscriptRow(
            role="assistant",
            content="".join(self.text).strip(),
            created_at=int(self.created_at),
            turn_id=turn.turn_id,
            run_id=turn.run_id,
            place=self.place,
            reasoning="".join(self.reasoning).strip() or None,
            cards=tuple(self.cards),
            recovered=True,
        )


def already_stored(rows: Iterable[TranscriptRow], turn: TurnRow) -> AlreadyStored:
    """Return the part of a turn that is in its transcript, and the recovered rows among it."""
    of_turn = [row for row in rows if row.turn_id == turn.turn_id and not row.marker]
    own = [row for row in of_turn if not row.recovered]
    return AlreadyStored(
        place=max((row.place for row in own), default=0),
        call_ids=frozenset(call.id for row in own for call in row.tool_calls),
        found=tuple(replace(row, id=None) for row in of_turn if row.recovered),
    )


def fold(records: Iterable[Record], turn: TurnRow, stored: AlreadyStored) -> list[TranscriptRow]:
    """Return the rows of a turn that are in its journal and not in its transcript, in order."""
    return _fold(records, turn, stored, [])


def _fold(
    records: Iterable[Record], turn: TurnRow, stored: AlreadyStored, drafts: list[_Draft]
) -> list[TranscriptRow]:
    def speaking(record: Record) -> _Draft:
        if not drafts or drafts[-1].closed:
            drafts.append(_Draft(record.created_at, record.seq))
        drafts[-1].place = record.seq
        return drafts[-1]

    for record in records:
        event = _event(record)
        if record.seq <= stored.place or event is None:
            continue
        if isinstance(event, MessageDelta) and (event.delta.strip() or _has_text(drafts)):
            speaking(record).text.append(event.delta)
        elif isinstance(event, ReasoningAvailable) and (event.text.strip() or _has_reasoning(drafts)):
            speaking(record).reasoning.append(event.text)
        elif isinstance(event, ToolStarted | ToolCompleted) and event.call_id not in stored.call_ids:
            draft = drafts[-1] if drafts else speaking(record)
            draft.place = record.seq
            if isinstance(event, ToolCompleted) and _close(drafts, event):
                continue
            draft.closed = True
            if isinstance(event, ToolStarted):
                draft.cards.append(_opened(event, record))
            else:
                draft.cards.append(_closed(_opened(ToolStarted(event.tool or "tool"), record), event))
    return [draft.row(turn) for draft in drafts]


def _has_text(drafts: list[_Draft]) -> bool:
    """Return whether the open row has text: whitespace is kept inside a text, and does not begin one."""
    return bool(drafts) and not drafts[-1].closed and bool(drafts[-1].text)


def _has_reasoning(drafts: list[_Draft]) -> bool:
    return bool(drafts) and not drafts[-1].closed and bool(drafts[-1].reasoning)


def _event(record: Record) -> Event | None:
    kind = KNOWN.get(record.event)
    if kind is None:
        return None
    try:
        return msgspec.convert(record.payload, kind)
    except msgspec.ValidationError:
        return None  # a payload of an unknown shape costs only this event


def _opened(event: ToolStarted, record: Record) -> ToolCard:
    return ToolCard(
        id=event.call_id or f"journal-{record.seq}",
        name=event.tool,
        preview=event.preview,
        args={key: _short(value) for key, value in list(event.args.items())[:_MAX_ARGS]},
    )


def _close(drafts: list[_Draft], event: ToolCompleted) -> bool:
    """Close the card of a tool call: the card with its id, or, in a journal without ids, the newest open card
    of that tool. Return False if the start of the call is not in the journal."""
    for draft in reversed(drafts):
        for at in range(len(draft.cards) - 1, -1, -1):
            card = draft.cards[at]
            same = card.id == event.call_id if event.call_id else event.tool in (card.name, None)
            if same and not card.done:
                draft.cards[at] = _closed(card, event)
                return True
    return False


def _closed(card: ToolCard, event: ToolCompleted) -> ToolCard:
    return replace(
        card,
        id=event.call_id or card.id,
        done=True,
        is_error=event.error,
        duration=event.duration,
        preview=event.preview or card.preview,
        snippet=event.snippet or card.snippet,
    )


def _short(value: Any) -> str:
    try:
        text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    except RecursionError:
        return "..."
    return text if len(text) <= _MAX_ARG_TEXT else text[:_MAX_ARG_TEXT] + "..."


# --- the state of a recovery -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecoveryStep:
    """The result of one step of a recovery: the turn, and its recovered rows; None leaves the rows as they
    are."""

    turn: TurnRow
    rows: tuple[TranscriptRow, ...] | None = None


_PROVEN: Mapping[str | None, Recovery] = {
    TerminalState.COMPLETED: Recovery.COMPLETED,
    TerminalState.CANCELLED: Recovery.CANCELLED,
    TerminalState.FAILED: Recovery.FAILED,
}


def is_worth_reading(turn: TurnRow, size: int, now: float) -> bool:
    """Return whether a journal of now `size` bytes may contain more of this turn than was recovered."""
    if turn.recovery is None or turn.recovery is Recovery.GIVEN_UP or size == 0:
        return False
    return not _too_old(turn, now) and (turn.recovery is Recovery.ARRIVING or size != turn.recovery_bytes)


def step_without_reading(turn: TurnRow, now: float) -> RecoveryStep | None:
    """Return the step that needs no reading of the journal, such as giving up after a day; else None."""
    if turn.recovery is not Recovery.ARRIVING:
        return None
    if turn.recovery_since is None or turn.recovery_since > now:
        # The clock was set back. The day of waiting starts now, or it would never end.
        return RecoveryStep(replace(turn, recovery_since=now))
    spent = turn.recovery_attempts >= JOURNAL_RETRY_MAX_ATTEMPTS
    return RecoveryStep(replace(turn, recovery=Recovery.GIVEN_UP)) if spent or _too_old(turn, now) else None


def next_step(turn: TurnRow, reading: Reading, stored: AlreadyStored) -> RecoveryStep:
    """Return the step that follows from this reading of a cut run's journal. It takes back nothing that an
    earlier reading has found or proved: a journal can be damaged after it was read."""
    rows = _rows(reading, turn, stored)
    new = None if rows == stored.found else rows
    looked = replace(turn, recovery_bytes=reading.size)
    terminal = reading.terminal
    if terminal is not None and terminal.terminal_state in _PROVEN:
        proven = _PROVEN[terminal.terminal_state]
        return RecoveryStep(replace(looked, recovery=proven, recovery_note=_failure(terminal)), new)
    if turn.recovery in _PROVEN.values():
        return RecoveryStep(looked, new)
    whole = reading.complete and reading.last_seq >= stored.place
    if rows or (stored.place and whole):
        return RecoveryStep(replace(looked, recovery=Recovery.RECOVERED), new)
    if turn.recovery is not Recovery.ARRIVING:
        return RecoveryStep(looked)
    if terminal is not None and whole:
        return RecoveryStep(replace(looked, recovery=Recovery.NO_OUTPUT))
    attempts = turn.recovery_attempts + 1
    spent = attempts >= JOURNAL_RETRY_MAX_ATTEMPTS
    return RecoveryStep(
        replace(
            turn,
            recovery=Recovery.GIVEN_UP if spent else Recovery.ARRIVING,
            recovery_attempts=attempts,
        )
    )


def _rows(reading: Reading, turn: TurnRow, stored: AlreadyStored) -> tuple[TranscriptRow, ...]:
    """Return all recovered rows of a turn."""
    rows = tuple(fold(reading.records, turn, stored))
    if len(rows) >= len(stored.found) and all(map(_contains, rows, stored.found)):
        return rows
    # The journal has lost output that was recovered before. That stays, and new output is added after it.
    after = replace(stored, place=max(stored.place, stored.found[-1].place))
    return tuple(_fold(reading.records, turn, after, [_Draft.of(row) for row in stored.found]))


def _contains(row: TranscriptRow, found: TranscriptRow) -> bool:
    """Return whether `row` contains everything in `found`: it may be longer, and its calls may have ended."""
    return (
        row.content.startswith(found.content)
        and (row.reasoning or "").startswith(found.reasoning or "")
        and row.place >= found.place
        and len(row.cards) >= len(found.cards)
        and all(
            new.id == old.id and new.done >= old.done
            for new, old in zip(row.cards, found.cards, strict=False)
        )
    )


def _failure(terminal: Record) -> str | None:
    event = _event(terminal)
    return event.error if isinstance(event, RunFailed) and event.error else None


def _too_old(turn: TurnRow, now: float) -> bool:
    return turn.recovery_since is not None and (now - turn.recovery_since > JOURNAL_RETRY_GIVEUP_SECONDS)
