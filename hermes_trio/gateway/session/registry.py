"""Sessions at work: one actor for each, which runs one turn after the other.

The row is the session; an actor is a cache that is started when there is something to do and leaves
when there has been nothing for a while. The inbox is its queue: a wake-up is only a hint to look there.
So nothing is lost by an actor that leaves, and nothing is done twice by one that is woken twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ...base.errors import GatewayError
from ...base.messages import MessageEvent
from ...config.schema import reset_policy
from ...log import Log
from ...state.rules.reset_policy import KNOWN_REASONS, is_fresh, notice_due
from ...state.tables import inbox, processes, sessions
from ...state.tables.inbox import Received
from ...state.tables.session_entry import SessionEntry
from ...state.tables.transcript import TranscriptRow
from ...state.tables.turns import Outcome, TurnRow
from ..outbound import texts
from ..startup.resume_rules import ends_in_tool_result, judge_tail, tail_time
from ..turn.attachments import with_files
from ..turn.attribution import as_told
from ..turn.handle import TurnHandle
from ..turn.run import run_turn
from ..turn.system_notes import reset_notice, with_note
from . import batching
from .session import Job, Session
from .turn_limit import TurnLimit

if TYPE_CHECKING:
    from ..parts import Gateway

IDLE = 300.0
RETRY_AFTER = 30.0
BACKGROUND = "agent:main:background:"
"""Sessions that work beside the conversation of a chat have keys of their own."""

log = Log(__name__)


class Sessions:
    """The actors there are. Lives with the `work` nursery, in which they run."""

    def __init__(self, gateway: Gateway, work: trio.Nursery) -> None:
        self._gateway, self._work = gateway, work
        self._actors: dict[str, Session] = {}
        self.running: set[Session] = set()
        """Those with a turn at this moment."""
        self.limit = TurnLimit(gateway.config.gateway.max_running_turns)
        self._closed = False

    @property
    def open(self) -> bool:
        """Whether new turns may begin. Looked at in the step that would begin one."""
        control, database = self._gateway.control, self._gateway.database
        return not (self._closed or control.current or control.held or database.is_replaced)

    def wake(self, key: str, *, resume: TurnRow | None = None) -> Session | None:
        """See to it that this session is looked after. None if no turn may begin now."""
        if not self.open:
            return None
        actor = self._actors.get(key)
        if actor is None:
            actor = self._actors[key] = Session(key)
            self._work.start_soon(self._run, actor, name=f"session {key}")
        actor.resume = resume or actor.resume
        actor.wake()
        return actor

    def task(self, key: str) -> TurnHandle | None:
        """The turn that runs in this session, if one does."""
        actor = self._actors.get(key)
        return actor.task if actor is not None else None

    def beside(self, key: str) -> list[Session]:
        """Those who work beside the conversation of this key."""
        return [
            actor
            for actor in self.running
            if actor.key.startswith(BACKGROUND)
            and actor.task is not None
            and actor.task.source is not None
            and self._gateway.store.key_of(actor.task.source) == key
        ]

    async def after_turn(self, key: str, job: Job) -> None:
        """Do something as soon as no turn of this session runs: now, if none does."""
        actor = self._actors.get(key)
        if actor is None or actor.task is None:
            await job()
        else:
            actor.jobs.append(job)

    def close(self) -> None:
        """Let no turn begin any more: who is idle leaves now, who is busy after its turn."""
        self._closed = True
        self.let_idle_ones_go()

    def let_idle_ones_go(self) -> None:
        """Let everybody look whether there still is something to wait for."""
        for actor in self._actors.values():
            actor.wake()

    async def _run(self, actor: Session) -> None:
        try:
            while self.open or actor.jobs:
                try:
                    while actor.jobs:
                        await actor.jobs[0]()
                        actor.jobs.popleft()  # not before: what the disk refuses is tried again
                    if await self._next_turn(actor):
                        continue
                except GatewayError as error:
                    # The disk is full, say. The message waits in the inbox, and so do we.
                    log.error("a turn could not be run", session=actor.key, error=str(error))
                    with trio.move_on_after(RETRY_AFTER):
                        await actor.woken()
                    continue
                with trio.move_on_after(IDLE):
                    await actor.woken()
                    continue
                if not actor.is_woken:  # it may have been, in the very moment patience ended
                    return
        finally:
            del self._actors[actor.key]

    async def _next_turn(self, actor: Session) -> bool:
        """Run the turn that is due, if one is."""
        resume = actor.resume
        if resume is not None:
            async with self._gateway.resumes, self.limit:
                actor.came.clear()  # who came before this turn comes behind it
                entry = await self._gateway.database.read(sessions.by_id, resume.session_id)
                if entry is not None:  # else it was deleted while this waited
                    await self._run_turn(actor, entry, [], resumes=resume.turn_id)
            actor.resume = None  # not before: what the disk refuses is tried again
            return True
        rows = await self._said(actor)
        if not rows:
            return False
        waits = not self.limit.has_room
        if self.limit.is_reached and actor.may_tell():
            self._gateway.reply(rows[0].event, texts.waits_for_room(self.limit.running))
        async with self.limit:
            if waits:  # meanwhile more may have come, or all may have gone
                rows = await self._said(actor)
            if rows:
                source = rows[0].event.source
                entry = await self._gateway.store.get_or_create_session(source, key=actor.key)
                self._gateway.background.end_former(entry)
                await self._run_turn(actor, entry, rows)
        return True

    async def _said(self, actor: Session) -> list[Received]:
        """The messages that the next turn answers. An album arrives picture by picture: it is waited for."""
        gateway = self._gateway
        patience = trio.current_time() + batching.LONGEST_WAIT  # also if the clock on the wall goes back
        while True:
            came, actor.came = actor.came, []
            waiting = await gateway.database.read(inbox.pending, actor.key)
            ids = {row.inbox_id for row in waiting}
            actor.came = [one for one in came if one[1] in ids] + actor.came
            rows = batching.first_of(waiting)
            if rows and not await self._let_in(rows[0]):
                await gateway.database.write(inbox.drop, rows[0].inbox_id, gateway.world.time())
                continue
            more_until = batching.may_go_on_until(rows)
            wait = min(more_until - gateway.world.time(), patience - trio.current_time())
            if wait <= 0 or not self.open:
                return rows
            with trio.move_on_after(wait):
                await actor.woken()

    async def _let_in(self, row: Received) -> bool:
        """Whether who wrote this may still talk to the agent: it may have waited for long. What was promised
        a run came through a door that asks for a key."""
        source = row.event.source
        if row.event.run_id or await self._gateway.access.may_talk(source):
            return True
        log.info("somebody is not let in any more", platform=source.platform, user=source.user_id)
        return False

    async def _run_turn(
        self, actor: Session, entry: SessionEntry, rows: list[Received], *, resumes: int | None = None
    ) -> Outcome | None:
        if not self.open:
            return None
        gateway = self._gateway
        task = TurnHandle(rows, resumes, entry.origin)
        actor.begin(task)
        self.running.add(actor)
        gateway.turns_changed()
        try:
            history = await gateway.history(entry)
            if any(row.event.attachments for row in rows):
                rows = await with_files(gateway, entry.session_id, rows)
            rows = task.rows = [as_told(row, gateway.config) for row in rows]
            if rows and not history:
                self._tell_of_reset(entry, rows[0].event)
            text = "\n\n".join(row.event.text for row in rows if row.event.text)
            gone = await gateway.database.read(processes.untold, entry.session_id, gateway.life)
            prompt = self._prompt(entry, history, text, [gateway.background.named(each) for each in gone])
            return await run_turn(gateway, entry, task, prompt=prompt, history=history)
        finally:
            actor.task = None
            self.running.discard(actor)
            gateway.turns_changed()
            if gateway.report is not None:
                gateway.report.turn_is_over(actor.key)

    def _tell_of_reset(self, entry: SessionEntry, event: MessageEvent) -> None:
        """The first message of a session that nobody asked for: whoever wrote it may want to know."""
        reason = KNOWN_REASONS.get(entry.auto_reset_reason or "")
        policy = reset_policy(self._gateway.config, event.source.platform, entry.chat_type)
        had_activity = entry.reset_had_activity
        if reason is not None and notice_due(
            policy, reason=reason, platform=event.source.platform, had_activity=had_activity
        ):
            self._gateway.reply(event, reset_notice(reason, policy))

    def _prompt(self, entry: SessionEntry, history: list[TranscriptRow], text: str, gone: list[str]) -> str:
        gateway = self._gateway
        now, window = gateway.world.time(), gateway.config.agent.gateway_auto_continue_freshness
        marked_at = entry.mark.at if entry.mark else None
        fresh = is_fresh(tail_time(history), now, window) and (
            not entry.resume_pending or is_fresh(marked_at, now, window)
        )
        return with_note(
            text,
            tail=judge_tail(history),
            tool_tail=ends_in_tool_result(history),
            fresh=fresh,
            marked=entry.resume_pending,
            mark_reason=entry.resume_reason,
            reset_reason=entry.auto_reset_reason if not history else None,
            gone=gone,
        )
