"""The session store: the rules of sessions, applied to the database.

Pure functions decide (`next_use` here, the functions of `reset_policy`); each method of the store applies a
decision in one transaction. The store keeps no session in memory: the row is the session.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ...base.messages import SessionSource, build_session_key
from ...base.world import World
from ...config.schema import GatewayConfig, reset_policy
from ..db.database import Database
from ..db.engine import Db
from ..tables import processes, sessions, transcript, turns
from ..tables.session_entry import Mark, ResumeReason, SessionEntry
from ..tables.transcript import TranscriptRow
from ..tables.turns import TurnRow
from . import settle
from .reset_policy import is_fresh, process_blocks_reset, reset_due
from .retention import forget_sessions


@dataclass(frozen=True, slots=True)
class NextUse:
    """The decision how the next message of a chat uses the session."""

    clear_mark: bool = False
    renew: str | None = None
    """The reason for a new session; None if the existing one continues."""


def next_use(entry: SessionEntry, *, mark_is_fresh: bool, due: str | None) -> NextUse:
    """Decide whether a session continues. The first rule that applies wins: a suspended session is replaced;
    a fresh resume mark keeps the session whatever the policy says, because its cut turn is to be resumed; a
    stale mark is cleared, and is itself no reason for a new session; then the policy decides (`due`)."""
    if entry.suspended:
        return NextUse(renew="suspended")
    if entry.resume_pending and mark_is_fresh:
        return NextUse()
    return NextUse(clear_mark=entry.resume_pending, renew=due)


class SessionStore:
    """The sessions of all chats. Every method is one transaction or one read."""

    def __init__(self, database: Database, config: GatewayConfig, world: World) -> None:
        self._database, self._config, self._world = database, config, world

    def key_of(self, source: SessionSource) -> str:
        """Return the session key for messages from `source`."""
        return key_of(source, self._config)

    async def get_session_entry(self, key: str) -> SessionEntry | None:
        """Return the open session of a key, without using it; None if there is none."""
        return await self._database.read(sessions.open_by_key, key)

    async def get_or_create_session(self, source: SessionSource, *, key: str | None = None) -> SessionEntry:
        """Return the session for a message from `source` now: the existing one, or a new one in its place.
        Concurrent calls for one key get the same session. `key` replaces the key of the source, for work
        that runs beside its conversation."""
        return await self._database.write(use_session, source, self._config, self._world, key)

    async def mark_resume_pending(self, key: str, reason: str = ResumeReason.RESTART) -> bool:
        """Set the resume mark. Return False if there is no such session, or it is suspended."""
        mark = Mark("resume_pending", reason, self._world.time())

        def step(db: Db) -> bool:
            entry = sessions.open_by_key(db, key)
            if entry is None or entry.suspended:
                return False
            sessions.set_mark(db, entry.session_id, mark)
            return True

        return await self._database.write(step)

    async def clear_resume_pending(self, key: str) -> bool:
        """Clear the resume mark, and close the messages of the cut turns. Return False if there is none."""

        def step(db: Db) -> bool:
            session_id = sessions.open_id(db, key)
            return session_id is not None and settle.clear_mark(db, session_id, self._world.time())

        return await self._database.write(step)

    async def suspend_session(self, key: str) -> bool:
        """Suspend a session: its next message starts a new one. Return False if there is none."""

        def step(db: Db) -> bool:
            session_id = sessions.open_id(db, key)
            if session_id is not None:
                settle.suspend(db, session_id, self._world.time())
            return session_id is not None

        return await self._database.write(step)

    async def suspend_recently_active(self, max_age: float = 120) -> int:
        """Suspend the unmarked sessions that were used in the last `max_age` seconds; return their number.
        `agent.crash_recovery: suspend` does this after a crash."""
        now = self._world.time()

        def step(db: Db) -> int:
            used = sessions.used_since(db, now - max_age)
            recent = [entry for entry in used if entry.mark is None]
            for entry in recent:
                settle.suspend(db, entry.session_id, now)
            return len(recent)

        return await self._database.write(step)

    async def settle_cut_turns(self) -> list[TurnRow]:
        """End the turns that an earlier life left open, and set the resume mark of exactly the sessions that
        were cut."""
        return await self._database.write(settle.settle_cut_turns, self._world.time())

    async def suspend_stuck_loop_sessions(self) -> list[SessionEntry]:
        """Suspend the sessions that were cut in `agent.stuck_after` lives since their last answered turn, and
        return them as they were, so that their people can be told."""
        limit = self._config.agent.stuck_after
        return await self._database.write(settle.suspend_stuck, limit, self._world.time())

    async def clear_restart_failure_count(self, key: str) -> None:
        """Stop counting the cuts up to now towards a stuck session. An answered turn needs no such call: the
        count starts after it."""

        def step(db: Db) -> None:
            session_id = sessions.open_id(db, key)
            if session_id is not None:
                sessions.forgive_cuts(db, session_id)

        await self._database.write(step)

    async def load_transcript(self, session_id: str) -> list[TranscriptRow]:
        """Return the rows of a session in order, without recovery markers."""
        rows = await self._database.read(transcript.load, session_id)
        return [row for row in rows if row.marker is None]

    async def prune_old_sessions(self, max_age_days: float, *, keep: Collection[str] = ()) -> Sequence[str]:
        """Delete sessions that were not used for `max_age_days`, with all their rows, and return their ids,
        so that the caller deletes their journals too. Sessions with a mark (suspended ones still owe a new
        start), a running turn, a waiting message or a process row are kept, and so are those in `keep`. With
        0 or less nothing is deleted."""
        if max_age_days <= 0:
            return ()
        now = self._world.time()
        pruned: list[str] = []
        more = True
        while more:
            gone, more = await self._database.write(
                forget_sessions, used_before=now - max_age_days * 86400, at=now, keep=keep
            )
            pruned += gone
        return pruned


def key_of(source: SessionSource, config: GatewayConfig) -> str:
    """Return the session key for messages from `source`."""
    return build_session_key(
        source,
        group_sessions_per_user=config.group_sessions_per_user,
        thread_sessions_per_user=config.thread_sessions_per_user,
    )


def use_session(
    db: Db,
    source: SessionSource,
    config: GatewayConfig,
    world: World,
    key: str | None = None,
) -> SessionEntry:
    """Return the session for a message from `source` now, and record its use. In one transaction a stale mark
    is cleared, and a session that must not continue is ended and replaced by a new one."""
    key = key or key_of(source, config)
    return use_found(db, sessions.open_by_key(db, key), key, source, config, world)


def use_found(
    db: Db,
    entry: SessionEntry | None,
    key: str,
    source: SessionSource,
    config: GatewayConfig,
    world: World,
) -> SessionEntry:
    """Do what `use_session` does, with the open session of the key as it was just read."""
    now = world.time()
    if entry is None:
        return _begin(db, key, source, world)
    use = next_use(
        entry,
        mark_is_fresh=is_fresh(_marked_at(entry), now, config.agent.gateway_auto_continue_freshness),
        due=_reset_due(db, entry, config, world),
    )
    if use.clear_mark:
        settle.clear_mark(db, entry.session_id, now)
    if use.renew is None:
        sessions.touch(db, entry.session_id, now)
        mark = None if use.clear_mark else entry.mark
        return replace(entry, mark=mark, updated_at=max(now, entry.updated_at))
    settle.end_session(db, entry.session_id, use.renew, now)
    return _begin(db, key, source, world, replaces=entry, reason=use.renew)


def _reset_due(db: Db, entry: SessionEntry, config: GatewayConfig, world: World) -> str | None:
    """Return the reset that the policy requires now; None if there is none, or the session is busy."""
    policy, now = reset_policy(config, entry.platform or "", entry.chat_type), world.now()
    due = reset_due(policy, updated_at=entry.updated_at, now=now, zone=world.zone)
    if due is None:
        return None
    youngest = processes.newest_background(db, entry.session_id)
    if youngest is not None and process_blocks_reset(youngest, now.timestamp(), policy):
        return None
    if turns.runs_in(db, entry.session_id):
        return None
    return due


def _begin(
    db: Db,
    key: str,
    source: SessionSource,
    world: World,
    *,
    replaces: SessionEntry | None = None,
    reason: str | None = None,
) -> SessionEntry:
    now = world.now()
    entry = SessionEntry(
        session_key=key,
        session_id=f"{now.astimezone(world.zone):%Y%m%d_%H%M%S}_{world.new_id()[:8]}",
        created_at=now.timestamp(),
        updated_at=now.timestamp(),
        origin=source,
        display_name=source.chat_name or source.user_name,
        platform=source.platform,
        chat_type=source.chat_type,
        auto_reset_reason=reason,
        reset_had_activity=replaces is not None and bool(turns.of_session(db, replaces.session_id)),
    )
    sessions.add(db, entry)
    return entry


def _marked_at(entry: SessionEntry) -> float:
    # An imported mark may have no time: the last use of the session takes its place.
    return entry.mark.at if entry.mark and entry.mark.at is not None else entry.updated_at
