"""The outcome of a turn: the last rows of its transcript, the messages owed to its chat, the last event of
its run, and the transaction that stores the end. All but that transaction is pure."""

from __future__ import annotations

import math
from dataclasses import astuple
from typing import NamedTuple

from ...base.events import INTERRUPTED, Event, RunCancelled, RunCompleted, RunFailed
from ...log import Log
from ...state.db.engine import Db
from ...state.rules import settle
from ...state.rules.settle import Settlement
from ...state.tables import inbox, processes, turns
from ...state.tables.outbox import Owed
from ...state.tables.session_entry import Usage
from ...state.tables.transcript import TranscriptRow
from ...state.tables.turns import Outcome
from ..outbound import texts
from ..outbound.rows import Body, owed
from ..outbound.split import chunks
from .context import TurnContext
from .open_question import remove_buttons
from .turn_run import TurnRun

MOST_TOKENS = 1 << 40
"""Limit of a believable token count: the sum over a session must fit into a database integer."""

log = Log(__name__)


def settlement_of(
    run: TurnRun,
    turn: TurnContext | None,
    outcome: Outcome,
    rows: tuple[TranscriptRow, ...],
    cut_reason: str,
) -> Settlement:
    """Return everything that the end of a turn changes. `turn` is None if the agent was never started."""
    return Settlement(
        outcome,
        cut_reason if outcome in (Outcome.CUT, Outcome.UNSTARTED) else run.trouble or None,
        rows=rows,
        owed=tuple(_owed(run, turn, outcome)) if turn is not None else (),
        usage=_usage(turn),
    )


def _owed(run: TurnRun, turn: TurnContext, outcome: Outcome) -> list[Owed]:
    """Return the outbox rows for the chat: the answer, the error text, or the end of the streamed message."""
    if run.chat is None or run.connection is None or run.connection.adapter.traits.shows_transcript:
        return []
    only_closes = outcome not in (Outcome.ANSWERED, Outcome.FAILED, Outcome.TIMED_OUT)
    if only_closes and (run.stream is None or not turn.text):
        return []  # no text was shown in the chat, so there is nothing to close
    if only_closes:
        text = texts.cut_off(turn.text)
    elif outcome is Outcome.ANSWERED:
        # With the text written on the way, unless the answer differs from its end.
        text = turn.text if turn.text.endswith(run.answer) else run.answer
    else:
        text = f"{turn.text}\n\n{run.trouble}" if turn.text else run.trouble
    # The text of a draft is in no message. It is sent as one, so that it stays.
    only_closes = only_closes and not (run.stream is not None and run.stream.draft)
    # Only a message that grew, or a placeholder, is there to be replaced.
    is_edited = run.stream is not None or run.connection.adapter.traits.placeholder
    closes = run.stream_key if is_edited else None
    pieces = chunks(text or texts.no_answer(), run.connection.adapter.traits)
    return [
        owed(
            run.chat,
            f"{run.run_id}:{number}",
            Body(piece, closes if number == 1 else None, only_closes and number == 1),
            thread_id=run.thread_id,
            reply_to=run.reply_to if number == 1 else None,
            session_id=run.entry.session_id,
            turn_id=run.turn_id,
        )
        for number, piece in enumerate(pieces[:1] if only_closes else pieces, start=1)
    ]


def last_event(run: TurnRun, usage: Usage | None, outcome: Outcome) -> Event:
    """Return the last event of a run."""
    if outcome is Outcome.ANSWERED:
        return RunCompleted(run.answer, _counts(usage))
    if outcome is Outcome.FAILED and run.refusal is not None:
        return RunFailed(run.trouble, run.refusal.code, run.refusal.after)
    if outcome in (Outcome.FAILED, Outcome.TIMED_OUT):
        return RunFailed(run.trouble, outcome)
    if outcome in (Outcome.CUT, Outcome.UNSTARTED):
        return RunFailed("The gateway ended before the run did.", INTERRUPTED)
    return RunCancelled()


def _usage(turn: TurnContext | None) -> Usage | None:
    """Return the token counts that an agent has set, or None if they are no possible counts."""
    used = turn.usage if turn is not None else None
    if used is None:
        return None
    *counts, cost = astuple(used) if isinstance(used, Usage) else (None, None)
    if all(type(n) is int and 0 <= n < MOST_TOKENS for n in counts) and (cost is None or _is_cost(cost)):
        return used
    log.warning("usage ignored; impossible counts", used=repr(used)[:500])
    return None


def _is_cost(cost: object) -> bool:
    return isinstance(cost, int | float) and 0 <= cost < math.inf


def _counts(usage: Usage | None) -> dict[str, int]:
    """Return token counts as clients read them; empty if unknown."""
    if usage is None:
        return {}
    output, total = usage.output_tokens, usage.total_tokens
    return {"input_tokens": total - output, "output_tokens": output, "total_tokens": total}


class StoredEnd(NamedTuple):
    """The end of a turn as it is stored."""

    outcome: Outcome
    closes: bool
    """True if a question of the turn now loses its buttons."""
    more_waits: bool
    """True if a message waits in the session."""


def store_outcome(db: Db, turn_id: int, settlement: Settlement, at: float) -> StoredEnd:
    """End a turn. Return its end: an earlier one if it has ended already."""
    others_wait = inbox.ask_pending_after(db, turn_id)
    ended = settle.settle(db, turn_id, settlement, at)
    if ended is None:
        turn = turns.get(db, turn_id)  # without a row its session was deleted
        return StoredEnd((turn.outcome if turn else None) or Outcome.UNSTARTED, False, True)
    if ended.outcome is Outcome.ANSWERED:
        processes.note_told_in_turn(db, turn_id, at)
    if ended.closed:
        remove_buttons(db, ended.closed, at)
    more_waits = ended.outcome is Outcome.UNSTARTED or others_wait()  # its messages wait again
    return StoredEnd(ended.outcome, bool(ended.closed), more_waits)
