"""Cases of conversations that a restart interrupts: the stored mark, and the note for the model. First the
entry, the store and the note; then the drain, on the real gateway."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import trio

from hermes_trio.base.messages import SessionSource
from hermes_trio.gateway.turn.system_notes import Situation, with_note
from hermes_trio.gateway.turn.transcript_tail import NOTE_OPENING, ends_in_tool_result, judge_tail
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables.session_entry import Mark, SessionEntry
from hermes_trio.state.tables.transcript import ToolCall, TranscriptRow
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing import Script
from tests.stage import Stage

if TYPE_CHECKING:
    from tests.conftest import Home, OpenHome

NOON = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
KEY = "agent:main:telegram:dm:42"


def entry(mark: Mark | None = None) -> SessionEntry:
    at = NOON.timestamp()
    return SessionEntry(KEY, "20260520_120000_00000001", created_at=at, updated_at=at, mark=mark)


class TestSessionEntryResumeFields:
    def test_defaults(self) -> None:
        fresh = entry()
        assert fresh.resume_pending is False
        assert fresh.resume_reason is None
        assert fresh.last_resume_marked_at is None
        assert fresh.suspended is False

    def test_roundtrip_with_resume_fields(self) -> None:
        at = datetime(2026, 5, 20, 11, 58, 3, 123456, tzinfo=UTC)
        before = entry(Mark("resume_pending", "restart_timeout", at.timestamp()))
        after = SessionEntry.from_dict(json.loads(json.dumps(before.to_dict())))
        assert after == before
        assert (after.resume_pending, after.resume_reason) == (True, "restart_timeout")
        assert after.last_resume_marked_at == at

    def test_from_dict_legacy_without_resume_fields(self) -> None:
        legacy = {
            "session_key": KEY,
            "session_id": "20260301_080000_abcdef12",
            "created_at": "2026-03-01T08:00:00",
            "updated_at": "2026-03-01T08:05:00",
        }
        loaded = SessionEntry.from_dict(legacy)
        assert (loaded.resume_pending, loaded.resume_reason, loaded.last_resume_marked_at) == (
            False,
            None,
            None,
        )

    def test_malformed_timestamp_is_tolerated(self) -> None:
        data = entry(Mark("resume_pending", "shutdown_timeout", NOON.timestamp())).to_dict()
        loaded = SessionEntry.from_dict({**data, "last_resume_marked_at": "the day before yesterday"})
        assert (loaded.resume_pending, loaded.resume_reason) == (True, "shutdown_timeout")
        assert loaded.last_resume_marked_at is None


class TestMarkResumePending:
    async def test_marks_existing_session(self, home: Home, somebody: SessionSource) -> None:
        await home.store.get_or_create_session(somebody)
        assert await home.store.mark_resume_pending(KEY) is True
        found = await home.entry(KEY)
        assert found.resume_pending is True
        assert found.resume_reason == "restart_timeout"
        assert found.last_resume_marked_at == NOON

    async def test_custom_reason_persists(self, home: Home, somebody: SessionSource) -> None:
        await home.store.get_or_create_session(somebody)
        await home.store.mark_resume_pending(KEY, "shutdown_timeout")
        assert (await home.entry(KEY)).resume_reason == "shutdown_timeout"

    async def test_returns_false_for_unknown_key(self, home: Home) -> None:
        assert await home.store.mark_resume_pending("agent:main:telegram:dm:nobody") is False

    async def test_does_not_override_suspended(self, home: Home, somebody: SessionSource) -> None:
        await home.store.get_or_create_session(somebody)
        assert await home.store.suspend_session(KEY) is True
        assert await home.store.mark_resume_pending(KEY) is False
        found = await home.entry(KEY)
        assert found.suspended is True
        assert found.resume_pending is False

    async def test_survives_roundtrip_through_json(
        self, open_home: OpenHome, somebody: SessionSource
    ) -> None:
        # The database is the source now, so a second store on the same home must see the mark.
        async with open_home() as first:
            await first.store.get_or_create_session(somebody)
            await first.store.mark_resume_pending(KEY, "shutdown_timeout")
        async with open_home() as second:
            found = await second.entry(KEY)
        assert (found.resume_pending, found.resume_reason) == (True, "shutdown_timeout")
        assert found.last_resume_marked_at == NOON


class TestClearResumePending:
    async def test_clears_flag(self, home: Home, somebody: SessionSource) -> None:
        await home.store.get_or_create_session(somebody)
        await home.store.mark_resume_pending(KEY)
        assert await home.store.clear_resume_pending(KEY) is True
        found = await home.entry(KEY)
        assert (found.resume_pending, found.resume_reason, found.last_resume_marked_at) == (
            False,
            None,
            None,
        )

    async def test_returns_false_when_not_pending(self, home: Home, somebody: SessionSource) -> None:
        await home.store.get_or_create_session(somebody)
        assert await home.store.clear_resume_pending(KEY) is False

    async def test_returns_false_for_unknown_key(self, home: Home) -> None:
        assert await home.store.clear_resume_pending("agent:main:telegram:dm:nobody") is False


class TestGetOrCreateResumePending:
    async def test_resume_pending_preserves_session_id(self, home: Home, somebody: SessionSource) -> None:
        before = await home.store.get_or_create_session(somebody)
        await home.store.mark_resume_pending(KEY)
        after = await home.store.get_or_create_session(somebody)
        assert after.session_id == before.session_id
        assert (after.was_auto_reset, after.auto_reset_reason) == (False, None)
        assert after.resume_pending is True, "reading a session does not clear its mark"

    async def test_suspended_still_creates_new_session(self, home: Home, somebody: SessionSource) -> None:
        before = await home.store.get_or_create_session(somebody)
        await home.store.suspend_session(KEY)
        after = await home.store.get_or_create_session(somebody)
        assert after.session_id != before.session_id
        assert (after.was_auto_reset, after.auto_reset_reason) == (True, "suspended")

    async def test_suspended_overrides_resume_pending(self, home: Home, somebody: SessionSource) -> None:
        # Both at once cannot be stored any more. Two cases remain: an entry of the original with both
        # set, and a suspension after a mark. Suspended wins in each.
        imported = SessionEntry.from_dict({**entry().to_dict(), "suspended": True, "resume_pending": True})
        assert (imported.suspended, imported.resume_pending) == (True, False)

        before = await home.store.get_or_create_session(somebody)
        await home.store.mark_resume_pending(KEY)
        await home.store.suspend_session(KEY)
        after = await home.store.get_or_create_session(somebody)
        assert after.session_id != before.session_id
        assert after.auto_reset_reason == "suspended"


class TestSuspendRecentlyActiveSkipsResumePending:
    async def test_resume_pending_entries_not_suspended(self, home: Home, somebody: SessionSource) -> None:
        await home.store.get_or_create_session(somebody)
        await home.store.mark_resume_pending(KEY)
        assert await home.store.suspend_recently_active() == 0
        found = await home.entry(KEY)
        assert (found.suspended, found.resume_pending) == (False, True)

    async def test_non_resume_pending_still_suspended(
        self, open_home: OpenHome, somebody: SessionSource
    ) -> None:
        sibling = SessionSource(platform="telegram", chat_id="43")
        async with open_home() as first:
            # `crash_recovery: suspend`: a session that was in use and has no mark begins afresh.
            await first.store.get_or_create_session(somebody)
            marked = await first.store.get_or_create_session(sibling)
            await first.store.mark_resume_pending(marked.session_key)
            assert await first.store.suspend_recently_active(max_age=120) == 1
            assert (await first.entry(KEY)).suspended is True
            assert (await first.entry(marked.session_key)).suspended is False

            # `crash_recovery: resume`, the default, marks exactly the session with an open turn.
            busy = await first.store.get_or_create_session(SessionSource("telegram", "44"))
            idle = await first.store.get_or_create_session(SessionSource("telegram", "45"))
            await first.turn(busy.session_id)
        async with open_home() as second:
            assert [turn.session_id for turn in await second.store.settle_cut_turns()] == [busy.session_id]
            found = await second.entry(busy.session_key)
            assert (found.resume_pending, found.resume_reason, found.suspended) == (True, "crash", False)
            untouched = await second.entry(idle.session_key)
            assert untouched.mark is None


def noted(text: str, rows: list[TranscriptRow], *, marked: bool, reason: str | None = None) -> str:
    """Return the prompt for `text` in a session with these rows."""
    situation = Situation(
        judge_tail(rows),
        tool_tail=ends_in_tool_result(rows),
        fresh=True,
        marked=marked,
        mark_reason=reason,
    )
    return with_note(text, situation)


ASKED = TranscriptRow("user", "Deploy it.", NOON.timestamp())
PARTIAL = TranscriptRow("assistant", "I have begun to", NOON.timestamp(), recovered=True)
CALLED = TranscriptRow("assistant", "", NOON.timestamp(), tool_calls=(ToolCall("c1", "terminal", "{}"),))
RESULT = TranscriptRow(
    "tool", "exit 0", NOON.timestamp(), tool_call_id="c1", tool_name="terminal", status="ok"
)
ANSWERED = TranscriptRow("assistant", "Done.", NOON.timestamp(), finish="stop")


class TestResumePendingSystemNote:
    def test_resume_pending_restart_note_mentions_restart(self) -> None:
        text = noted("What happened?", [ASKED], marked=True, reason="restart_timeout")
        assert text.startswith(NOTE_OPENING)
        assert "gateway restart" in text
        assert text.endswith("\n\nWhat happened?")

    def test_resume_pending_shutdown_note_mentions_shutdown(self) -> None:
        assert "gateway shutdown" in noted("Hello?", [ASKED], marked=True, reason="shutdown_timeout")

    def test_resume_pending_fires_without_tool_tail(self) -> None:
        text = noted("Go on.", [ASKED, PARTIAL], marked=True, reason="restart_timeout")
        assert text.startswith(NOTE_OPENING)

    def test_resume_pending_subsumes_tool_tail_note(self) -> None:
        rows = [ASKED, CALLED, RESULT]
        text = noted("Go on.", rows, marked=True, reason="restart_timeout")
        tool_tail = noted("Go on.", rows, marked=False)
        assert text.count(NOTE_OPENING) == 1
        assert "gateway restart" in text
        opening = tool_tail.removeprefix(NOTE_OPENING).split(".")[0]
        assert opening not in text, "no sentence of the other note"

    def test_no_resume_pending_preserves_tool_tail_note(self) -> None:
        text = noted("Go on.", [ASKED, CALLED, RESULT], marked=False)
        assert text.count(NOTE_OPENING) == 1
        assert "tool result" in text

    def test_no_note_when_nothing_to_resume(self) -> None:
        for rows in ([], [ASKED, ANSWERED], [ASKED, CALLED, RESULT, ANSWERED]):
            assert noted("Good morning.", rows, marked=False) == "Good morning."


class TestStuckLoopEscalation:
    async def test_escalation_via_stuck_loop_counter_overrides_resume_pending(
        self, open_home: OpenHome, somebody: SessionSource
    ) -> None:
        """Three lives, each killed in the middle of a turn of the same session: real boots, since the
        original's counter worked in one process and was lost by every boot."""
        for life in (1, 2, 3):
            async with open_home() as boot:
                cut = await boot.store.settle_cut_turns()
                assert len(cut) == (0 if life == 1 else 1)
                assert await boot.store.suspend_stuck_loop_sessions() == [], f"too early in life {life}"
                session = await boot.store.get_or_create_session(somebody)
                await boot.turn(session.session_id)
                before = session.session_id
        async with open_home() as fourth:
            await fourth.store.settle_cut_turns()
            assert (await fourth.entry(KEY)).resume_pending is True
            stuck = await fourth.store.suspend_stuck_loop_sessions()
            assert [told.session_id for told in stuck] == [before]
            after = await fourth.store.get_or_create_session(somebody)
            assert after.session_id != before
            assert after.auto_reset_reason == "suspended"
            assert await fourth.store.suspend_stuck_loop_sessions() == []

    async def test_successful_turn_flow_clears_both_counter_and_resume_pending(
        self, open_home: OpenHome, somebody: SessionSource
    ) -> None:
        for _ in range(2):
            async with open_home() as boot:
                await boot.store.settle_cut_turns()
                session = await boot.store.get_or_create_session(somebody)
                await boot.turn(session.session_id)
        async with open_home() as third:
            await third.store.settle_cut_turns()
            session = await third.store.get_or_create_session(somebody)
            good = await third.turn(session.session_id)
            ended = await third.database.write(
                settle.settle, good.turn_id, Settlement(Outcome.ANSWERED), third.world.time()
            )
            assert ended is not None
            assert ended.outcome is Outcome.ANSWERED
            assert (await third.entry(KEY)).mark is None
            await third.turn(session.session_id)
        async with open_home() as fourth:
            # A third cut, but the first since the good turn.
            await fourth.store.settle_cut_turns()
            assert await fourth.store.suspend_stuck_loop_sessions() == []
            assert (await fourth.entry(KEY)).resume_pending is True


# --- the drain ---------------------------------------------------------------------------------------


async def test_drain_timeout_marks_resume_pending(stage: Stage) -> None:
    for chat in ("1", "2"):
        stage.agent.on(f"work {chat}", Script().says("I begin.").hangs())
    async with stage.life() as gateway:
        for chat in ("1", "2"):
            await stage.says(f"work {chat}", chat)
        gateway.stop(grace=0.05)
    assert [stage.entry(chat).resume_reason for chat in ("1", "2")] == ["shutdown_timeout"] * 2


async def test_drain_timeout_uses_restart_reason_when_restarting(stage: Stage) -> None:
    stage.agent.on("work", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(restart=True, grace=0.05)
    assert stage.entry().resume_reason == "restart_timeout"


async def test_clean_drain_does_not_mark_resume_pending(stage: Stage) -> None:
    stage.agent.on("work", Script().takes(2).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=10)
        await trio.sleep(10)
        assert stage.ended_at == 2
    assert stage.agent.left == [("work", "answered", 2.0)], "the turn was not interrupted"
    assert stage.entry().mark is None


async def test_drain_timeout_only_marks_still_running_sessions(stage: Stage) -> None:
    stage.agent.on("quick", Script().takes(0.05).says("Done."))
    stage.agent.on("slow", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("quick", "1")
        await stage.says("slow", "2")
        gateway.stop(grace=0.3)
    assert stage.entry("1").mark is None
    assert stage.entry("2").resume_pending is True


async def test_drain_timeout_skips_pending_sentinel_sessions(stage: Stage) -> None:
    """A turn whose agent has not asked its model yet has interrupted nothing: it leaves no mark, and
    its message waits for the next life."""
    stage.agent.before_asking = 5
    async with stage.life() as gateway:
        await stage.says("hello")
        gateway.stop(grace=0.3)
    assert stage.entry().mark is None
    assert [turn.outcome for turn in stage.turns()] == ["unstarted"]
    assert stage.pending() == ["hello"]


async def test_restart_banner_uses_try_to_resume_wording(stage: Stage) -> None:
    stage.agent.on("work", Script().hangs())
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(restart=True, grace=0.3)
    [banner] = stage.platform.chat("42").texts
    assert "restarting" in banner
    assert "try to resume" in banner
