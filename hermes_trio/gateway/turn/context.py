"""The turn as its agent sees it: the messages to answer, the transcript so far, and the ways to write, to
ask, to call tools and to run commands. Each event is in the run journal before it is shown.

It may touch the journal of its run, its transcript, its chat and its commands; it does not end the turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import trio

from ...agent.tool_calls import run_calls
from ...base.errors import StoreError
from ...base.events import Event, MessageDelta, ReasoningAvailable
from ...base.messages import MessageEvent
from ...base.world import World
from ...config.schema import GatewayConfig
from ...host.processes.process_groups import ChildProcess
from ...journal.writer import RunWriter
from ...masking.redaction import Masking, SecretStream
from ...platform.contract import Dialect
from ...state.db.column_text import storable
from ...state.db.database import Database
from ...state.db.engine import Db
from ...state.tables import inbox, outbox, transcript, turns
from ...state.tables.session_entry import Usage
from ...state.tables.transcript import ToolCall, TranscriptRow
from ...state.tables.turns import Outcome
from ...tools.background_process import BackgroundProcess, OutputWatch
from ...tools.sandbox.session_sandbox import SessionSandbox
from ...tools.sandbox.views import NOTHING, Grants
from ...tools.tool import Approval, Result, Tool
from ..home.open_home import Home
from ..outbound.chats import Chats
from ..outbound.rows import Body, Chat, owed
from ..outbound.split import fits
from ..processes.background import Background
from ..processes.command import Command
from .attachments import keep
from .attribution import with_attribution
from .open_question import DENY
from .questions import Asker
from .turn_run import TurnRun

_EMPTY = (MessageDelta(""), ReasoningAvailable(""))


class TurnContext:
    """A turn as its agent sees it."""

    def __init__(
        self,
        home: Home,
        chats: Chats,
        background: Background,
        run: TurnRun,
        journal: RunWriter,
        nursery: trio.Nursery,
    ) -> None:
        self._home, self._chats, self._background = home, chats, background
        self._run, self._journal, self._nursery = run, journal, nursery
        self._handle = run.handle
        self.entry, self.turn_id, self.run_id = run.entry, run.turn_id, run.run_id
        self.prompt = run.prompt
        """The text to answer, with the gateway's note before it if one is due."""
        self.said: tuple[MessageEvent, ...] = tuple(row.event for row in run.handle.rows)
        """The messages that this turn answers; none for a resumed turn."""
        self.history = tuple(run.history)
        """The transcript before this turn."""
        self.usage: Usage | None = None
        """Tokens that the model used; set by the agent."""
        self.text = ""
        """Everything that the agent has written so far."""
        self.segment = ""
        """The part of it that no row of the transcript holds yet: the text after the last tools."""
        self.thought = ""
        """Reasoning of the model that no row holds yet."""
        self.watches: list[OutputWatch] = []
        """Output watches that this turn started. They end with it, unless it is answered."""
        self.has_asked = False
        """True once a request went to a model. A cut before that interrupts no work."""
        self._answer_pieces, self._thought_pieces = SecretStream(home.secrets), SecretStream(home.secrets)
        self._active_at = trio.current_time()
        self.active()

    # --- activity ---

    def active(self) -> None:
        """Restart the clock of inactivity, which ends the turn after `agent.gateway_timeout` seconds."""
        self._active_at = trio.current_time()
        limit = self._home.config.agent.gateway_timeout
        if limit and not self._handle.questions:
            self._handle.scope.deadline = self._active_at + limit

    @property
    def active_at(self) -> float:
        """Time of the last activity. Waiting for a person counts as activity."""
        return trio.current_time() if self._handle.questions else self._active_at

    # --- the gateway, for the agent ---

    @property
    def session_id(self) -> str:
        return self.entry.session_id

    @property
    def home(self) -> Path:
        """Directory of the gateway."""
        return self._home.path

    @property
    def cwd(self) -> Path:
        """Directory in which commands start."""
        return self.sandbox.room.work

    @property
    def sandbox(self) -> SessionSandbox:
        """Sandbox of the commands of the session."""
        return self._background.commands.sandbox(self.session_id)

    @property
    def config(self) -> GatewayConfig:
        return self._home.config

    @property
    def world(self) -> World:
        return self._home.world

    @property
    def database(self) -> Database:
        return self._home.database

    @property
    def masking(self) -> Masking:
        """Mask of the gateway's secrets."""
        return self._home.masking

    @property
    def dialect(self) -> Dialect:
        """Form in which people see the text: as written, or as rendered Markdown."""
        return self._run.connection.adapter.traits.dialect if self._run.connection is not None else "markdown"

    # --- the answer ---

    async def requesting(self) -> None:
        """Note that a request goes to a model. From here on a cut interrupts work."""
        self.active()
        if not self.has_asked:
            self.has_asked = True
            if self._run.request_is_noted:
                await trio.lowlevel.checkpoint()
                return
            await self._home.database.write(turns.note_request, self.turn_id, self._home.world.time())

    async def emit(self, event: Event) -> None:
        """Write an event to the run journal, then show it. Known secrets in a piece of text are masked, also
        those of which one piece has the beginning and the next one the end."""
        await self.requesting()
        await self._end_texts(but=type(event))
        await self._append(event)

    async def finish(self, answer: object) -> str:
        """End the text that was written. Return the answer of the agent as it is stored: its own text, or the
        last segment. Raises `TypeError` if the answer is no text."""
        await self._end_texts()
        if answer in (None, "", self.segment):
            return self.segment
        if isinstance(answer, str):
            return self._home.secrets.masking.known(storable(answer))
        raise TypeError(f"it answered with {type(answer).__name__} instead of a text")

    async def _end_texts(self, *, but: type[Event] | None = None) -> None:
        """Write what was held back of the answer and of the reasoning."""
        if self._thought_pieces.held and but is not ReasoningAvailable:
            await self._append(ReasoningAvailable(""), ends=True)
        if self._answer_pieces.held and but is not MessageDelta:
            await self._append(MessageDelta(""), ends=True)

    async def _append(self, event: Event, *, ends: bool = False) -> None:
        """Write an event to the run journal, then show it. What may begin a secret is held back."""
        if isinstance(event, MessageDelta):
            event = MessageDelta(self._answer_pieces.feed(event.delta, ends=ends))
        elif isinstance(event, ReasoningAvailable):
            event = ReasoningAvailable(self._thought_pieces.feed(event.text, ends=ends))
        if event in _EMPTY:
            return
        try:
            await self._journal.append(event)
        except trio.Cancelled:
            self._note(event)  # the journal still writes the event, and followers see it
            raise
        self._note(event)
        if isinstance(event, MessageDelta):
            self._show()

    def _note(self, event: Event) -> None:
        if isinstance(event, MessageDelta):
            if self.text and not self.segment:
                self.text += "\n\n"  # separates the text from the text before the tools
            self.segment += event.delta
            self.text += event.delta
        elif isinstance(event, ReasoningAvailable):
            self.thought += event.text

    def _show(self) -> None:
        """Show the text in the chat. A text that outgrows one message is sent whole at the end."""
        run, stream = self._run, self._run.stream
        if stream is None or run.chat is None or run.connection is None:
            return
        if fits(self.text + stream.cursor, run.connection.adapter.traits):
            self._chats.lane(run.chat).show(stream, self.text)

    async def say(self, text: str) -> None:
        """Write the next piece of the answer."""
        await self.emit(MessageDelta(text))

    def mention(self, text: str) -> None:
        """Tell the person a text that is not part of the answer. It is not stored."""
        source = self._handle.source
        if source is not None:
            self._chats.notice(source, self.masking(text))

    async def send_file(self, name: str, data: bytes, text: str = "") -> bool:
        """Send the person a copy of a file with a caption. Return False if their platform takes no files."""
        self.active()
        source = self._handle.source
        if source is None or not self._chats.traits(Chat.of(source)).sends_files:
            return False
        number = self._home.world.new_id()
        file = await keep(self._home, self.session_id, f"sent-{number}", name, data)
        chat, body = Chat.of(source), Body(self.masking.known(text), files=(file,))
        key = f"{self.run_id}:file:{number}"
        row = owed(
            chat, key, body, thread_id=source.thread_id, session_id=self.session_id, turn_id=self.turn_id
        )
        await self._home.database.write(outbox.owe, row, self._home.world.time())
        self._chats.lane(chat).deliver()
        return True

    def schedule_changed(self) -> None:
        """Tell the gateway that the schedule has changed."""
        self._home.schedule.set()

    # --- commands ---

    def running(
        self, command: Command, *, cwd: Path | None = None, grants: Grants = NOTHING
    ) -> AbstractAsyncContextManager[ChildProcess]:
        """Run a command for as long as the block, and no longer than the turn, with its descendants."""
        return self._background.commands.running(self.session_id, command, cwd=cwd or self.cwd, grants=grants)

    async def start_background(
        self,
        command: Command,
        *,
        cwd: Path | None = None,
        grants: Grants = NOTHING,
        notify: bool = False,
        watch: Sequence[str] = (),
    ) -> BackgroundProcess:
        """Start a command that belongs to the session. With `notify` its end begins a turn. With `watch` this
        turn is told of each line that holds one of these texts, and later the session until its next turn."""
        start = self._background.start
        process = await start(self.entry, command, cwd=cwd or self.cwd, grants=grants, notify=notify)
        if watch:
            watching = OutputWatch(process, tuple(watch))
            self.watches.append(watching)
            self._nursery.start_soon(watching.run, self._note_match, name=f"watch {process.id}")
        return process

    def background(self) -> list[BackgroundProcess]:
        """Return the background processes of the session, including those that ended lately."""
        return self._background.of_session(self.session_id)

    def end_background(self, process: BackgroundProcess) -> None:
        """Kill a background process and its descendants."""
        self._background.kill(process)

    def _note_match(self, text: str) -> None:
        match = self._background.admit_match(text)
        if match is not None:
            self._handle.watch_matches.append(match)

    async def call_tool(self, tool: Tool, arguments: str = "{}") -> Result:
        """Call a tool as a model has asked for it, with its arguments as JSON; show and store the call."""
        call = ToolCall(self.world.new_id(), tool.name, arguments)
        await self.calls(self.segment, call)
        return (await run_calls(self, {tool.name: tool}, [call]))[call.id]

    # --- the person ---

    async def ask(self, text: str, choices: Sequence[str] = (), *, within: float | None = None) -> str | None:
        """Ask the person a question and return the answer; None if none came in time."""
        limit = self._home.config.agent.clarify_timeout if within is None else within
        return await self._asker().ask(self.masking.known(text), choices, within=limit)

    async def may(self, what: Approval | str) -> str | None:
        """Ask for approval of something that may do harm. Return its scope (`once`, `session` or `always`),
        or None for a no and for no answer in time. A plain text is the command. Raises `NotShown` if the
        person cannot be shown it whole and exactly."""
        approval = Approval(what) if isinstance(what, str) else what
        answer = await self._asker().ask(approval, within=self._home.config.approvals.timeout)
        return None if answer == DENY else answer

    def _asker(self) -> Asker:
        # Not an attribute: objects that refer to each other stay in memory until the garbage collector runs.
        return Asker(self._home, self._chats, self, self._handle)

    @contextmanager
    def not_now(self, why: str) -> Iterator[None]:
        """Let new messages wait during the block. /stop and the end of the gateway do not wait."""
        self._handle.uninterruptible.append(why)
        try:
            yield
        finally:
            self._handle.uninterruptible.remove(why)

    async def steered(self) -> list[str]:
        """Take new messages that are to join this turn; one that is never taken begins the next turn."""
        ids, self._handle.steered = self._handle.steered, []
        matches, self._handle.watch_matches = self._handle.watch_matches, []
        if not ids and not matches:
            return []
        session_id, turn_id, config = self.session_id, self.turn_id, self._home.config
        empty_row = self.row(TranscriptRow("user", "", 0))

        def step(db: Db) -> list[str]:
            # A message that does not wait any more was dropped meanwhile.
            joined = [row for row in inbox.by_ids(db, ids) if inbox.join_turn(db, turn_id, [row.inbox_id])()]
            taken = [*matches, *(with_attribution(row, config).event.text for row in joined)]
            for text in taken:
                transcript.append(db, session_id, replace(empty_row, content=text))
            return taken

        return await self._home.database.write(step)

    # --- the transcript ---

    async def calls(self, text: str, *tool_calls: ToolCall, opaque: str | None = None) -> None:
        """Store the row that says which tools the model calls, before the first of them runs."""
        await self._end_texts()
        known = self.masking.known
        text = known(text)
        tool_calls = tuple(replace(call, arguments=known(call.arguments)) for call in tool_calls)
        if opaque is not None and known(opaque) != opaque:
            opaque = None  # signed by the model, so it cannot be masked
        row = self.row(
            TranscriptRow("assistant", text, 0, tool_calls=tool_calls, finish="tool_calls", opaque=opaque)
        )
        # Reset before the write: a cancelled caller leaves, and the row is stored all the same.
        held, self.segment, self.thought = (self.segment, self.thought), "", ""
        try:
            await self._store(row)
        except StoreError:
            self.segment, self.thought = held
            raise

    async def result(self, call: ToolCall, content: str, status: str = "ok") -> None:
        """Store the result of a tool call."""
        await self._store(
            self.row(
                TranscriptRow(
                    "tool",
                    self.masking.known(content),
                    0,
                    tool_call_id=call.id,
                    tool_name=call.name,
                    status=status,
                )
            )
        )

    async def _store(self, row: TranscriptRow) -> None:
        self.active()
        await self._home.database.write(transcript.append, self.session_id, row)

    def last_rows(self, outcome: Outcome) -> tuple[TranscriptRow, ...]:
        """Return the rows that the end of the turn adds to the transcript."""
        if outcome is Outcome.ANSWERED:
            return (self.row(TranscriptRow("assistant", self._run.answer, 0, finish="stop")),)
        if self.segment and outcome is not Outcome.CUT:
            # The text of a cut turn is recovered from its journal when the session is read.
            return (self.row(TranscriptRow("assistant", self.segment, 0, finish=outcome)),)
        return ()

    def row(self, row: TranscriptRow) -> TranscriptRow:
        """Return this row with the turn, the time and the place after everything that has happened in the
        turn."""
        return replace(
            row,
            created_at=self._home.world.time(),
            turn_id=self.turn_id,
            place=self._journal.last_seq,
            reasoning=(self.thought.strip() or None) if row.role == "assistant" else None,
        )
