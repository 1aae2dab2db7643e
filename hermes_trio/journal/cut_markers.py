"""Markers: the transcript rows that tell a person what is known of a cut answer.

A marker is not stored. It is made from the turn's recovery and shown after the rows of that turn. So a cut
turn has exactly one marker, it is always up to date, and it is never sent to a model.
"""

from __future__ import annotations

from ..state.tables.session_entry import ResumeReason
from ..state.tables.transcript import TranscriptRow
from ..state.tables.turns import Recovery, TurnRow

_OPENING = "Response interrupted before this turn finished."

INTERRUPTED_RECOVERED_WORDING = (
    f"{_OPENING} What had been written until then was recovered from the run journal."
)
INTERRUPTED_NO_OUTPUT_WORDING = (
    f"{_OPENING} Your message is kept, but no agent output was recovered: there was none yet."
)
INTERRUPTED_PENDING_RETRY_WORDING = f"{_OPENING} Recovering the partial output: reload in a moment to see it."
INTERRUPTED_NEUTRAL_WORDING = f"{_OPENING} Partial output may have been lost."

_WORDINGS = {
    Recovery.RECOVERED: INTERRUPTED_RECOVERED_WORDING,
    Recovery.NO_OUTPUT: INTERRUPTED_NO_OUTPUT_WORDING,
    Recovery.ARRIVING: INTERRUPTED_PENDING_RETRY_WORDING,
    Recovery.GIVEN_UP: INTERRUPTED_NEUTRAL_WORDING,
    Recovery.CANCELLED: "Cancelled before this turn finished.",
    Recovery.FAILED: "This turn failed before it finished.",
}
"""A run whose journal proves that it completed was not interrupted and has no marker."""

_CAUSES = {
    ResumeReason.RESTART: "The gateway was restarted.",
    ResumeReason.SHUTDOWN: "The gateway was shut down.",
    ResumeReason.CRASH: "The gateway ended unexpectedly.",
}


def marker(turn: TurnRow) -> TranscriptRow | None:
    """Return the marker of a cut turn; None for a turn that needs none."""
    wording = _WORDINGS.get(turn.recovery) if turn.recovery else None
    if wording is None or turn.recovery is None:
        return None
    if turn.recovery is Recovery.FAILED:
        wording = f"{wording} {turn.recovery_note or ''}".rstrip()
    elif turn.recovery in (Recovery.RECOVERED, Recovery.NO_OUTPUT):
        wording = f"{wording} {_CAUSES.get(turn.reason or '', '')}".rstrip()  # type: ignore[call-overload]
    return TranscriptRow(
        role="assistant",
        content=wording,
        created_at=int(turn.ended_at or turn.started_at),
        turn_id=turn.turn_id,
        run_id=turn.run_id,
        marker=turn.recovery,
    )
