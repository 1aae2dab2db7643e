"""What is due when a platform is connected: what a former life, or the time without a link, left behind.

First who is to hear of our return, then what is owed to the chats, then the turns that were cut, then the
messages that wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.messages import SessionSource
from ...log import Log
from ...state.rules import settle
from ...state.tables import inbox, outbox, sessions, turns
from ...state.tables.session_entry import SessionEntry
from ...state.tables.turns import Outcome
from ..links.link import Connection
from ..outbound.announcements import address_of, owe_left_alone, tell_of_return
from ..outbound.rows import Chat
from .resume_rules import Action, Marked, Verdict, judge_tail, may_resume, tail_time

if TYPE_CHECKING:
    import sqlite3

    from ...state.tables.turns import TurnRow
    from ..parts import Gateway

log = Log(__name__)


async def on_up(gateway: Gateway, connection: Connection) -> None:
    """A platform is connected."""
    platform, account = connection.address
    await tell_of_return(gateway, connection)
    for chat_id in await gateway.database.read(outbox.waiting_chats, platform, account):
        gateway.lanes.of(Chat(platform, account, chat_id)).deliver()
    for entry in await gateway.database.read(sessions.marked):
        origin = entry.origin
        if origin is None or address_of(origin) != connection.address:
            continue
        if Chat.of(origin) not in gateway.dead:  # there nobody would hear of it: it stays marked
            await _resume(gateway, entry, origin)
    for key in await gateway.database.read(inbox.waiting_keys, platform, account):
        gateway.sessions.wake(key)


async def _resume(gateway: Gateway, entry: SessionEntry, origin: SessionSource) -> None:
    """Take up the cut turn of a marked session, if the rules let it; else do what they say."""
    history = await gateway.history(entry)
    cut = await gateway.database.read(turns.last_cut, entry.session_id)
    if cut is None:
        return
    resume = await gateway.database.read(turns.resume_of, cut.turn_id)
    if resume is not None and resume.outcome is None:
        return  # it is at work: the link alone was away
    facts = Marked(
        reason=entry.resume_reason,
        marked_at=entry.mark.at if entry.mark else None,
        tail=judge_tail(history),
        tail_at=tail_time(history),
        suspended=entry.suspended,
        has_origin=True,
        link_up=True,
        let_in=await gateway.access.may_talk(origin),
        had_its_run=resume is not None,
        fruitless=cut.resumes is not None and not any(r.turn_id == cut.turn_id for r in history),
    )
    window = gateway.config.agent.gateway_auto_continue_freshness
    verdict = may_resume(facts, now=gateway.world.time(), window=window)
    log.info("a cut turn", session=entry.session_id, verdict=verdict.why)
    if verdict is Verdict.UNFINISHED_WORK:
        gateway.sessions.wake(entry.session_key, resume=cut)
        return
    # The person is told also when the mark became stale meanwhile: while the gateway was down, say.
    tells = verdict in (Verdict.HAD_ITS_RUN, Verdict.FRUITLESS, Verdict.STALE_MARK, Verdict.STALE_TAIL)
    in_vain = facts.fruitless or (resume is not None and resume.outcome is Outcome.UNSTARTED)
    at, clears = gateway.world.time(), verdict.action is Action.CLEAR
    if await gateway.database.write(_leave_alone, entry, cut, at, clears=clears, tells=tells and in_vain):
        gateway.lanes.of(Chat.of(origin)).deliver()


def _leave_alone(
    db: sqlite3.Connection, entry: SessionEntry, cut: TurnRow, at: float, *, clears: bool, tells: bool
) -> bool:
    """Close the messages of a session's cut turns, as nobody takes them up, and clear the mark if asked.
    Return whether the person is now owed a word about it: once, and only if a message was still open."""
    owes = inbox.close_cut_turns(db, entry.session_id, at) and tells
    if clears:
        settle.clear_mark(db, entry.session_id, at)
    if owes:
        owe_left_alone(db, entry, cut, at)
    return owes
