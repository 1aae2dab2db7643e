"""A turn: one run of the agent, and the nursery that holds everything about it.

Inside the run's journal is a nursery; in it run the agent, the typing sign, the notices that it is still
working and the watch over its activity. When the agent is done, or a person stops it, or the gateway
ends, the nursery is left, and with it all of that has ended: there is no late work.

What happens is written to the run journal first and shown then. How it ends is one transaction; the
journal's last record follows it. What is cut by the gateway says its last words under a shield with a
deadline.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
import trio

from ..errors import GatewayError
from ..events import (
    INTERRUPTED,
    Event,
    MessageDelta,
    RunCancelled,
    RunCompleted,
    RunFailed,
)
from ..journal.writer import RunWriter
from ..messages import MessageEvent, SessionSource
from ..state import inbox, settle, transcript, turns
from ..state.entry import SessionEntry, Usage
from ..state.inbox import Received
from ..state.outbox import Owed
from ..state.settle import Settlement
from ..state.transcript import Message, ToolCall
from ..state.turns import Outcome
from . import notifier, words
from .chunks import chunks, fits
from .lane import Body, Chat, Lane, Stream, owed, stream_key

if TYPE_CHECKING:
    from .gateway import Gateway

Agent = Callable[["Turn"], Awaitable[str | None]]
"""Whoever answers: any async function of a turn. What it returns is the answer; None means that what it
has said is the answer."""

log = structlog.wrap_logger(logging.getLogger(__name__))


class Turn:
    """What an agent sees of the turn it runs in."""

    def __init__(
        self,
        gateway: Gateway,
        entry: SessionEntry,
        turn_id: int,
        run_id: str,
        journal: RunWriter,
        *,
        prompt: str,
        said: Sequence[MessageEvent],
        history: Sequence[Message],
        show: Callable[[str], None],
    ) -> None:
        self.entry, self.turn_id, self.run_id = entry, turn_id, run_id
        self.prompt = prompt
        """What the agent is asked, with the gateway's note in front where one is due."""
        self.said = tuple(said)
        """The messages this turn answers; none where a cut turn is resumed."""
        self.history = tuple(history)
        """The transcript before this turn."""
        self.usage: Usage | None = None
        """What the model has used; the agent sets it."""
        self.text = ""
        """What has been said so far."""
        self._gateway, self._journal, self._show = gateway, journal, show
        self._requested = False
        self.active_at = trio.current_time()
        self.patience = trio.CancelScope()
        """Cancelled when nothing has happened for `agent.gateway_timeout` seconds."""
        self.active()

    def active(self) -> None:
        """Something happened: the clock of inactivity begins anew."""
        self.active_at = trio.current_time()
        limit = self._gateway.config.agent.gateway_timeout
        if limit:
            self.patience.deadline = self.active_at + limit

    async def requesting(self) -> None:
        """A request goes to a model now. From here on a cut has interrupted something."""
        self.active()
        if not self._requested:
            self._requested = True
            await self._gateway.database.write(turns.note_request, self.turn_id, self._gateway.world.time())

    async def emit(self, event: Event) -> None:
        """Something happens: it is in the journal first, and on the screen then."""
        await self.requesting()
        await self._journal.append(event)
        if isinstance(event, MessageDelta):
            self.text += event.delta
            self._show(self.text)

    async def say(self, text: str) -> None:
        """The next piece of the answer."""
        await self.emit(MessageDelta(text))

    async def calls(self, text: str, *tool_calls: ToolCall) -> None:
        """The model asked for tools: the row that says so, before any of them begins."""
        await self._row(Message("assistant", text, 0, tool_calls=tool_calls, finish="tool_calls"))

    async def result(self, call: ToolCall, content: str, status: str = "ok") -> None:
        """A tool's result."""
        await self._row(Message("tool", content, 0, tool_call_id=call.id, tool_name=call.name, status=status))

    async def _row(self, row: Message) -> None:
        self.active()
        await self._gateway.database.write(
            transcript.append, self.entry.session_id, self.row_of(row.role, row.content, like=row)
        )

    def row_of(self, role: transcript.Role, content: str, *, like: Message | None = None) -> Message:
        """A row of this turn, behind everything that has happened in it."""
        like = like or Message(role, content, 0)
        return Message(
            role,
            content,
            self._gateway.world.time(),
            self.turn_id,
            place=self._journal.last_seq,
            tool_calls=like.tool_calls,
            finish=like.finish,
            tool_call_id=like.tool_call_id,
            tool_name=like.tool_name,
            status=like.status,
        )


@dataclass(slots=True)
class Task:
    """What a session's actor has to do next, and the handle by which others can end it."""

    rows: Sequence[Received]
    resumes: int | None = None
    """The cut turn that this one takes up again."""
    origin: SessionSource | None = None
    """Where the session lives."""
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended_by: Outcome = Outcome.STOPPED

    @property
    def source(self) -> SessionSource | None:
        """Where the person is who is to hear of it."""
        return self.rows[-1].event.source if self.rows else self.origin

    def end(self, how: Outcome) -> None:
        """End the turn from outside: a person stopped it, or a new message takes its place."""
        self.ended_by = how
        self.scope.cancel(reason=how)


@dataclass(slots=True)
class _Run:
    """A turn that runs: its names, and how it ends."""

    gateway: Gateway
    entry: SessionEntry
    task: Task
    chat: Chat | None
    thread_id: str | None
    reply_to: str | None
    run_id: str
    turn_id: int = 0
    turn: Turn | None = None
    outcome: Outcome = Outcome.ANSWERED
    answer: str = ""
    trouble: str = ""

    @property
    def lane(self) -> Lane | None:
        """The way to the chat. Asked for each time: an idle lane leaves."""
        return self.gateway.lanes.of(self.chat) if self.chat else None


async def run_turn(gateway: Gateway, entry: SessionEntry, task: Task, *, prompt: str,
                   history: Sequence[Message]) -> Outcome:  # fmt: skip
    """Run one turn from its row to its end, and return how it ended. Raises Cancelled if the gateway
    cut it; then its end is on the disk, or the next start finds that it has none."""
    source = task.source
    chat = Chat(source.platform, source.account, source.chat_id) if source else None
    run = _Run(
        gateway,
        entry,
        task,
        chat,
        source.thread_id if source else None,
        task.rows[-1].event.message_id if task.rows else None,
        gateway.world.new_id(),
    )
    async with gateway.journals.open_run(entry.session_id, run.run_id) as journal:
        ended = False
        try:
            run.turn_id = await gateway.database.write(
                _begin, run.run_id, entry.session_id, gateway.life, task, gateway.world.time()
            )
            await _attended(run, journal, prompt, history)
            outcome = await _end(run, journal)
            ended = True
            return outcome
        finally:
            # Not `except Cancelled`: out of a nursery cancellation comes in groups.
            if not ended:
                run.outcome = Outcome.CUT
                with trio.CancelScope(deadline=gateway.last_words_by(), shield=True) as last_words:
                    await _end(run, journal)
                if last_words.cancelled_caught:
                    log.warning("a turn was cut without last words", run=run.run_id)


async def _attended(run: _Run, journal: RunWriter, prompt: str, history: Sequence[Message]) -> None:
    """Let the agent run, with everything that runs beside it, and note how that ended."""
    gateway = run.gateway
    stream = Stream(stream_key(run.run_id), run.thread_id, interval=gateway.config.streaming.edit_interval)

    def show(text: str) -> None:
        # A text that has outgrown a message stops growing there; the whole of it is what is owed.
        text += gateway.config.streaming.cursor
        if run.chat is not None and gateway.streams(run.chat) and fits(text, gateway.traits(run.chat)):
            gateway.lanes.of(run.chat).show(stream, text)

    turn = run.turn = Turn(
        gateway,
        run.entry,
        run.turn_id,
        run.run_id,
        journal,
        prompt=prompt,
        said=[row.event for row in run.task.rows],
        history=history,
        show=show,
    )
    with run.task.scope:
        async with trio.open_nursery() as beside:
            if run.chat is not None:
                for helper in (notifier.typing, notifier.still_working, notifier.warn_of_silence):
                    beside.start_soon(helper, gateway, turn, run.chat, run.thread_id)
            with turn.patience:
                try:
                    run.answer = await gateway.agent(turn) or turn.text
                except Exception as error:
                    # Whatever an agent raises is the end of its turn, told to the person, and no more.
                    log.warning("the agent raised", run=run.run_id, exc_info=True)
                    run.outcome, run.trouble = (
                        Outcome.FAILED,
                        (str(error) if isinstance(error, GatewayError) else words.failed(error)),
                    )
            if turn.patience.cancelled_caught:
                run.outcome, run.trouble = (
                    Outcome.TIMED_OUT,
                    words.timed_out(gateway.config.agent.gateway_timeout),
                )
            beside.cancel_scope.cancel(reason="the agent is done")
    if run.task.scope.cancelled_caught:
        run.outcome = run.task.ended_by
    stream.closed = True


async def _end(run: _Run, journal: RunWriter) -> Outcome:
    """The end of a turn: one transaction, then the journal's last record, then who waits for it."""
    gateway, turn = run.gateway, run.turn
    outcome = run.outcome
    if outcome is Outcome.CUT and (turn is None or not turn._requested):
        outcome = Outcome.UNSTARTED
    settlement = Settlement(
        outcome,
        gateway.cut_reason() if outcome in (Outcome.CUT, Outcome.UNSTARTED) else run.trouble or None,
        rows=tuple(_rows(run, outcome)),
        owed=tuple(_owed(run, outcome)),
        usage=turn.usage if turn else None,
    )
    stands = await gateway.database.write(_settled, run.run_id, settlement, gateway.world.time())
    if settlement.owed and run.lane is not None:
        run.lane.deliver()
    last = _last_event(run, stands)
    if last is not None:
        await journal.append(last)
    log.info("a turn ended", session=run.entry.session_id, run=run.run_id, outcome=stands)
    return stands


def _rows(run: _Run, outcome: Outcome) -> list[Message]:
    turn = run.turn
    if turn is None:
        return []
    if outcome is Outcome.ANSWERED:
        return [turn.row_of("assistant", run.answer, like=Message("assistant", "", 0, finish="stop"))]
    if turn.text and outcome is not Outcome.CUT:
        # What a cut turn had said is recovered from its journal, by whoever reads the session.
        return [turn.row_of("assistant", turn.text, like=Message("assistant", "", 0, finish=outcome))]
    return []


def _owed(run: _Run, outcome: Outcome) -> list[Owed]:
    """What the chat gets: the answer, or the trouble in words, or the end of what was growing."""
    if run.chat is None or run.turn is None:
        return []
    closes = stream_key(run.run_id)
    text, only_closes = {
        Outcome.ANSWERED: (run.answer or words.nothing_said(), False),
        Outcome.FAILED: (run.trouble, False),
        Outcome.TIMED_OUT: (run.trouble, False),
    }.get(outcome, (words.cut_off(run.turn.text), True))
    if only_closes and not run.turn.text:
        return []
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


def _last_event(run: _Run, outcome: Outcome) -> Event | None:
    if outcome is Outcome.ANSWERED:
        return RunCompleted(run.answer)
    if outcome in (Outcome.FAILED, Outcome.TIMED_OUT):
        return RunFailed(run.trouble, outcome)
    if outcome in (Outcome.CUT, Outcome.UNSTARTED):
        return RunFailed("The gateway ended before the run did.", INTERRUPTED)
    return RunCancelled()


# --- steps of the database ---------------------------------------------------------------------------


def _begin(db: sqlite3.Connection, run_id: str, session_id: str, life: str, task: Task, at: float) -> int:
    """Open the turn's row, give it its messages, and write down what the person said."""
    turn_id = turns.begin(db, run_id=run_id, session_id=session_id, life=life, at=at, resumes=task.resumes)
    inbox.join_turn(db, turn_id, [row.inbox_id for row in task.rows])
    for row in task.rows:
        transcript.append(db, session_id, Message("user", row.event.text, row.received_at, turn_id))
    return turn_id


def _settled(db: sqlite3.Connection, run_id: str, settlement: Settlement, at: float) -> Outcome:
    """End the turn of this run, and return the outcome that stands: the first end wins. A run that
    never had a row was not begun."""
    turn = turns.by_run(db, run_id)
    if turn is None:
        return Outcome.UNSTARTED
    settle.settle(db, turn.turn_id, settlement, at)
    ended = turns.by_run(db, run_id)
    return ended.outcome if ended and ended.outcome else settlement.outcome
