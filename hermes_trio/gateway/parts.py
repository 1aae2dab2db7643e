"""The gateway's room: what is in it while it runs, and what happens when somebody says something.

`serve` builds one and holds it in its tree; nothing of it is global, so two of them may run in one
program.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trio

from ..base.messages import HomeChannel, MessageEvent, SessionSource
from ..base.world import World
from ..config.schema import GatewayConfig
from ..host.home.status_board import StatusBoard
from ..host.loop.worker import Worker
from ..host.processes.guard import Guard
from ..journal.session_reader import SessionReader
from ..journal.writer import Journals
from ..log import Log
from ..masking.redaction import Masking
from ..platform.contract import Traits
from ..state.db.database import Database
from ..state.rules.store import SessionStore
from ..state.tables import endings
from ..state.tables.endings import EndingRow
from ..state.tables.session_entry import ResumeReason, SessionEntry
from ..state.tables.transcript import TranscriptRow
from ..state.tables.turns import Outcome
from .drain import Report
from .ending.control import Control
from .ending.endings_table import LAST_WORDS, Cause, Consequences, Ending, Supervisor, consequences
from .intake.access import Access
from .links.link import Connection
from .outbound.lane import Lane
from .outbound.rows import Chat
from .processes.background import Background
from .session.registry import Sessions
from .turn.context import Agent

log = Log(__name__)


class Lanes:
    """The lanes there are, one for each chat that has something to say or to hear."""

    def __init__(self, gateway: Gateway, nursery: trio.Nursery) -> None:
        self._gateway, self._nursery = gateway, nursery
        self._lanes: dict[Chat, Lane] = {}

    def of(self, chat: Chat) -> Lane:
        """The lane of this chat; started if there was none. Behind the end it sends nothing: the links go
        on hearing for a moment, and what is owed stands in the outbox."""
        lane = self._lanes.get(chat)
        if lane is None:
            gateway = self._gateway
            lane = Lane(chat, gateway.connection(chat), gateway.database, gateway.world, gateway.dead)
            self._lanes[chat] = lane
            if not self._nursery.cancel_scope.cancel_called:
                self._nursery.start_soon(self._run, lane, name=f"lane {chat.platform}:{chat.chat_id}")
        return lane

    def held_for(self, chat: Chat) -> float:
        """Seconds until a flood wait of this chat is over; 0 without one. Starts no lane."""
        lane = self._lanes.get(chat)
        return lane.held_for if lane is not None else 0.0

    async def _run(self, lane: Lane) -> None:
        def leave() -> bool:
            # No await between this answer and the end of the task: nobody can hand it anything.
            del self._lanes[lane.chat]
            return True

        await lane.run(leave=leave)

    async def flushed(self) -> None:
        """Wait until every lane has sent what can go now."""
        async with trio.open_nursery() as nursery:
            for lane in self._lanes.values():
                nursery.start_soon(lane.flushed)


@dataclass(slots=True)
class Gateway:
    """Everything the tasks of one gateway share."""

    home: Path
    config: GatewayConfig
    world: World
    life: str
    database: Database
    journals: Journals
    store: SessionStore
    reader: SessionReader
    agent: Agent
    control: Control
    connections: Mapping[tuple[str, str], Connection]
    supervised_by: Supervisor
    board: StatusBoard
    guard: Guard | None
    """Takes our processes along if we are killed; None where no process is ever started."""
    resumes: trio.CapacityLimiter
    masking: Masking
    """Masks the secrets of this gateway in whatever others read."""
    worker: Worker
    """Makes the threads of whoever has to wait for a disk."""
    ending: trio.Event = field(default_factory=trio.Event)
    """Set when the gateway is ending: from then on no process is asked twice."""
    over: trio.Event = field(default_factory=trio.Event)
    """Set when the work is over: a door gives the last of it to who still listens, and closes."""
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    """How the turns of this life have ended."""
    report: Report | None = None
    """How the stop goes, once the gateway is ending."""
    dead: dict[Chat, str] = field(default_factory=dict)
    """The chats that are gone, and why. Nothing is sent there until somebody is heard from there."""
    home_channels: dict[tuple[str, str], HomeChannel] = field(default_factory=dict)
    """Where /sethome said that the home channel of an account is."""
    told: set[Chat] = field(default_factory=set)
    """The chats that know that nothing begins now."""
    lanes: Lanes = field(init=False)
    background: Background = field(init=False)
    sessions: Sessions = field(init=False)

    # --- what others ask ---

    @property
    def access(self) -> Access:
        """Who may talk to the agent, and who may do more."""
        own = {one.adapter.name for one in self.connections.values() if one.adapter.traits.own_door}
        return Access(self.config, self.database, self.world, own)

    def connection(self, chat: Chat) -> Connection:
        """The connection through which this chat is reached."""
        return self.connections[chat.platform, chat.account]

    def traits(self, chat: Chat) -> Traits:
        """What the platform of this chat can do."""
        return self.connection(chat).adapter.traits

    def streams(self, chat: Chat | None) -> bool:
        """Whether answers grow in this chat while they are written."""
        if chat is None or not self.config.streaming.enabled:
            return False
        return self.traits(chat).edits

    async def history(self, entry: SessionEntry) -> list[TranscriptRow]:
        """The transcript of a session, healed."""
        session = await self.reader.get_session(entry.session_id)
        return list(session.rows) if session else []

    def turns_changed(self) -> None:
        """Another number of turns is running than a moment ago."""
        self.board.set(active_turns=len(self.sessions.running))

    # --- how it ends ---

    def stop(self, *, restart: bool = False, grace: float | None = None, asked_by: str = "") -> bool:
        """Ask for the end, with the grace of the configuration if none is named. False if an ending
        counts already that this one does not change."""
        cause = Cause.RESTART if restart else Cause.PLANNED
        if grace is None:
            grace = self.config.agent.restart_drain_timeout
        return self.control.ask(Ending(cause, grace, asked_by))

    def what_follows(self, ending: Ending) -> Consequences:
        """All that follows from this ending, here."""
        return consequences(ending, self.supervised_by)

    def reached(self, phase: str) -> None:
        """A phase of the stop is over."""
        if self.report is not None:
            self.report.is_over(phase)

    def cut_reason(self) -> str:
        """Why a turn is cut that is cut now."""
        ending = self.control.current
        return self.what_follows(ending).resume_reason if ending else ResumeReason.CRASH

    def within(self, seconds: float, *, before_end: float) -> float:
        """Until when something may take that is given so many seconds: what comes behind it needs the
        last ones before the end."""
        return min(trio.current_time() + seconds, self.control.end_by - before_end)

    def last_words_by(self) -> float:
        """Until when what is cut may write its last record."""
        return self.within(LAST_WORDS, before_end=1.0)

    async def record(self, ending: Ending) -> None:
        """Commit the ending: from here on a turn without an end was cut by it."""
        follows = self.what_follows(ending)
        row = EndingRow(
            self.life,
            ending.kind,
            ending.cause,
            ending.grace,
            follows.resume_reason,
            follows.state_left,
            self.world.time(),
            ending.asked_by or None,
        )
        await self.database.write(endings.record, row)

    # --- what is said ---

    def lane_of(self, source: SessionSource) -> Lane:
        """The lane of the chat a message came from."""
        return self.lanes.of(Chat.of(source))

    def reply(self, event: MessageEvent, text: str) -> None:
        """Say something to whoever sent this, once and unstored."""
        # A press has an id of its own, and is no message that could be replied to.
        reply_to = event.reply_to if event.kind == "callback" else event.message_id
        self.lane_of(event.source).notice(text, thread_id=event.source.thread_id, reply_to=reply_to)
