"""Cases of an answer whose journal was late: a later reading of the session finds it.

The original kept this state inside chat messages. Here the turn has it, and the marker shows it, so each case
uses real journals and real rows through the one public reading of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import outcome
import pytest
import trio
import trio.testing

from hermes_trio.base.events import MessageDelta, RunFailed, ToolCompleted, ToolStarted
from hermes_trio.base.messages import SessionSource
from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.journal.cut_markers import INTERRUPTED_NEUTRAL_WORDING, INTERRUPTED_PENDING_RETRY_WORDING
from hermes_trio.journal.recovery import JOURNAL_RETRY_GIVEUP_SECONDS, JOURNAL_RETRY_MAX_ATTEMPTS
from hermes_trio.journal.session_reader import SessionReader, SessionSnapshot
from hermes_trio.journal.writer import append_run_event, open_journals
from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import turns
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Recovery, TurnRow
from tests.stage import settled

if TYPE_CHECKING:
    from tests.conftest import Calendar, Home, OpenHome

T = TypeVar("T")


async def cut_turn(open_home: OpenHome, somebody: SessionSource) -> TurnRow:
    """Run a life that is killed during a turn whose journal never reached the disk; return the turn."""
    async with open_home() as life:
        session = await life.store.get_or_create_session(somebody)
        return await life.turn(session.session_id)


async def booted(home: Home) -> None:
    await home.store.settle_cut_turns()


def markers(session: SessionSnapshot) -> list[TranscriptRow]:
    return [row for row in session.messages if row.type == "interrupted"]


def state(session: SessionSnapshot) -> tuple[Recovery | None, int]:
    return session.turns[-1].recovery, session.turns[-1].recovery_attempts


async def test_lost_response_recovered_on_second_read(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar
) -> None:
    turn = await cut_turn(open_home, somebody)
    calendar.sleep(minutes=1)
    async with open_home() as home:
        await booted(home)

        first = await home.read(turn.session_id)
        assert first.messages[-1].type == "interrupted"
        assert first.messages[-1].content == INTERRUPTED_PENDING_RETRY_WORDING
        assert "no agent output was recovered" not in first.messages[-1].content
        assert isinstance(first.messages[-1].created_at, int)
        cut = first.turns[-1]
        assert (cut.recovery, cut.run_id, cut.recovery_attempts) == (Recovery.ARRIVING, turn.run_id, 0)
        assert cut.recovery_since == calendar.time
        assert cut.outcome == "cut", "the turn has its end although no journal was found"
        assert await home.database.read(turns.unended) == []

        with await home.journals.open_run(turn.session_id, turn.run_id) as late:
            await late.append(
                MessageDelta("Checking GitHub first."),
                ToolStarted("terminal", "call-1", preview="gh pr list"),
                ToolCompleted("terminal", "call-1", duration=1.2),
                MessageDelta("The first PR scan "),
                MessageDelta("completed."),
            )

        second = await home.read(turn.session_id)
        [marker] = markers(second)
        assert "recovered from the run journal" in marker.content
        assert not any("no agent output was recovered" in row.content for row in second.messages)
        before = second.messages[: second.messages.index(marker)]
        recovered = [row for row in before if row.recovered]
        text = " ".join(row.content for row in recovered)
        assert "Checking GitHub first." in text
        assert "first PR scan completed" in text
        [card] = [card for row in recovered for card in row.cards]
        assert (card.name, card.done, card.is_error, card.duration) == ("terminal", True, False, 1.2)
        assert state(second) == (Recovery.RECOVERED, 0)
    async with open_home() as next_life:
        assert (await next_life.read(turn.session_id)).messages == second.messages, (
            "the recovered text is on the disk"
        )


async def test_concurrent_get_session_serializes_lazy_journal_retry(
    open_home: OpenHome, somebody: SessionSource, autojump_clock: trio.testing.MockClock, tmp_path: Path
) -> None:
    turn = await cut_turn(open_home, somebody)
    jobs: list[str] = []

    async with open_home() as home, trio.open_nursery() as nursery:
        await booted(home)
        await append_run_event(
            home.journals, turn.session_id, turn.run_id, "message.delta", {"delta": "half an ans"}
        )

        slow = partial(watched_worker, jobs=jobs, disk=nursery)
        async with open_journals(tmp_path / "home" / "journal", home.world, worker=slow) as journals:
            reader = SessionReader(home.database, journals, home.world)
            healed: list[SessionSnapshot | None] = []

            async def first_reader() -> None:
                healed.append(await reader.get_session(turn.session_id))

            nursery.start_soon(first_reader)
            await settled()
            began = trio.current_time()
            second = await reader.get_session(turn.session_id)
            assert trio.current_time() == began, "the second reader does not wait"
            assert second is not None
            assert second.turns[-1].recovery is Recovery.ARRIVING
            assert healed == [], "the first reader is still reading"
            await trio.sleep(60)
            [first] = healed
            assert first is not None
            assert [row.content for row in first.rows if row.recovered] == ["half an ans"]
            assert len(markers(first)) == 1
        assert jobs.count("journal-reader") == 2, "one read of the size, one of the content"


@contextmanager
def watched_worker(name: str, *, jobs: list[str], disk: trio.Nursery | None = None) -> Iterator[Runner]:
    """A worker that records its jobs; with a `disk` each of them takes ten seconds."""
    with inline_worker(name) as at_once:

        def runner(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
            jobs.append(name)
            if disk is None:
                at_once(job, done)
            else:
                disk.start_soon(later, partial(at_once, job, done))

        async def later(work: Callable[[], None]) -> None:
            await trio.sleep(10)
            work()

        yield runner


@pytest.mark.sqlite
async def test_still_arriving_journal_does_not_consume_retry_budget(
    open_home: OpenHome, somebody: SessionSource, tmp_path: Path
) -> None:
    turn = await cut_turn(open_home, somebody)
    async with open_home() as home:
        await booted(home)
        path = tmp_path / "home" / "journal" / turn.session_id / f"{turn.run_id}.jsonl"
        for there_is in ("no file", "an empty file"):
            if there_is == "an empty file":
                path.parent.mkdir(parents=True)
                path.touch()
            writes = await home.database.read(_changes)
            for _ in range(20):
                seen = await home.read(turn.session_id)
                assert state(seen) == (Recovery.ARRIVING, 0), there_is
                assert markers(seen)[0].content == INTERRUPTED_PENDING_RETRY_WORDING
            assert await home.database.read(_changes) == writes, "the reading wrote nothing"


def _changes(db: Db) -> object:
    """Return the number that changes with each commit of another connection."""
    return db.execute("PRAGMA data_version").fetchone()


async def useless_journal(home: Home, turn: TurnRow) -> None:
    """Write a journal without a text and without an end of the run."""
    await append_run_event(home.journals, turn.session_id, turn.run_id, "stream_end")


async def test_sealed_empty_journal_consumes_retry_budget_and_demotes_at_max(
    open_home: OpenHome, somebody: SessionSource
) -> None:
    turn = await cut_turn(open_home, somebody)
    async with open_home() as home:
        await booted(home)
        await useless_journal(home, turn)
        for _ in range(JOURNAL_RETRY_MAX_ATTEMPTS - 1):
            await home.read(turn.session_id)
        last = await home.read(turn.session_id)
        assert state(last) == (Recovery.GIVEN_UP, JOURNAL_RETRY_MAX_ATTEMPTS)
        assert [marker.content for marker in markers(last)] == [INTERRUPTED_NEUTRAL_WORDING]
        assert not any(row.recovered for row in last.rows)


async def test_marker_demotes_after_max_attempts_with_sealed_empty_journal(
    open_home: OpenHome, somebody: SessionSource
) -> None:
    turn = await cut_turn(open_home, somebody)
    async with open_home() as home:
        await booted(home)
        await useless_journal(home, turn)
        wordings = [markers(await home.read(turn.session_id))[0].content for _ in range(13)]
    assert wordings[:11] == [INTERRUPTED_PENDING_RETRY_WORDING] * 11
    assert wordings[11:] == [INTERRUPTED_NEUTRAL_WORDING] * 2


async def test_marker_demotes_after_giveup_seconds(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar
) -> None:
    turn = await cut_turn(open_home, somebody)
    jobs: list[str] = []
    async with open_home(worker=partial(watched_worker, jobs=jobs)) as home:
        await booted(home)
        with await home.journals.open_run(turn.session_id, turn.run_id) as useful:
            await useful.append(MessageDelta("An answer."), RunFailed("cut", "interrupted"))
        calendar.sleep(seconds=JOURNAL_RETRY_GIVEUP_SECONDS + 1)
        late = await home.read(turn.session_id)
        assert state(late) == (Recovery.GIVEN_UP, 0)
        assert [marker.content for marker in markers(late)] == [INTERRUPTED_NEUTRAL_WORDING]
        assert not any(row.recovered for row in late.rows)
        assert "journal-reader" not in jobs, "the journal was not read"


async def test_one_second_before_giving_up_it_is_still_recovered(
    open_home: OpenHome, somebody: SessionSource, calendar: Calendar
) -> None:
    turn = await cut_turn(open_home, somebody)
    async with open_home() as home:
        await booted(home)
        with await home.journals.open_run(turn.session_id, turn.run_id) as useful:
            await useful.append(MessageDelta("An answer."))
        calendar.sleep(seconds=JOURNAL_RETRY_GIVEUP_SECONDS)
        found = await home.read(turn.session_id)
        assert [row.content for row in found.rows if row.recovered] == ["An answer."]
