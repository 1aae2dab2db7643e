"""The gateway's room: what is in it while it runs, and what happens when somebody says something.

`serve` builds one and holds it in its tree; nothing of it is global, so two of them may run in one
program.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog
import trio

from ..config import GatewayConfig
from ..host.guard import Guard
from ..host.markers import (
    RESTART_NOTIFY,
    RESTART_PENDING,
    RestartNotify,
    consume,
    read_restart_notify,
    read_restart_pending,
    write_restart_notify,
)
from ..host.status_board import StatusBoard
from ..journal.sessions import SessionReader
from ..journal.writer import Journals
from ..messages import MessageEvent, SessionSource
from ..platform import Traits
from ..state import endings, inbox, outbox, sessions, settle, turns
from ..state.database import Database
from ..state.endings import EndingRow
from ..state.entry import ResumeReason, SessionEntry
from ..state.store import SessionStore
from ..state.transcript import Message
from ..state.turns import Outcome
from ..world import World
from . import commands, words
from .control import Control
from .drain import Report
from .ending import LAST_WORDS, Cause, Consequences, Ending, Supervisor, consequences
from .lane import Chat, Lane
from .link import Connection
from .processes import Background
from .resume import Action, Marked, Verdict, judge_tail, may_resume, tail_time
from .run import Task
from .session import Sessions, stop
from .turn import Agent

log = structlog.wrap_logger(logging.getLogger(__name__))


class Lanes:
    """The lanes there are, one for each chat that has something to say or to hear."""

    def __init__(self, gateway: Gateway, nursery: trio.Nursery) -> None:
        self._gateway, self._nursery = gateway, nursery
        self._lanes: dict[Chat, Lane] = {}

    def of(self, chat: Chat) -> Lane:
        """The lane of this chat; started if there was none."""
        lane = self._lanes.get(chat)
        if lane is None:
            gateway = self._gateway
            lane = Lane(chat, gateway.connection(chat), gateway.database, gateway.world)
            self._lanes[chat] = lane
            self._nursery.start_soon(self._run, lane, name=f"lane {chat.platform}:{chat.chat_id}")
        return lane

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
    ending: trio.Event = field(default_factory=trio.Event)
    """Set when the gateway is ending: from then on no process is asked twice."""
    end_by: float | None = None
    """When all must be over, once the gateway is ending."""
    report: Report | None = None
    """How the stop goes, once the gateway is ending."""
    stuck: list[SessionEntry] = field(default_factory=list)
    """Sessions that were suspended at this start, and whose people do not know yet."""
    lanes: Lanes = field(init=False)
    background: Background = field(init=False)
    sessions: Sessions = field(init=False)
    _told: set[Chat] = field(default_factory=set)

    # --- what others ask ---

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

    async def history(self, entry: SessionEntry) -> list[Message]:
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

    def last_words_by(self) -> float:
        """Until when what is cut may write its last record."""
        by = trio.current_time() + LAST_WORDS
        return by if self.end_by is None else min(by, self.end_by - 0.5)

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

    def notify_active_sessions_of_shutdown(self, ending: Ending) -> None:
        """Tell the chats in which a turn runs what is about to happen. Waits for none of them."""
        text, told = self.what_follows(ending).told, set[tuple[Chat, str | None]]()
        for actor in self.sessions.running:
            source = actor.task.source if actor.task is not None else None
            if source is not None and self._may_notify(source.platform):
                where = _place(source)
                if where not in told:
                    told.add(where)
                    anchor = _anchor(where, ending.requester, actor.task)
                    self.lanes.of(where[0]).notice(text, thread_id=where[1], reply_to=anchor)
        if ending.requester is None:
            for where in self._home_channels():
                if where not in told:
                    self.lanes.of(where[0]).notice(text, thread_id=where[1])

    def _home_channels(self) -> Iterator[tuple[Chat, str | None]]:
        """The home channels of the platforms that are connected, and may be told of endings."""
        for (platform, account), connection in self.connections.items():
            config = self.config.platforms.get(platform)
            home = config.home_channel if config else None
            if home is not None and connection.link is not None and self._may_notify(platform):
                yield Chat(platform, account, home.chat_id), home.thread_id

    def _may_notify(self, platform: str) -> bool:
        config = self.config.platforms.get(platform)
        return config is None or config.gateway_restart_notification

    def remember_requester(self, source: SessionSource, event: MessageEvent) -> None:
        """See to it that the next life tells the chat that asked for the restart."""
        notify = RestartNotify(
            platform=source.platform,
            chat_id=source.chat_id,
            chat_type=source.chat_type,
            thread_id=source.thread_id,
            message_id=event.message_id,
        )
        write_restart_notify(self.home, notify, self.world)

    # --- the way of a message ---

    def lane_of(self, source: SessionSource) -> Lane:
        """The lane of the chat a message came from."""
        return self.lanes.of(Chat(source.platform, source.account, source.chat_id))

    def lets_in(self, source: SessionSource) -> bool:
        """Whether this person may talk to the agent."""
        config = self.config.platforms.get(source.platform)
        if config is None:
            return False
        return config.allow_from == "all" or (source.user_id or source.chat_id) in config.allow_from

    async def accept(self, event: MessageEvent) -> None:
        """Take in what was said: stored before this returns, so that it can be acknowledged."""
        if not self.lets_in(event.source):
            log.info("somebody was not let in", platform=event.source.platform, user=event.source.user_id)
            return
        key, command = self.store.key_of(event.source), commands.parse(event)
        stored = await self.database.write(
            inbox.store,
            event,
            session_key=key,
            own_key=self.world.new_id(),
            at=self.world.time(),
            done=command is not None,
        )
        if stored.seen_before:
            return
        if command is not None:
            await commands.obey(self, command, key, event)
        elif not self.sessions.wake(key):
            self._tell_once(event)
        elif self.config.display.busy_input_mode == "interrupt":
            stop(self, key, Outcome.SUPERSEDED)

    def _tell_once(self, event: MessageEvent) -> None:
        source = event.source
        chat = Chat(source.platform, source.account, source.chat_id)
        if chat not in self._told:
            self._told.add(chat)
            self.lane_of(source).notice(words.after_restart(), thread_id=source.thread_id)

    # --- what waits from before ---

    async def on_up(self, connection: Connection) -> None:
        """A platform is connected: what is owed to its chats, then its cut turns, then what waits."""
        platform, account = connection.address
        self._tell_requester(connection)
        self._tell_home(connection)
        self._tell_stuck(connection)
        for chat_id in await self.database.read(outbox.waiting_chats, platform, account):
            self.lanes.of(Chat(platform, account, chat_id)).deliver()
        for entry in await self.database.read(sessions.marked):
            origin = entry.origin
            if origin is not None and (origin.platform, origin.account) == connection.address:
                await self._resume(entry, origin)
        for key in await self.database.read(inbox.waiting_keys, platform, account):
            self.sessions.wake(key)

    def _tell_requester(self, connection: Connection) -> None:
        """Tell the chat that asked for a restart that it is done. The note of it is kept until then."""
        asked = read_restart_notify(self.home, self.world).marker
        if asked is not None and asked.platform == connection.adapter.name:
            chat = Chat(asked.platform, connection.adapter.account, asked.chat_id)
            self.lanes.of(chat).notice(
                words.restarted(), thread_id=asked.thread_id, reply_to=asked.message_id
            )
            consume(self.home, RESTART_NOTIFY)

    def _tell_home(self, connection: Connection) -> None:
        """Tell the home channel that the gateway is back from a restart that no chat asked for."""
        config = self.config.platforms.get(connection.adapter.name)
        home = config.home_channel if config else None
        if home is None or not self._may_notify(connection.adapter.name):
            return
        if read_restart_pending(self.home, self.world).marker is not None:
            chat = Chat(*connection.address, home.chat_id)
            self.lanes.of(chat).notice(words.back(), thread_id=home.thread_id)
            consume(self.home, RESTART_PENDING)

    def _tell_stuck(self, connection: Connection) -> None:
        """Tell the people whose sessions were suspended at this start, once."""
        for entry in list(self.stuck):
            origin = entry.origin
            if origin is not None and (origin.platform, origin.account) == connection.address:
                self.stuck.remove(entry)
                self.lane_of(origin).notice(words.stuck(), thread_id=origin.thread_id)

    async def _resume(self, entry: SessionEntry, origin: SessionSource) -> None:
        """Take up the cut turn of a marked session, if the rules let it; else do what they say."""
        history = await self.history(entry)
        cut = await self.database.read(turns.last_cut, entry.session_id)
        if cut is None:
            return
        verdict = may_resume(
            Marked(
                reason=entry.resume_reason,
                marked_at=entry.mark.at if entry.mark else None,
                tail=judge_tail(history),
                tail_at=tail_time(history),
                suspended=entry.suspended,
                has_origin=True,
                link_up=True,
                let_in=self.lets_in(origin),
                had_its_run=await self.database.read(turns.was_resumed, cut.turn_id),
                fruitless=cut.resumes is not None and not any(r.turn_id == cut.turn_id for r in history),
            ),
            now=self.world.time(),
            window=self.config.agent.gateway_auto_continue_freshness,
        )
        log.info("a cut turn", session=entry.session_id, verdict=verdict.why)
        if verdict is Verdict.UNFINISHED_WORK:
            self.sessions.wake(entry.session_key, resume=cut)
        elif verdict.action is Action.CLEAR:
            await self.database.write(settle.clear_mark, entry.session_id, self.world.time())
        else:
            await self.database.write(inbox.close_cut_turns, entry.session_id, self.world.time())


def _place(source: SessionSource) -> tuple[Chat, str | None]:
    return Chat(source.platform, source.account, source.chat_id), source.thread_id


def _anchor(where: tuple[Chat, str | None], requester: MessageEvent | None, task: Task | None) -> str | None:
    """Which message a notice answers: the command that asked for the restart if it stands in the same
    place, else the message that the turn answers."""
    if requester is not None and _place(requester.source) == where:
        return requester.message_id
    return task.rows[-1].event.message_id if task is not None and task.rows else None
