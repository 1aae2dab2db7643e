"""The run of a turn, and the nursery that holds everything about it.

Inside the run's journal is a nursery. In it run the agent and the signs of progress. When the agent has
finished, a person stops it, it was inactive for too long, or the gateway ends, the nursery is left, and all
of them have ended: no work goes on after a turn.

Every event is in the run journal before it is shown. The end of a turn is one transaction; the last record of
the journal follows it. A turn that the gateway cuts stores its end under a shield with a deadline.

It may touch all parts of the gateway that a turn uses; it does not decide which turn is next (`session`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import trio

from ...agent.providers.model_errors import ModelError
from ...base.byte_cache import ByteCache
from ...base.errors import GatewayError, JournalError, StoreError, causes, error_text, is_expected
from ...journal.writer import RunWriter
from ...log import Log
from ...state.db.store_retry import stored
from ...state.tables.turns import Outcome
from ..ending.shutdown import Shutdown
from ..home.open_home import Home
from ..outbound import texts
from ..outbound.chats import Chats
from ..outbound.lane import Stream
from ..outbound.rows import Chat, draft_number, stream_key
from ..processes.background import Background
from .agent_function import Agent
from .beginning import Beginning, BegunTurn, begin_turn, notice_of_reset, undo_beginning
from .context import TurnContext
from .handle import TurnHandle
from .history_cache import MOST_BYTES, CachedHistory, extended, stored_history
from .outcome import StoredEnd, last_event, settlement_of, store_outcome
from .progress import show_progress
from .system_notes import prompt_of
from .turn_run import TurnRun

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Turns:
    """Runs turns, with the parts of the gateway that every turn uses."""

    home: Home
    chats: Chats
    shutdown: Shutdown
    background: Background
    agent: Agent
    asks_at_once: bool = False
    """True if the agent does nothing before its first request to a model that must not be repeated."""
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    """Number of turns of this life by outcome."""
    histories: ByteCache[CachedHistory] = field(default_factory=partial(ByteCache, MOST_BYTES))
    """The transcripts in memory, by session key."""

    async def run(self, key: str, handle: TurnHandle, on_begin: Callable[[], object]) -> bool:
        """Run one turn of the session with this key, from its beginning to its end. Return False if no
        message waited in the session at the end. `on_begin` is called when the handle has the ids of the run
        and of the session. Raises Cancelled if the gateway cuts the turn: its end is then stored, or the next
        start finds that it has none."""
        begun = await self._begin(key, handle)
        if begun is None:
            return True
        handle.run_id, handle.session_id = begun.run_id, begun.entry.session_id
        on_begin()
        run = self._new_run(begun, handle)
        with await self._prepare(key, run, begun) as journal:
            self.background.turn_begins(run.entry)
            turn: TurnContext | None = None
            agent_left = ended = False
            try:
                with handle.scope:
                    async with trio.open_nursery() as nursery:
                        turn = TurnContext(self.home, self.chats, self.background, run, journal, nursery)
                        self._show_progress(run, turn, nursery)
                        await self._answer(run, turn)
                        nursery.cancel_scope.cancel(reason="the agent has finished")
                if handle.scope.cancelled_caught:
                    self._note_how_ended(run)
                if run.stream is not None:
                    run.stream.close()
                assert turn is not None  # noqa: S101 - it is set before the first checkpoint of the block
                agent_left = True
                end = await self._end_when_stored(run, turn, journal)
                ended = True
                if end.outcome is Outcome.ANSWERED and turn.watches:
                    self.background.take_over(run.entry, turn.watches)
                return end.more_waits
            finally:
                # Not `except Cancelled`: out of a nursery cancellation comes in groups.
                if not ended:
                    if not agent_left and run.outcome is not Outcome.ANSWERED:
                        run.outcome = Outcome.CUT
                        # A turn that was stopped and still cleans up was not cut: the first end counts.
                        if handle.scope.cancel_called:
                            self._note_how_ended(run)
                    deadline = self.shutdown.last_words_deadline()
                    with trio.CancelScope(deadline=deadline, shield=True) as last_words:
                        await self._end(run, turn, journal)
                    if last_words.cancelled_caught:
                        log.warning("turn cut without last words", run=run.run_id)

    async def _begin(self, key: str, handle: TurnHandle) -> BegunTurn | None:
        """Store the beginning of a turn. Return None if its messages or the cut turn were dropped since it
        was decided."""
        home, rows = self.home, handle.rows
        known = self.histories.get(key) or await self._read_history(key, handle.session_id)
        promised = rows[0].event.run_id if rows else None
        handle.run_id = promised or home.world.new_id()
        what = Beginning(
            key,
            rows,
            handle.session_id,
            handle.resumes,
            handle.run_id,
            home.world.new_id() if promised else handle.run_id,
            home.life,
            home.owner,
            known.session_id,
            known.known,
            self.asks_at_once,
        )
        try:
            return await home.database.write(begin_turn, what, home.config, home.world)
        except trio.Cancelled:
            # The beginning is stored nevertheless, under one of the two ids.
            await self._undo_in_time(what.run_id, what.other_run_id)  # noqa: ASYNC102 - it shields its awaits
            raise

    async def _read_history(self, key: str, session_id: str) -> CachedHistory:
        """Read the transcript of a session into memory, before its turn begins: reading a long one takes a
        while, and every other write would wait for it."""
        session_id, rows = await self.home.database.read(stored_history, key, session_id)
        history = extended(CachedHistory(), session_id, rows, are_new=False)
        self.histories.put(key, history, history.size)
        return history

    async def _prepare(self, key: str, run: TurnRun, begun: BegunTurn) -> RunWriter:
        """Set the prompt, and open the journal. If that fails, the beginning is undone."""
        try:
            try:
                await self._set_prompt(key, run, begun)
                return await self.home.journals.open_run(run.entry.session_id, run.run_id, is_new=True)
            except GatewayError as error:
                refused = error
            undo = partial(self.home.database.write, undo_beginning, run.run_id, self.home.world.time())
            await stored("undone beginning of a turn", undo, run=run.run_id)
            raise refused
        except trio.Cancelled:
            await self._undo_in_time(run.run_id)  # noqa: ASYNC102 - it shields its awaits
            raise

    async def _undo_in_time(self, *run_ids: str) -> None:
        """Undo the beginning of a turn that the gateway cuts before its agent is called."""
        home, deadline = self.home, self.shutdown.last_words_deadline()
        with trio.CancelScope(deadline=deadline, shield=True), suppress(StoreError):
            for run_id in run_ids:
                await home.database.write(undo_beginning, run_id, home.world.time())

    async def _set_prompt(self, key: str, run: TurnRun, begun: BegunTurn) -> None:
        """Set the history and the prompt. Tell the person if the session was reset automatically."""
        home, entry, rows = self.home, begun.entry, run.handle.rows
        run.request_is_noted = self.asks_at_once
        known = self.histories.get(key) or CachedHistory()
        history = extended(known, entry.session_id, begun.rows, are_new=begun.are_new)
        self.histories.put(key, history, history.size)
        run.history = history.rows
        if not begun.is_healed:
            healed = await home.reader.with_transcript(entry)
            run.history = tuple(row for row in healed.rows if row.turn_id != begun.turn_id)
        if rows and not run.history and entry.auto_reset_reason:
            notice = notice_of_reset(entry, rows[0].event.source.platform, home.config)
            if notice is not None:
                self.chats.reply(rows[0].event, notice)
        run.prompt = prompt_of(
            "\n\n".join(row.event.text for row in rows if row.event.text),
            entry,
            run.history,
            gone=[self.background.describe(row) for row in begun.ended],
            now=home.world.time(),
            window=home.config.agent.gateway_auto_continue_freshness,
        )

    def _new_run(self, begun: BegunTurn, handle: TurnHandle) -> TurnRun:
        """Return the running turn, with the chat that gets its answer and the message that it replies to."""
        rows, source = handle.rows, handle.source
        chat = Chat.of(source) if source is not None else None
        run = TurnRun(begun.entry, handle, begun.run_id, stream_key(begun.run_id), begun.turn_id, chat=chat)
        run.reply_to = rows[-1].event.message_id if rows else None
        if source is not None:
            run.thread_id = source.thread_id
            run.connection = self.chats.connections[source.platform, source.account]
        run.stream = self._stream(run)
        return run

    def _stream(self, run: TurnRun) -> Stream | None:
        """Return the message in which the answer grows, if the chat can show it."""
        streaming, source = self.home.config.streaming, run.handle.source
        if run.connection is None or source is None or not streaming.enabled:
            return None
        traits = run.connection.adapter.traits
        in_draft = traits.drafts and source.chat_type == "dm"
        if not (traits.edits or in_draft):
            return None
        return Stream(
            run.stream_key,
            run.thread_id,
            run.reply_to,
            cursor="" if in_draft else streaming.cursor,
            interval=streaming.edit_interval,
            draft=draft_number(run.run_id) if in_draft else 0,
        )

    def _show_progress(self, run: TurnRun, turn: TurnContext, nursery: trio.Nursery) -> None:
        """Start the task that shows a person that the turn runs, unless they read its events anyway."""
        if run.chat is None or run.connection is None or run.connection.adapter.traits.shows_transcript:
            return
        if run.stream is not None and run.stream.draft:
            self.chats.lane(run.chat).show(run.stream, "")  # a person can stop it before its first words
        place, agent = (run.chat, run.thread_id), self.home.config.agent
        shown = self.chats, run.connection, run.handle, turn, *place, agent, self.shutdown.control
        nursery.start_soon(show_progress, *shown)

    async def _answer(self, run: TurnRun, turn: TurnContext) -> None:
        """Call the agent, and note its answer or how it failed."""
        try:
            run.answer = await turn.finish(await self.agent(turn))
            run.outcome = Outcome.ANSWERED
        except* (Exception, SystemExit) as raised:
            # Any error of an agent is the end of its turn, told to the person, and no more. An error
            # raised while the agent is cancelled comes with the Cancelled of other tasks in one group;
            # that goes on.
            error = _single(raised)
            if isinstance(error, ModelError):
                run.refusal = error
            log.warning(
                "agent failed", run=run.run_id, error=error_text(error), exc_info=not is_expected(error)
            )
            run.outcome, run.trouble = Outcome.FAILED, texts.failed(error, self.home.masking)
            for cause in causes(error):
                # The frames that it passed refer to it: they would stay until the garbage collector runs.
                cause.__traceback__ = None

    def _note_how_ended(self, run: TurnRun) -> None:
        """Note how a turn ended whose scope was cancelled."""
        run.outcome = run.handle.ended_by
        if run.outcome is Outcome.TIMED_OUT:
            run.trouble = texts.timed_out(self.home.config.agent.gateway_timeout)

    async def _end_when_stored(self, run: TurnRun, turn: TurnContext, journal: RunWriter) -> StoredEnd:
        """End a turn; retry while the disk is full, so that the answer is not lost."""
        return await stored("end of a turn", partial(self._end, run, turn, journal), run=run.run_id)

    async def _end(self, run: TurnRun, turn: TurnContext | None, journal: RunWriter) -> StoredEnd:
        """End a turn: one transaction, then the last record of the journal. Return the end that stands."""
        outcome = run.outcome
        if outcome is Outcome.CUT and (turn is None or not turn.has_asked):
            outcome = Outcome.UNSTARTED
        is_cut = outcome in (Outcome.CUT, Outcome.UNSTARTED)
        rows = turn.last_rows(outcome) if turn is not None else ()
        settlement = settlement_of(run, turn, outcome, rows, self.shutdown.cut_reason() if is_cut else "")
        end = await self.home.database.write(store_outcome, run.turn_id, settlement, self.home.world.time())
        run.handle.has_ended, stands = True, end.outcome
        if (settlement.owed or end.closes) and run.chat is not None:
            self.chats.lane(run.chat).deliver()
        # Thousands of turns may be cut at once, with two seconds for all of them. The commit is what counts:
        # nothing is awaited after it, and the log has one line for all.
        if not journal.ended:  # a second call, after a cancellation in the first, finds it ended
            self.outcomes[stands] += 1
            event = last_event(run, settlement.usage, stands)
            try:
                if is_cut:
                    journal.append_nowait(event)
                else:
                    await journal.append(event)
            except JournalError as error:
                log.warning("last record of a run journal not written", run=run.run_id, error=str(error))
        where = {"platform": run.chat.platform, "chat": run.chat.chat_id} if run.chat is not None else {}
        (log.debug if is_cut else log.info)(
            "turn ended", session=run.entry.session_id, run=run.run_id, outcome=stands, **where
        )
        return end


def _single(raised: BaseException) -> BaseException:
    """Return the only exception of a group, or the group."""
    while isinstance(raised, BaseExceptionGroup) and len(raised.exceptions) == 1:
        raised = raised.exceptions[0]
    return raised
