"""A kill in each phase of a stop, and the next life after it.

The same stop runs many times. It is killed before its first job on a disk or its first call to the platform,
then before its second, and so on to the end. The count begins anew at each time at which something begins,
because Trio shuffles the tasks of one time. A kill is simulated: the home is copied, and the platform loses
its link at that moment. This is equivalent to a real kill, because a gateway keeps its state in the files of
its home only. A killed process leaves them as it last wrote them. Here all jobs run on one thread, so no file
is half-written between two jobs, and a requested write that has not begun is lost in both cases.
(`tests/kill` kills real processes, at random moments.)
"""

from __future__ import annotations

import itertools
import math
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import trio

from hermes_trio.host.home.state_file import read_status
from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.journal.reader import read_run
from hermes_trio.platform.contract import FOR_EVER, Outgoing, Traits
from hermes_trio.state.tables import endings, outbox, turns
from hermes_trio.state.tables.endings import EndingRow
from hermes_trio.state.tables.outbox import OutboxRow
from hermes_trio.state.tables.turns import TurnRow
from hermes_trio.testing import MemoryPlatform, Script
from hermes_trio.testing.stage import What
from tests.stage import Agent, Stage, everyone

GRACE = 10.0
CUT = ("1", "2")
CHATS = (*CUT, "idle", "ends", "new")

PHASES = [
    "before the ending is committed",
    "the ending is committed, and nobody told",
    "notices go out",
    "turns drain",
    "at the deadline, before any last words",
    "between the last words of several turns",
    "in the flush",
    "the report is stored",
    "the state is written",
]


class AxedPlatform(MemoryPlatform):
    """A platform that reports each call of the gateway to the axe."""

    axe: Axe

    def note(self, what: What, *args: Any, **how: Any) -> None:
        super().note(what, *args, **how)
        self.axe.may_fall()

    async def send(self, message: Outgoing) -> str:
        message_id = await super().send(message)
        self.axe.may_fall()  # the message has arrived, and the gateway does not know
        return message_id


@dataclass
class Axe:
    """A kill at the n-th moment of a stop."""

    stage: Stage
    since: float
    """Seconds of the stop before the count begins."""
    number: int
    copy: Path
    cut_at: float | None = None
    """End of the grace; None until the gateway is asked to stop."""
    fell_at: float | None = None
    texts: dict[str, list[str]] = field(default_factory=dict)
    """Texts of the chats at the kill."""

    @property
    def fell_after(self) -> float:
        """Seconds from the begin of the stop to the kill."""
        assert self.fell_at is not None
        assert self.cut_at is not None
        return self.fell_at - self.cut_at + GRACE

    def may_fall(self) -> None:
        if self.cut_at is None or self.fell_at is not None:
            return
        if trio.current_time() >= self.cut_at - GRACE + self.since:
            self.number -= 1
            if self.number == 0:
                self.falls()

    def falls(self) -> None:
        self.fell_at = trio.current_time()
        shutil.copytree(self.stage.home, self.copy)
        self.stage.platform.drop()
        self.texts = {chat: list(self.stage.platform.chat(chat).texts) for chat in CHATS}

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        with inline_worker(name) as runner:

            def watched(job: Callable[[], Any], done: Callable[[Any], object]) -> None:
                if not name.endswith("reader"):
                    self.may_fall()
                runner(job, done)

            yield watched


@dataclass
class Remains:
    """Rows that the killed life left in its database."""

    ending: EndingRow | None
    turns: list[TurnRow]
    owed: list[OutboxRow]

    @property
    def outcomes(self) -> Counter[str | None]:
        return Counter(turn.outcome for turn in self.turns)


def read(home: Path) -> Remains:
    with closing(sqlite3.connect(home / "gateway.db")) as db:
        sessions = [row[0] for row in db.execute("SELECT session_id FROM sessions ORDER BY rowid")]
        return Remains(
            next((endings.of_life(db, life) for (life,) in db.execute("SELECT life FROM endings")), None),
            [turn for session in sessions for turn in turns.of_session(db, session)],
            outbox.undelivered(db, "memory", "main"),
        )


def phase(axe: Axe, left: Remains) -> str:
    """Return the phase of the stop in which the axe fell."""
    status = read_status(axe.copy)
    told = [chat for chat in CHATS if any("shutting down" in text for text in axe.texts[chat])]
    if left.ending is None:
        found = 0
    elif status is not None and status.gateway_state == "stopped":
        found = 8
    elif left.ending.finished_at is not None:
        found = 7
    elif left.outcomes["cut"]:
        found = 5 if left.outcomes[None] else 6
    elif axe.fell_after >= GRACE:
        found = 4
    elif not told:
        found = 1
    else:
        found = 2 if len(told) < len(CUT) + 1 else 3
    return PHASES[found]


async def play(stage: Stage, axe: Axe) -> None:
    """Run the life that is killed: it stops with an idle chat, a turn that ends in time, two turns that are
    cut one after the other, and messages that come meanwhile."""
    for number, chat in enumerate(CUT):
        stage.agent.on(f"hang {chat}", Script().says("I begin.").hangs(resists=number / 2))
    stage.agent.on("work", Script().takes(10).says("Done."))
    async with stage.life() as gateway:
        await stage.says("hello", chat="idle")
        for chat in CUT:
            await stage.says(f"hang {chat}", chat=chat)
        await stage.says("work", chat="ends")
        await trio.sleep(5)
        axe.cut_at = trio.current_time() + GRACE
        gateway.stop(grace=GRACE)
        await trio.sleep(3)
        stage.platform.post("And another thing.", chat="ends")
        stage.platform.post("Is anybody there?", chat="new")
        await trio.sleep(20)


async def kill_and_start_again(stage: Stage, since: float, number: int) -> tuple[Axe, str]:
    """Run a life, kill it at the n-th moment after `since` seconds, check its files, and start the next life;
    return the axe and the phase in which it fell."""
    platform = AxedPlatform(traits=Traits(edits=True, takes_keys_for=FOR_EVER))
    config = everyone(busy="queue")
    first = replace(
        stage, home=stage.home / f"{since} {number}", platform=platform, agent=Agent(), config=config
    )
    axe = platform.axe = Axe(first, since, number, stage.home / f"{since} {number} copied")
    first.worker = axe.worker
    await play(first, axe)
    if axe.fell_at is None:  # the life has ended by itself
        axe.falls()
    left = read(axe.copy)
    where = phase(axe, left)
    the_state_file_agrees(axe.copy, left)
    an_answer_is_shown_or_owed(axe, left)

    second = replace(first, home=axe.copy, agent=Agent(), worker=inline_worker)
    for chat in CUT:
        second.agent.on(f"hang {chat}", Script().says(f"All done in {chat}."))
    second.agent.on("work", Script().takes(1).says("Done."))
    async with second.life():
        await trio.sleep(30)
    only_cut_turns_ran_again(second, left)
    everything_is_answered_once(second)
    return axe, where


def the_state_file_agrees(home: Path, left: Remains) -> None:
    """Check invariant 4: one cause decides the remains, and the state file is never ahead of the commit."""
    status = read_status(home)
    assert status is not None
    if status.gateway_state in ("draining", "stopped"):
        assert left.ending is not None
    if status.gateway_state == "draining":
        assert status.after == "stopped"
    if left.ending is not None:
        assert (left.ending.kind, left.ending.resume_reason) == ("stop", "shutdown_timeout")


def an_answer_is_shown_or_owed(axe: Axe, left: Remains) -> None:
    """Check invariant 10: an answered turn is shown or owed."""
    owed = [delivery.owed.turn_id for delivery in left.owed]
    for turn in left.turns:
        if turn.outcome == "answered" and turn.turn_id not in owed:
            assert any(text in ("Done.", "You said: hello") for texts in axe.texts.values() for text in texts)


def only_cut_turns_ran_again(stage: Stage, left: Remains) -> None:
    """Check invariants 1, 2 and 7: exactly the cut turns are resumed, once, with the right reason, and in the
    end no session has a mark."""
    reason = "shutdown_timeout" if left.ending is not None else "crash"
    now = {turn.turn_id: turn for turn in read(stage.home).turns}
    cut = [turn.turn_id for turn in left.turns if turn.outcome in (None, "cut")]
    assert Counter(turn.resumes for turn in now.values() if turn.resumes) == Counter(cut)
    for turn in left.turns:
        after = now[turn.turn_id]
        assert after.outcome == ("cut" if turn.turn_id in cut else turn.outcome)
        if turn.turn_id in cut:
            assert after.reason == reason
    for turn in now.values():
        reading = read_run(stage.home / "journal", turn.session_id, turn.run_id)
        assert reading.complete
        assert [record.terminal for record in reading.records].count(True) <= 1
        if turn.resumes is not None:
            assert turn.outcome == "answered"
    for chat in CHATS:
        assert stage.entry(chat).mark is None
        assert stage.pending(chat) == []


def everything_is_answered_once(stage: Stage) -> None:
    """Check invariant 3: each message is answered once, also those that came during the stop."""
    texts = {chat: stage.platform.chat(chat).texts for chat in CHATS}
    answers = {
        **{chat: ["I begin.\n\n(interrupted)", f"All done in {chat}."] for chat in CUT},
        "idle": ["You said: hello"],
        "ends": ["Done.", "You said: And another thing."],
        "new": ["You said: Is anybody there?"],
    }
    for chat, expected in answers.items():
        said = [text for text in texts[chat] if not text.startswith(("⚠", "⏳"))]
        assert [text for text in said if text != "Done.\n\n(interrupted)"] == expected
        notices = Counter(text for text in texts[chat] if text.startswith(("⚠", "⏳")))
        assert all(times == 1 for times in notices.values()), "no notice comes twice"


@pytest.mark.timeout(240)
async def test_a_kill_in_any_phase_of_stopping_loses_and_repeats_nothing(stage: Stage) -> None:
    found = set()
    for since, then in itertools.pairwise((0, 3, 5, GRACE, GRACE + 0.5, math.inf)):
        for number in itertools.count(1):
            axe, where = await kill_and_start_again(stage, since, number)
            found.add(where)
            if axe.number > 0 or axe.fell_after >= then:
                break
    assert found == set(PHASES), "a kill fell into every phase"
