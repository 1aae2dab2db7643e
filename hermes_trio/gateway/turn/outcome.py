"""What a turn leaves behind when it ends, by how it ended: the last rows of its transcript, what the chat is
owed, the run's last event; and the step that makes it true.
"""

from __future__ import annotations

import math
import sqlite3
from dataclasses import astuple

from ...base.events import INTERRUPTED, Event, RunCancelled, RunCompleted, RunFailed
from ...log import Log
from ...state.rules import settle
from ...state.rules.settle import Settlement
from ...state.tables import processes, turns
from ...state.tables.outbox import Owed
from ...state.tables.session_entry import Usage
from ...state.tables.transcript import TranscriptRow
from ...state.tables.turns import Outcome
from ..outbound import texts
from ..outbound.rows import Body, owed, stream_key
from ..outbound.split import chunks
from . import questions
from .context import TurnContext
from .handle import TurnRun

MOST_TOKENS = 1 << 40
"""Nobody uses so many in one turn, and the sum of a session's must not leave what a database can count."""

log = Log(__name__)


def rows_left(run: TurnRun, outcome: Outcome) -> list[TranscriptRow]:
    """What is still to be written into the transcript."""
    turn = run.turn
    if turn is None:
        return []
    if outcome is Outcome.ANSWERED:
        return [turn.row_of("assistant", run.answer, like=TranscriptRow("assistant", "", 0, finish="stop"))]
    if turn.segment and outcome is not Outcome.CUT:
        # What a cut turn had said is recovered from its journal, by whoever reads the session.
        return [
            turn.row_of("assistant", turn.segment, like=TranscriptRow("assistant", "", 0, finish=outcome))
        ]
    return []


def owed_at_the_end(run: TurnRun, outcome: Outcome) -> list[Owed]:
    """What the chat gets: the answer, or the trouble in words, or the end of what was growing."""
    if run.chat is None or run.turn is None:
        return []
    closes, said = stream_key(run.run_id), run.turn.text
    only_closes = outcome not in (Outcome.ANSWERED, Outcome.FAILED, Outcome.TIMED_OUT)
    if only_closes and not said:
        return []
    if only_closes:
        text = texts.cut_off(said)
    elif outcome is Outcome.ANSWERED:
        # With what was said on the way, unless the answer is another text than the last that was said.
        text = said if said.endswith(run.answer) else run.answer
    else:
        text = f"{said}\n\n{run.trouble}" if said else run.trouble
    text = text or texts.nothing_said()
    pieces = chunks(text, run.gateway.traits(run.chat))
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


def last_event(run: TurnRun, outcome: Outcome) -> Event:
    """What whoever watches the run sees last."""
    if outcome is Outcome.ANSWERED:
        return RunCompleted(run.answer, _used(run.turn))
    if outcome is Outcome.FAILED and run.refused is not None:
        return RunFailed(run.trouble, run.refused.code, run.refused.after)
    if outcome in (Outcome.FAILED, Outcome.TIMED_OUT):
        return RunFailed(run.trouble, outcome)
    if outcome in (Outcome.CUT, Outcome.UNSTARTED):
        return RunFailed("The gateway ended before the run did.", INTERRUPTED)
    return RunCancelled()


def counted(turn: TurnContext | None) -> Usage | None:
    """What a turn has used. An agent may say anything: what is no number of tokens is not believed."""
    used = turn.usage if turn is not None else None
    if used is None:
        return None
    *counts, cost = astuple(used) if isinstance(used, Usage) else (None, None)
    if all(type(n) is int and 0 <= n < MOST_TOKENS for n in counts) and (cost is None or _is_cost(cost)):
        return used
    log.warning("an agent says that it has used what nobody can have", used=repr(used)[:500])
    return None


def _is_cost(cost: object) -> bool:
    return isinstance(cost, int | float) and 0 <= cost < math.inf


def _used(turn: TurnContext | None) -> dict[str, int]:
    """What a turn has used, as clients count it; nothing where nobody counted."""
    used = counted(turn)
    if used is None:
        return {}
    output, total = used.output_tokens, used.total_tokens
    return {"input_tokens": total - output, "output_tokens": output, "total_tokens": total}


def settled(
    db: sqlite3.Connection, run_id: str, turn_id: int, settlement: Settlement, at: float
) -> tuple[Outcome | None, bool]:
    """End the turn of this run. Returns the outcome that stands, for the first end wins (None for a run that
    never had a row), and whether something that it asked is owed its end."""
    closes = questions.close_of_turn(db, turn_id, at)
    outcome = settle.settle(db, turn_id, settlement, at)
    if outcome is not None:
        if outcome is Outcome.ANSWERED:
            processes.tell_turn(db, turn_id, at)
        return outcome, closes
    turn = turns.by_run(db, run_id)  # it has an end; or who was cut did not learn its number
    if turn is None:
        return None, closes
    if turn.outcome is None:
        outcome = settle.settle(db, turn.turn_id, settlement, at)
    return turn.outcome or outcome or settlement.outcome, closes
