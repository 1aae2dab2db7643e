"""The transcripts in memory: an agent is shown what is stored, and their bytes have a limit."""

from __future__ import annotations

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.gateway.turn.history_cache import CachedHistory, HistoryCache, extended
from hermes_trio.state.tables.transcript import TranscriptRow
from tests.stage import Stage

LONG = 10_000


def history_of(session_id: str) -> CachedHistory:
    """Return a transcript of one long row."""
    row = TranscriptRow("user", "x" * LONG, 1.0, 1, id=1)
    return extended(CachedHistory(), session_id, [row], are_new=False)


def test_the_transcript_that_was_used_longest_ago_is_dropped_first() -> None:
    cache = HistoryCache(most_bytes=3 * LONG)
    for key in ("one", "two"):
        cache.put(key, history_of(key))
    cache.put("one", history_of("one"))
    cache.put("three", history_of("three"))
    assert [cache.get(key).session_id for key in ("one", "two", "three")] == ["one", "", "three"]
    assert 2 * LONG < cache.size <= 3 * LONG


def test_a_transcript_above_the_limit_is_not_kept() -> None:
    cache = HistoryCache(most_bytes=LONG)
    cache.put("one", history_of("one"))
    assert (cache.get("one").rows, cache.size) == ((), 0)


async def test_the_history_of_each_turn_is_what_was_stored_before(stage: Stage) -> None:
    seen: list[list[str]] = []

    async def act(turn: TurnContext) -> str:
        await turn.requesting()
        seen.append([row.content for row in turn.history])
        return f"heard {turn.said[0].text}"

    for word in ("one", "two", "three", "four", "five"):
        stage.agent.does(word, act)
    async with stage.life():
        await stage.says("one")
        await stage.says("two")
        await stage.says("/undo")
        await stage.says("three")
        await stage.says("/retry")
        await stage.says("/new")
        await stage.says("four")
    async with stage.life():
        await stage.says("five")
    one = ["one", "heard one"]
    assert seen == [[], one, one, one, [], ["four", "heard four"]]
