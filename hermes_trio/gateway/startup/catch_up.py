"""Catching up when a platform connects: announcements, owed rows, cut turns and waiting messages of a former
life, or of the time without a link. In this order.

It may touch the rows of these, the lanes, and the registry of sessions.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ...base.messages import SessionSource
from ...log import Log
from ...state.db.engine import Db
from ...state.rules import settle
from ...state.rules.ownership import OwnWork, adopt, own_work
from ...state.tables import inbox, outbox, sessions, turns
from ...state.tables.session_entry import SessionEntry
from ...state.tables.turns import Outcome, TurnRow
from ..home.open_home import Home
from ..links.access import Access
from ..links.link import Connection
from ..outbound.announcements import announce_return, owe_left_alone
from ..outbound.chats import Chats
from ..outbound.rows import Chat
from ..session.registry import Sessions
from ..turn.transcript_tail import judge_tail, tail_time
from .resume_rules import Action, Marked, Verdict, may_resume

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class CatchUp:
    """Takes up what waits for a platform."""

    home: Home
    chats: Chats
    access: Access
    sessions: Sessions

    async def run(self, connection: Connection) -> None:
        """Take up all work that waits for the platform that just connected."""
        platform, account = connection.address
        database = self.home.database
        await announce_return(self.home, self.chats, connection)
        if self.home.owner is not None:
            await self.take_up(connection, self.home.owner, ())
            return
        for chat_id in await database.read(outbox.waiting_chats, platform, account):
            self.chats.lane(Chat(platform, account, chat_id)).deliver()
        for entry, origin in await self._marked(connection):
            await self._resume(entry, origin)
        for key in await database.read(inbox.waiting_keys, platform, account):
            self.sessions.wake(key)

    async def take_up(self, connection: Connection, owner: str, known: Collection[str]) -> OwnWork:
        """Take up the work in the chats of this gateway on an account, and in those that are nobody's. Return
        them. Cut turns are resumed in chats that are not `known`."""
        database, address = self.home.database, connection.address
        work = await database.read(own_work, owner, *address)
        if work.free:
            work = await database.write(adopt, owner, *address)
        for chat_id in work.owed:
            self.chats.lane(Chat(*address, chat_id)).deliver()
        for entry, origin in await self._marked(connection) if work.chats - set(known) else ():
            if origin.chat_id in work.chats and origin.chat_id not in known:
                await self._resume(entry, origin)
        for key in work.keys:
            self.sessions.wake_unless_busy(key)
        return work

    async def _marked(self, connection: Connection) -> list[tuple[SessionEntry, SessionSource]]:
        """Return the marked sessions of an account, each with its chat. Those in gone chats stay marked:
        nobody would read the answer."""
        return [
            (entry, entry.origin)
            for entry in await self.home.database.read(sessions.marked)
            if entry.origin is not None
            and (entry.origin.platform, entry.origin.account) == connection.address
            and Chat.of(entry.origin) not in self.chats.gone.reasons
        ]

    async def _resume(self, entry: SessionEntry, origin: SessionSource) -> None:
        """Resume the cut turn of a marked session if the rules allow it; else apply their verdict."""
        home = self.home
        history = (await home.reader.with_transcript(entry)).rows
        cut = await home.database.read(turns.last_cut, entry.session_id)
        if cut is None:
            return
        resume = await home.database.read(turns.resume_of, cut.turn_id)
        if resume is not None and resume.outcome is None:
            return  # it runs now: only the link was lost
        facts = Marked(
            reason=entry.resume_reason,
            marked_at=entry.mark.at if entry.mark else None,
            tail=judge_tail(history),
            tail_at=tail_time(history),
            suspended=entry.suspended,
            has_origin=True,
            link_up=True,
            let_in=await self.access.may_talk(origin),
            had_its_run=resume is not None,
            fruitless=cut.resumes is not None and not any(r.turn_id == cut.turn_id for r in history),
        )
        window = home.config.agent.gateway_auto_continue_freshness
        verdict = may_resume(facts, now=home.world.time(), window=window)
        log.info("cut turn judged", session=entry.session_id, verdict=verdict.why)
        if verdict is Verdict.UNFINISHED_WORK:
            self.sessions.wake(entry.session_key, resume=cut)
            return
        # Announced also if the mark became stale while the gateway was down.
        announced = verdict in (
            Verdict.HAD_ITS_RUN,
            Verdict.FRUITLESS,
            Verdict.STALE_MARK,
            Verdict.STALE_TAIL,
        )
        in_vain = facts.fruitless or (resume is not None and resume.outcome is Outcome.UNSTARTED)
        at, clears = home.world.time(), verdict.action is Action.CLEAR
        if await home.database.write(
            _leave_alone, entry, cut, at, clears=clears, announces=announced and in_vain
        ):
            self.chats.lane(Chat.of(origin)).deliver()


def _leave_alone(
    db: Db, entry: SessionEntry, cut: TurnRow, at: float, *, clears: bool, announces: bool
) -> bool:
    """Close the messages of a session's cut turns, which nothing resumes, and clear the mark if asked. Return
    whether the person is now owed an announcement: once, and only if a message was still open."""
    owes = inbox.close_cut_turns(db, entry.session_id, at) and announces
    if clears:
        settle.clear_mark(db, entry.session_id, at)
    if owes:
        owe_left_alone(db, entry, cut, at)
    return owes
