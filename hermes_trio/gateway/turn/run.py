"""The run of a turn, and the nursery that holds everything about it.

Inside the run's journal is a nursery; in it run the agent, the typing sign, the notices that it is still
working and the watch over its activity. When the agent is done, or a person stops it, or the gateway
ends, the nursery is left, and with it all of that has ended: there is no late work.

What happens is written to the run journal first and shown then. How it ends is one transaction; the
journal's last record follows it. What is cut by the gateway says its last words under a shield with a
deadline.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from ...agent.providers.model_errors import ModelError
from ...base.errors import JournalError, StoreError, is_expected, said_by
from ...journal.writer import RunWriter
from ...log import Log
from ...state.db.column_text import storable
from ...state.rules.settle import Settlement
from ...state.tables import inbox, sessions, transcript, turns
from ...state.tables.session_entry import SessionEntry
from ...state.tables.transcript import TranscriptRow
from ...state.tables.turns import Outcome
from ..outbound import texts
from ..outbound.rows import Chat, Stream, stream_key
from ..outbound.split import fits
from . import progress
from .context import TurnContext
from .handle import TurnHandle, TurnRun
from .outcome import counted, last_event, owed_at_the_end, rows_left, settled

if TYPE_CHECKING:
    from ..parts import Gateway

STORE_AGAIN_AFTER = 30.0

log = Log(__name__)


async def run_turn(gateway: Gateway, entry: SessionEntry, task: TurnHandle, *, prompt: str,
                   history: Sequence[TranscriptRow]) -> Outcome:  # fmt: skip
    """Run one turn from its row to its end, and return how it ended. Raises Cancelled if the gateway
    cut it; then its end is on the disk, or the next start finds that it has none."""
    source = task.source
    chat = Chat.of(source) if source else None
    task.run_id = await _name_of_run(gateway, task)
    run = TurnRun(
        gateway,
        entry,
        task,
        chat,
        source.thread_id if source else None,
        task.rows[-1].event.message_id if task.rows else None,
        task.run_id,
    )
    async with gateway.journals.open_run(entry.session_id, run.run_id) as journal:
        attended = ended = False
        try:
            begun = await gateway.database.write(
                _begin, run.run_id, entry.session_id, gateway.life, task, gateway.world.time()
            )
            if begun is None:
                ended = True
                return Outcome.UNSTARTED
            run.turn_id = begun
            gateway.background.end_watches(entry.session_id)
            await _attended(run, journal, prompt, history)
            attended = True
            outcome = await _end_in_time(run, journal)
            ended = True
            if outcome is Outcome.ANSWERED and run.turn is not None:
                gateway.background.take_over(entry, run.turn.watches)
            return outcome
        finally:
            # Not `except Cancelled`: out of a nursery cancellation comes in groups.
            if not ended:
                if not attended and run.outcome is not Outcome.ANSWERED:
                    # Who was stopped and is still tidying up was not cut: the first end wins.
                    run.outcome = task.ended_by if task.scope.cancel_called else Outcome.CUT
                with trio.CancelScope(deadline=gateway.last_words_by(), shield=True) as last_words:
                    await _end(run, journal)
                if last_words.cancelled_caught:
                    log.warning("a turn was cut without last words", run=run.run_id)


async def _name_of_run(gateway: Gateway, task: TurnHandle) -> str:
    """What the run is called: as its message was promised, unless a run of that name was cut before it had
    begun."""
    promised = task.rows[0].event.run_id if task.rows else None
    if promised is None or await gateway.database.read(turns.by_run, promised) is not None:
        return gateway.world.new_id()
    return promised


async def _attended(run: TurnRun, journal: RunWriter, prompt: str, history: Sequence[TranscriptRow]) -> None:
    """Let the agent run, with everything that runs beside it, and note how that ended."""
    gateway = run.gateway
    streaming = gateway.config.streaming
    stream = Stream(
        stream_key(run.run_id),
        run.thread_id,
        run.reply_to,
        cursor=streaming.cursor,
        interval=streaming.edit_interval,
    )

    def show(text: str) -> None:
        # A text that has outgrown a message stops growing there; the whole of it is what is owed.
        if run.chat is None or not gateway.streams(run.chat):
            return
        if fits(text + stream.cursor, gateway.traits(run.chat)):
            gateway.lanes.of(run.chat).show(stream, text)

    with run.task.scope:
        async with trio.open_nursery() as beside:
            turn = run.turn = TurnContext(
                gateway,
                run.entry,
                run.turn_id,
                run.run_id,
                journal,
                run.task,
                beside,
                prompt=prompt,
                said=[row.event for row in run.task.rows],
                history=history,
                show=show,
            )
            if run.chat is not None:
                for helper in (progress.typing, progress.still_working, progress.warn_of_silence):
                    beside.start_soon(helper, gateway, turn, run.chat, run.thread_id)
            with turn.patience:
                try:
                    run.answer = _text(await gateway.agent(turn)) or turn.segment
                    run.outcome = Outcome.ANSWERED
                except* (Exception, SystemExit) as raised:
                    # Whatever an agent raises is the end of its turn, told to the person, and no more. What
                    # one of its tasks raises while it is cancelled comes with the Cancelled of the others in
                    # one group; that goes on.
                    error = _alone(raised)
                    if isinstance(error, ModelError):
                        run.refused = error
                    log.warning(
                        "the agent raised",
                        run=run.run_id,
                        error=said_by(error),
                        exc_info=not is_expected(error),
                    )
                    run.outcome, run.trouble = Outcome.FAILED, texts.failed(error, gateway.masking)
            if turn.patience.cancelled_caught:
                run.outcome, run.trouble = (
                    Outcome.TIMED_OUT,
                    texts.timed_out(gateway.config.agent.gateway_timeout),
                )
            beside.cancel_scope.cancel(reason="the agent is done")
    if run.task.scope.cancelled_caught:
        run.outcome = run.task.ended_by
    stream.closed = True


def _text(answer: object) -> str | None:
    if answer is None or isinstance(answer, str):
        return storable(answer)
    raise TypeError(f"it answered with {type(answer).__name__}, which is no text")


def _alone(raised: BaseException) -> BaseException:
    """What is in a group of one."""
    while isinstance(raised, BaseExceptionGroup) and len(raised.exceptions) == 1:
        raised = raised.exceptions[0]
    return raised


async def _end_in_time(run: TurnRun, journal: RunWriter) -> Outcome:
    """The end of a turn, as soon as the disk takes it. What was said is not lost because the disk is full."""
    while True:
        try:
            return await _end(run, journal)
        except StoreError as error:
            log.error("the end of a turn cannot be stored; trying again", run=run.run_id, error=str(error))
        await trio.sleep(STORE_AGAIN_AFTER)


async def _end(run: TurnRun, journal: RunWriter) -> Outcome:
    """The end of a turn: one transaction, then the journal's last record, then who waits for it."""
    gateway, turn = run.gateway, run.turn
    outcome = run.outcome
    if outcome is Outcome.CUT and (turn is None or not turn.has_asked):
        outcome = Outcome.UNSTARTED
    settlement = Settlement(
        outcome,
        gateway.cut_reason() if outcome in (Outcome.CUT, Outcome.UNSTARTED) else run.trouble or None,
        rows=tuple(rows_left(run, outcome)),
        owed=tuple(owed_at_the_end(run, outcome)),
        usage=counted(turn),
    )
    stands, closes = await gateway.database.write(
        settled, run.run_id, run.turn_id, settlement, gateway.world.time()
    )
    if stands is None and turn is None:
        return Outcome.UNSTARTED  # nothing has begun: its journal stays empty, and its name may be used again
    stands = stands or Outcome.UNSTARTED  # or else its session was deleted
    if (settlement.owed or closes) and run.lane is not None:  # to ask for a lane opens it
        run.lane.deliver()
    # Thousands may be cut at once and have two seconds: then nobody waits behind the commit, which is what
    # counts, and the log has one line for all of them.
    is_cut = outcome in (Outcome.CUT, Outcome.UNSTARTED)
    if not journal.ended:  # who is cancelled behind this comes here a second time
        gateway.outcomes[stands] += 1
        try:
            if is_cut:
                journal.leave(last_event(run, stands))
            else:
                await journal.append(last_event(run, stands))
        except JournalError as error:  # the row is what counts
            log.warning("a run journal has no last record", run=run.run_id, error=str(error))
    (log.debug if is_cut else log.info)(
        "a turn ended", session=run.entry.session_id, run=run.run_id, outcome=stands
    )
    return stands


def _begin(
    db: sqlite3.Connection, run_id: str, session_id: str, life: str, task: TurnHandle, at: float
) -> int | None:
    """Open the turn's row, give it its messages, and write down what the person said. None, and nothing
    has begun, if there is nothing left to answer: what was said, or what was cut, has been dropped since."""
    if task.resumes is not None:
        entry = sessions.by_id(db, session_id)
        # Asked again: since it was decided, the platform may have come back a second time.
        if entry is None or not entry.resume_pending or turns.resume_of(db, task.resumes):
            return None
    elif not all(inbox.is_pending(db, row.inbox_id) for row in task.rows):
        return None
    turn_id = turns.begin(db, run_id=run_id, session_id=session_id, life=life, at=at, resumes=task.resumes)
    inbox.join_turn(db, turn_id, [row.inbox_id for row in task.rows])
    for row in task.rows:
        transcript.append(db, session_id, TranscriptRow("user", row.event.text, row.received_at, turn_id))
    return turn_id
