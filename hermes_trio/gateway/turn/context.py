"""What an agent sees of the turn it runs in: what was said, what has been said before, and the ways to
say, to call tools and to run commands. Whatever happens is in the run journal first, and shown then."""

from __future__ import annotations

import functools
import inspect
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

import trio

from ...base.errors import AgentInvalid, StoreError
from ...base.events import Event, MessageDelta, ReasoningAvailable
from ...base.messages import MessageEvent
from ...base.world import World
from ...config.schema import GatewayConfig
from ...host.processes.process_groups import Process
from ...journal.writer import RunWriter
from ...masking.redaction import Masking
from ...platform.contract import Dialect
from ...state.db.database import Database
from ...state.tables import inbox, outbox, transcript, turns
from ...state.tables.session_entry import SessionEntry, Usage
from ...state.tables.transcript import ToolCall, TranscriptRow
from ...tools.background_process import Kept, Watch
from ...tools.tool import Approval
from ..outbound.rows import Body, Chat, owed
from ..processes.command import Command, process_of
from . import attachments, questions
from .attribution import as_told

if TYPE_CHECKING:
    from ..parts import Gateway
    from .handle import TurnHandle

Agent = Callable[["TurnContext"], Awaitable[str | None]]
"""Whoever answers: any async function of a turn. What it returns is the answer; None means that what it
has said is the answer."""


def checked_agent(agent: object) -> Agent:
    """The agent, if its call can be awaited. Raises `AgentInvalid`: a blocking function would fail each turn,
    and the people would be told."""
    if not callable(agent):
        raise AgentInvalid(agent, "it cannot be called")
    function = inspect.unwrap(agent)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    call = getattr(type(function), "__call__")  # noqa: B004, B009 - of an object whose call may be async
    if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(call):
        raise AgentInvalid(agent, "it is no async function")
    return cast(Agent, agent)


class Shortened(Protocol):
    """What came of shortening a session: about how many tokens its model was sent, and is now."""

    @property
    def before(self) -> int: ...
    @property
    def after(self) -> int: ...
    @property
    def trouble(self) -> str:
        """Why it did not become as short as it could have; empty if it did."""


@runtime_checkable
class Compresses(Protocol):
    """An agent that can shorten what its model is sent of a session."""

    async def compress(
        self, entry: SessionEntry, rows: Sequence[TranscriptRow], database: Database, focus: str
    ) -> Shortened | None:
        """Do so; None where no model is sent anything."""


@runtime_checkable
class TellsModel(Protocol):
    """An agent that knows which model answers."""

    @property
    def about(self) -> str:
        """Which one, and why, in a sentence."""


class TurnContext:
    """What an agent sees of the turn it runs in."""

    def __init__(
        self,
        gateway: Gateway,
        entry: SessionEntry,
        turn_id: int,
        run_id: str,
        journal: RunWriter,
        task: TurnHandle,
        beside: trio.Nursery,
        *,
        prompt: str,
        said: Sequence[MessageEvent],
        history: Sequence[TranscriptRow],
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
        self.segment = ""
        """Of that, what no row of the transcript holds yet: what came behind the last tools."""
        self.thought = ""
        """What the model has thought, as far as no row holds it."""
        self._gateway, self._journal, self._task, self._show = gateway, journal, task, show
        self._beside = beside
        self.watches: list[Watch] = []
        """What is looked for in the output of processes; it ends with the turn, unless that is answered."""
        self.has_asked = False
        """Whether a request went to a model: before that a cut interrupts nothing."""
        self._active_at = trio.current_time()
        self.patience = trio.CancelScope()
        """Cancelled when nothing has happened for `agent.gateway_timeout` seconds."""
        self.active()

    def active(self) -> None:
        """Something happened: the clock of inactivity begins anew."""
        self._active_at = trio.current_time()
        limit = self._gateway.config.agent.gateway_timeout
        if limit and not self._task.asked:
            self.patience.deadline = self._active_at + limit

    @property
    def masking(self) -> Masking:
        """Masks the secrets of the gateway."""
        return self._gateway.masking

    @property
    def dialect(self) -> Dialect:
        """How people see what it says."""
        source = self._task.source
        return self._gateway.traits(Chat.of(source)).dialect if source else "markdown"

    @property
    def waits_for_somebody(self) -> bool:
        """Whether a person is asked something at this moment."""
        return bool(self._task.asked)

    @property
    def active_at(self) -> float:
        """When something happened last. While a person is waited for, nobody is idle."""
        return trio.current_time() if self._task.asked else self._active_at

    async def requesting(self) -> None:
        """A request goes to a model now. From here on a cut has interrupted something."""
        self.active()
        if not self.has_asked:
            self.has_asked = True
            await self._gateway.database.write(turns.note_request, self.turn_id, self._gateway.world.time())

    async def emit(self, event: Event) -> None:
        """Something happens: it is in the journal first, and on the screen then."""
        await self.requesting()
        try:
            await self._journal.append(event)
        except trio.Cancelled:
            self._note(event)  # who is cancelled there leaves, and the event is written and seen anyway
            raise
        self._note(event)
        if isinstance(event, MessageDelta):
            self._show(self.text)

    def _note(self, event: Event) -> None:
        if isinstance(event, MessageDelta):
            if self.text and not self.segment:
                self.text += "\n\n"  # what was said before the tools stands apart
            self.segment += event.delta
            self.text += event.delta
        elif isinstance(event, ReasoningAvailable):
            self.thought += event.text

    @property
    def session_id(self) -> str:
        return self.entry.session_id

    @property
    def home(self) -> Path:
        """The gateway's own directory."""
        return self._gateway.home

    @property
    def cwd(self) -> Path:
        """Where commands start."""
        return Path(self._gateway.config.terminal.cwd or Path.cwd()).expanduser()

    @property
    def config(self) -> GatewayConfig:
        return self._gateway.config

    @property
    def world(self) -> World:
        return self._gateway.world

    @property
    def database(self) -> Database:
        return self._gateway.database

    def mention(self, text: str) -> None:
        """Tell the person something that is no part of the answer. It is not stored."""
        if self._task.source is not None:
            lane = self._gateway.lane_of(self._task.source)
            lane.notice(self.masking(text), thread_id=self._task.source.thread_id)

    async def say(self, text: str) -> None:
        """The next piece of the answer."""
        await self.emit(MessageDelta(text))

    def running(self, command: Command, *, cwd: Path | None = None) -> AbstractAsyncContextManager[Process]:
        """A command, for as long as the block and no longer than the turn: leaving ends the whole group
        of processes that came of it. What it writes is on `output`, and in a spool of the home."""
        return process_of(self._gateway, self.entry.session_id, command, cwd=cwd)

    async def start_background(
        self, command: Command, *, cwd: Path | None = None, notify: bool = False, watch: Sequence[str] = ()
    ) -> Kept:
        """Start a command that belongs to the session, and goes on when the turn is over. With `notify` its
        end begins a turn; with `watch` lines that hold one of these texts are told: to this turn while
        it runs, then to the session until its next turn begins."""
        kept = await self._gateway.background.start(self.entry, command, cwd=cwd, notify=notify)
        if watch:
            watching = Watch(kept, tuple(watch))
            self.watches.append(watching)
            self._beside.start_soon(watching.run, self._hear, name=f"watch {kept.id}")
        return kept

    def background(self) -> list[Kept]:
        """The background processes of the session, also who has ended not long ago."""
        return self._gateway.background.of(self.entry.session_id)

    def end_background(self, kept: Kept) -> None:
        """End one of them, with all that came of it."""
        self._gateway.background.end(kept)

    def _hear(self, text: str) -> None:
        heard = self._gateway.background.heard(text)
        if heard is not None:
            self._task.heard.append(heard)

    async def ask(self, text: str, choices: Sequence[str] = (), *, within: float | None = None) -> str | None:
        """Ask the person something, and wait for the answer; None if none came in time."""
        limit = self._gateway.config.agent.clarify_timeout if within is None else within
        return await questions.ask(self._gateway, self, self._task, text, choices=choices, within=limit)

    async def may(self, what: Approval | str) -> str | None:
        """Ask for a yes before something is done that may do harm. Returns what it is a yes to (`once`,
        `session` or `always`); None for a no, and if nothing was said in time. A mere text is what would be
        done. Raises `NotShown` if the person cannot be shown it whole and exactly."""
        limit = self._gateway.config.approvals.timeout
        approval = Approval(what) if isinstance(what, str) else what
        said = await questions.ask(self._gateway, self, self._task, approval, within=limit)
        return None if said == questions.DENY else said

    async def send_file(self, name: str, data: bytes, text: str = "") -> bool:
        """Send the person a file, with a few words. False where their chat takes none. It is kept in the
        home, so that it goes out as it is now."""
        self.active()
        source = self._task.source
        if source is None or not self._gateway.traits(Chat.of(source)).sends_files:
            return False
        number = self._gateway.world.new_id()
        file = await attachments.keep(self._gateway, self.session_id, f"sent-{number}", name, data)
        row = owed(
            Chat.of(source),
            f"{self.run_id}:file:{number}",
            Body(text, files=(file,)),
            thread_id=source.thread_id,
            session_id=self.session_id,
            turn_id=self.turn_id,
        )
        await self._gateway.database.write(outbox.owe, row, self._gateway.world.time())
        self._gateway.lane_of(source).deliver()
        return True

    @contextmanager
    def not_now(self, why: str) -> Iterator[None]:
        """A part that must not be cut: a new message waits, where it would otherwise take the turn's
        place. Ending the turn by hand, and the end of the gateway, do not wait."""
        self._task.not_now.append(why)
        try:
            yield
        finally:
            self._task.not_now.remove(why)

    async def steered(self) -> list[str]:
        """What people have said that is to go into this turn, since it was asked last. From here on it is
        part of the turn; what is never taken begins the next one."""
        ids, self._task.steered = self._task.steered, []
        heard, self._task.heard = self._task.heard, []
        if not ids and not heard:
            return []
        place, at = self._journal.last_seq, self._gateway.world.time()
        return await self._gateway.database.write(
            _take_steered, self.entry.session_id, self.turn_id, place, ids, heard, at, self._gateway.config
        )

    async def calls(self, text: str, *tool_calls: ToolCall, opaque: str | None = None) -> None:
        """The model asked for tools: the row that says so, before any of them begins."""
        like = TranscriptRow("assistant", text, 0, tool_calls=tool_calls, finish="tool_calls", opaque=opaque)
        row, held = self.row_of("assistant", text, like=like), (self.segment, self.thought)
        # Before it waits: who is cancelled there leaves, and the row is written all the same.
        self.segment = self.thought = ""
        try:
            await self._row(row)
        except StoreError:
            self.segment, self.thought = held
            raise

    async def result(self, call: ToolCall, content: str, status: str = "ok") -> None:
        """A tool's result."""
        like = TranscriptRow("tool", content, 0, tool_call_id=call.id, tool_name=call.name, status=status)
        await self._row(self.row_of("tool", content, like=like))

    async def _row(self, row: TranscriptRow) -> None:
        self.active()
        await self._gateway.database.write(transcript.append, self.entry.session_id, row)

    def row_of(
        self, role: transcript.Role, content: str, *, like: TranscriptRow | None = None
    ) -> TranscriptRow:
        """A row of this turn, behind everything that has happened in it."""
        like = like or TranscriptRow(role, content, 0)
        return TranscriptRow(
            role,
            content,
            self._gateway.world.time(),
            self.turn_id,
            place=self._journal.last_seq,
            reasoning=(self.thought.strip() or None) if role == "assistant" else None,
            tool_calls=like.tool_calls,
            finish=like.finish,
            tool_call_id=like.tool_call_id,
            tool_name=like.tool_name,
            status=like.status,
            opaque=like.opaque,
        )


def _take_steered(
    db: sqlite3.Connection,
    session_id: str,
    turn_id: int,
    place: int,
    inbox_ids: Sequence[int],
    heard: Sequence[str],
    at: float,
    config: GatewayConfig,
) -> list[str]:
    """Let these messages join the turn, where they still wait, and write down what they say, and what was
    heard of processes."""
    taken = []
    for text in heard:
        transcript.append(db, session_id, TranscriptRow("user", text, at, turn_id, place=place))
        taken.append(text)
    for row in inbox.by_ids(db, inbox_ids):
        if inbox.join_turn(db, turn_id, [row.inbox_id]):
            text = as_told(row, config).event.text
            transcript.append(db, session_id, TranscriptRow("user", text, at, turn_id, place=place))
            taken.append(text)
    return taken
