"""The rules of sessions, compared with a small model: after any events in any order, and after any crash of
the gateway, both have the same state."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hermes_trio.base.messages import MessageEvent, SessionSource
from hermes_trio.base.world import World
from hermes_trio.config.schema import AgentConfig, GatewayConfig, SessionReset
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.state.db.database import open_database
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.opening import connect_reading
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.rules.store import SessionStore, key_of, use_session
from hermes_trio.state.tables import endings, inbox, sessions, turns
from hermes_trio.state.tables.endings import EndingRow
from hermes_trio.state.tables.turns import Outcome
from tests.conftest import Calendar

T = TypeVar("T")

FRESH_FOR, IDLE_AFTER, PRUNED_AFTER, STUCK_AFTER = 3600, 7200, 7 * 86400, 2
CONFIG = GatewayConfig(
    agent=AgentConfig(stuck_after=STUCK_AFTER, gateway_auto_continue_freshness=FRESH_FOR),
    session_reset=SessionReset(mode="idle", idle_minutes=IDLE_AFTER // 60),
)
CHATS = [SessionSource("telegram", chat_id) for chat_id in ("1", "2")]
KEYS = [key_of(chat, CONFIG) for chat in CHATS]
ANY_CHAT = st.sampled_from([0, 0, 0, 1])
BY_ITSELF = [outcome for outcome in Outcome if outcome not in (Outcome.CUT, Outcome.UNSTARTED)]


@dataclass(eq=False)
class ModelSession:
    """One session in the model."""

    chat: int
    session_id: str
    used_at: float
    open: bool = True
    mark: str | None = None
    marked_at: float = 0
    turn: int | None = None
    """The running turn."""
    asked: bool = False
    messages: list[int] = field(default_factory=list)
    """The messages of the running turn."""
    held: list[int] = field(default_factory=list)
    """The messages of its cut turns, while it has the mark."""
    cut_in: list[int] = field(default_factory=list)
    """The lives that cut it since its last answered turn."""


class SessionRules(RuleBasedStateMachine):
    """Rules that each do the same to the store and to the model."""

    @initialize()
    def begin(self) -> None:
        self.path = Path(tempfile.mkdtemp()) / "gateway.db"
        self.calendar = Calendar()
        ids, self.numbers, self.runs = itertools.count(1), itertools.count(1), itertools.count(1)
        self.world = World(now=lambda: self.calendar.now, new_id=lambda: f"{next(ids):08x}", zone=UTC)
        self.life = 1
        self.talks: list[ModelSession] = []
        self.waiting: list[list[int]] = [[] for _ in CHATS]
        self.done: set[int] = set()
        self._start()

    def teardown(self) -> None:
        if hasattr(self, "path"):
            self._stop()
            shutil.rmtree(self.path.parent)

    # The machine is not async, so the store runs beside it, from one start of the gateway to the next.

    def _start(self) -> None:
        started: SimpleQueue[trio.lowlevel.TrioToken] = SimpleQueue()

        async def live() -> None:
            async with open_database(self.path, self.world, worker=inline_worker) as database:
                self.database, self.over = database, trio.Event()
                started.put(trio.lowlevel.current_trio_token())
                await self.over.wait()

        self.gateway = threading.Thread(target=trio.run, args=(live,))
        self.gateway.start()
        self.token = started.get(timeout=30)

    def _stop(self) -> None:
        trio.from_thread.run_sync(self.over.set, trio_token=self.token)
        self.gateway.join()

    def store(self, do: Callable[[SessionStore], Awaitable[T]]) -> T:
        store = SessionStore(self.database, CONFIG, self.world)
        return trio.from_thread.run(do, store, trio_token=self.token)

    def write(self, step: Callable[[Db], T]) -> T:
        return trio.from_thread.run(self.database.write, step, trio_token=self.token)

    @property
    def now(self) -> float:
        return self.calendar.time

    def open_talk(self, chat: int) -> ModelSession | None:
        return next((talk for talk in self.talks if talk.chat == chat and talk.open), None)

    @property
    def running(self) -> list[ModelSession]:
        return [talk for talk in self.talks if talk.turn is not None]

    # --- events --------------------------------------------------------------------------------------

    @rule(minutes=st.sampled_from([50, 70, 70, 130]))
    def time_passes(self, minutes: int) -> None:
        self.calendar.sleep(minutes=minutes)

    @rule(chat=ANY_CHAT)
    def a_message_arrives(self, chat: int) -> None:
        number = next(self.numbers)
        event = MessageEvent(CHATS[chat], "Hello.", str(number))
        stored = self.write(
            lambda db: inbox.store(db, event, session_key=KEYS[chat], own_key="", at=self.now)
        )
        assert (stored.inbox_id, stored.seen_before) == (number, False)
        self.waiting[chat].append(number)

    @rule(chat=ANY_CHAT)
    def a_session_is_used(self, chat: int) -> None:
        entry = self.write(lambda db: use_session(db, CHATS[chat], CONFIG, self.world))
        self._used(chat, entry.session_id, entry.auto_reset_reason)

    @rule(chat=ANY_CHAT, asks=st.sampled_from([True, True, False]))
    def a_turn_begins(self, chat: int, asks: bool) -> None:
        talk = self.open_talk(chat)
        if talk is not None and talk.turn is not None:
            chat = 1 - chat
            talk = self.open_talk(chat)
            if talk is not None and talk.turn is not None:
                return

        def step(db: Db) -> tuple[str, str | None, int]:
            entry = use_session(db, CHATS[chat], CONFIG, self.world)
            run_id = f"run {next(self.runs)}"
            turn_id = turns.begin(
                db, run_id=run_id, session_id=entry.session_id, life=f"life {self.life}", at=self.now
            )
            inbox.join_turn(db, turn_id, self.waiting[chat])
            if asks:
                turns.note_request(db, turn_id, self.now)
            return entry.session_id, entry.auto_reset_reason, turn_id

        session_id, reason, turn_id = self.write(step)
        talk = self._used(chat, session_id, reason)
        talk.turn, talk.asked, talk.messages, self.waiting[chat] = turn_id, asks, self.waiting[chat], []

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 3), outcome=st.sampled_from([Outcome.ANSWERED] * 4 + BY_ITSELF))
    def a_turn_ends(self, which: int, outcome: Outcome) -> None:
        talk = self.running[which % len(self.running)]
        self._settle(talk, outcome)
        self.done.update(talk.messages)
        if talk.mark == "resume_pending":
            self._lose_mark(talk)
        if outcome is Outcome.ANSWERED:
            talk.cut_in = []
        talk.turn, talk.messages = None, []

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 3))
    def a_turn_is_cut_by_the_drain(self, which: int) -> None:
        talk = self.running[which % len(self.running)]
        self._settle(talk, Outcome.CUT if talk.asked else Outcome.UNSTARTED)
        self._cut(talk)

    @rule(decided=st.booleans())
    def the_gateway_crashes_and_restarts(self, decided: bool) -> None:
        row = EndingRow(f"life {self.life}", "stop", "SIGTERM", 0.0, "shutdown_timeout", "stopped", self.now)
        if decided:
            self.write(lambda db: endings.record(db, row))
        self._stop()
        self._start()
        found = self.store(lambda store: store.settle_cut_turns())
        assert {turn.session_id for turn in found} == {talk.session_id for talk in self.talks if talk.turn}
        for talk in self.talks:
            if talk.turn is not None:
                self._cut(talk)
        stuck = self.store(lambda store: store.suspend_stuck_loop_sessions())
        marked = [talk for talk in self.talks if talk.open and talk.mark == "resume_pending"]
        expected = [talk for talk in marked if len(set(talk.cut_in)) >= STUCK_AFTER]
        assert {entry.session_id for entry in stuck} == {talk.session_id for talk in expected}
        for talk in expected:
            self._suspend(talk)
        self.life += 1

    @rule(chat=ANY_CHAT)
    def a_session_is_suspended(self, chat: int) -> None:
        talk = self.open_talk(chat)
        assert self.store(lambda store: store.suspend_session(KEYS[chat])) is (talk is not None)
        if talk is not None:
            self._suspend(talk)

    @rule(chat=ANY_CHAT)
    def a_session_is_marked(self, chat: int) -> None:
        talk = self.open_talk(chat)
        marked = talk is not None and talk.mark != "suspended"
        assert self.store(lambda store: store.mark_resume_pending(KEYS[chat])) is marked
        if talk is not None and marked:
            talk.mark, talk.marked_at = "resume_pending", self.now

    @rule(chat=ANY_CHAT)
    def a_mark_is_cleared(self, chat: int) -> None:
        talk = self.open_talk(chat)
        cleared = talk is not None and talk.mark == "resume_pending"
        assert self.store(lambda store: store.clear_resume_pending(KEYS[chat])) is cleared
        if talk is not None and cleared:
            self._lose_mark(talk)

    @rule(chat=ANY_CHAT)
    def cuts_are_forgiven(self, chat: int) -> None:
        talk = self.open_talk(chat)
        self.store(lambda store: store.clear_restart_failure_count(KEYS[chat]))
        if talk is not None:
            talk.cut_in = []

    @rule(chat=ANY_CHAT)
    def a_session_is_reset(self, chat: int) -> None:
        """Start a new session, also during a turn, which then ends later."""
        talk = self.open_talk(chat)
        if talk is not None:
            session_id = talk.session_id
            assert self.write(lambda db: settle.end_session(db, session_id, "session_reset", self.now))
            self._end(talk)

    @rule(days=st.sampled_from([0, 8]))
    def old_sessions_are_deleted(self, days: int) -> None:
        self.calendar.sleep(days=days)
        gone = [
            talk
            for talk in self.talks
            if talk.used_at < self.now - PRUNED_AFTER
            and talk.mark is None
            and talk.turn is None
            and not self.waiting[talk.chat]
        ]
        pruned = self.store(lambda store: store.prune_old_sessions(PRUNED_AFTER / 86400))
        assert set(pruned) == {talk.session_id for talk in gone}
        self.talks = [talk for talk in self.talks if talk not in gone]

    # --- the model -----------------------------------------------------------------------------------

    def _used(self, chat: int, session_id: str, reason: str | None) -> ModelSession:
        talk, renewed = self.open_talk(chat), None
        if talk is not None:
            fresh = talk.mark == "resume_pending" and self.now - talk.marked_at <= FRESH_FOR
            if talk.mark == "resume_pending" and not fresh:
                self._lose_mark(talk)
            if talk.mark == "suspended":
                renewed = "suspended"
            elif talk.mark is None and talk.turn is None and self.now - talk.used_at > IDLE_AFTER:
                renewed = "idle"
            if renewed:
                self._end(talk)
        if talk is None or renewed:
            assert session_id not in {known.session_id for known in self.talks}
            assert reason == renewed
            talk = ModelSession(chat, session_id, self.now)
            self.talks.append(talk)
        assert talk.session_id == session_id
        talk.used_at = self.now
        return talk

    def _settle(self, talk: ModelSession, outcome: Outcome) -> None:
        assert talk.turn is not None
        turn_id = talk.turn
        assert self.write(lambda db: settle.settle(db, turn_id, Settlement(outcome, "why"), self.now))
        assert not self.write(lambda db: settle.settle(db, turn_id, Settlement(Outcome.FAILED), self.now))
        talk.used_at = self.now

    def _cut(self, talk: ModelSession) -> None:
        if not talk.asked:
            self.waiting[talk.chat] = sorted(talk.messages + self.waiting[talk.chat])
        else:
            talk.cut_in.append(self.life)
            if talk.open and talk.mark != "suspended":
                talk.mark, talk.marked_at = "resume_pending", self.now
                talk.held += talk.messages
            else:
                self.done.update(talk.messages)
        talk.turn, talk.messages = None, []

    def _lose_mark(self, talk: ModelSession) -> None:
        self.done.update(talk.held)
        talk.mark, talk.held = None, []

    def _suspend(self, talk: ModelSession) -> None:
        self._lose_mark(talk)
        talk.mark, talk.marked_at = "suspended", self.now

    def _end(self, talk: ModelSession) -> None:
        self._lose_mark(talk)
        talk.open = False

    # --- comparison ----------------------------------------------------------------------------------

    @invariant()
    def the_store_and_the_model_agree(self) -> None:
        with closing(connect_reading(self.path)) as db:
            there = {entry.session_id: entry for entry in sessions.newest(db, limit=999)}
            assert set(there) == {talk.session_id for talk in self.talks}
            for talk in self.talks:
                entry = there[talk.session_id]
                mark = (entry.mark.kind, entry.mark.at) if entry.mark else None
                assert mark == ((talk.mark, talk.marked_at) if talk.mark else None)
                assert (entry.ended_at is None, entry.updated_at) == (talk.open, talk.used_at)
                assert turns.lives_cut_in_a_row(db, talk.session_id) == len(set(talk.cut_in))
            for chat, key in enumerate(KEYS):
                assert [row.inbox_id for row in inbox.pending(db, key)] == self.waiting[chat]
                assert (
                    len(
                        [entry for entry in there.values() if entry.session_key == key and not entry.ended_at]
                    )
                    <= 1
                )
            rows = db.execute("SELECT inbox_id, state FROM inbox").fetchall()
            assert {number for number, state in rows if state == "done"} == self.done
            of_turn = {number for talk in self.talks for number in (*talk.messages, *talk.held)}
            assert {number for number, state in rows if state == "of_turn"} == of_turn


TestRules = pytest.mark.timeout(300)(SessionRules.TestCase)  # enough for all examples on a busy machine
TestRules.settings = settings(
    max_examples=120,
    stateful_step_count=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
