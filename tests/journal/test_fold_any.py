"""Folding of any events: all shown output is recovered, once, in order."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_trio.base.events import MessageDelta, ReasoningAvailable, ToolCompleted, ToolStarted
from hermes_trio.journal.recovery import AlreadyStored, fold
from hermes_trio.state.tables.transcript import ToolCard
from tests.journal.seams import TURN, Happened, records, rows

names = st.sampled_from(["read", "write"])
ids = st.none() | st.sampled_from(["call-1", "call-2", "call-3"])
pieces = st.text(alphabet="ab \n", max_size=4)
happenings = st.lists(
    st.builds(MessageDelta, pieces)
    | st.builds(ReasoningAvailable, pieces)
    | st.builds(ToolStarted, names, ids)
    | st.builds(ToolCompleted, st.none() | names, ids, error=st.booleans())
    | st.just(("metering", {"tokens": 3}))
    | st.just(("message.delta", {"delta": 5})),
    max_size=14,
)
bounded = settings(max_examples=400)


def earlier(card: ToolCard, later: ToolCard) -> bool:
    """Return whether `card` is `later` at an earlier time: the only possible change is its end."""
    return card == later or (not card.done and (card.id, card.name) == (later.id, later.name))


@given(happened=happenings)
@bounded
def test_every_shown_event_is_recovered_once(happened: list[Happened]) -> None:
    found = rows(*happened)

    def bare(text: str) -> str:
        return "".join(text.split())

    deltas = [item.delta for item in happened if isinstance(item, MessageDelta)]
    thoughts = [item.text for item in happened if isinstance(item, ReasoningAvailable)]
    starts = [item for item in happened if isinstance(item, ToolStarted)]
    cards = [card for row in found for card in row.cards]
    assert bare("".join(row.content for row in found)) == bare("".join(deltas))
    assert bare("".join(row.reasoning or "" for row in found)) == bare("".join(thoughts))
    assert len(starts) <= len(cards) <= len(starts) + sum(isinstance(x, ToolCompleted) for x in happened)
    assert all(row.content or row.reasoning or row.cards for row in found), "no row is empty"
    places = [row.place for row in found]
    assert places == sorted(set(places))
    assert all(row.recovered and row.turn_id == 7 and row.role == "assistant" for row in found)


@given(happened=happenings, seen=st.integers(0, 14))
@example(happened=[MessageDelta("a"), ToolStarted("read", "call-1"), ToolCompleted("read", "call-1")], seen=2)
@bounded
def test_a_longer_journal_gives_the_rows_of_a_shorter_one_and_more(
    happened: list[Happened], seen: int
) -> None:
    """Only the last row can grow, by text, reasoning and calls; in earlier rows a call may end."""
    before, after = rows(*happened[:seen]), rows(*happened)
    assert len(before) <= len(after)
    for old, new in zip(before[:-1], after, strict=False):
        assert (old.content, old.reasoning, old.place) == (new.content, new.reasoning, new.place)
        assert len(old.cards) == len(new.cards)
        assert all(map(earlier, old.cards, new.cards))
    if before:
        old, new = before[-1], after[len(before) - 1]
        assert new.content.startswith(old.content)
        assert (new.reasoning or "").startswith(old.reasoning or "")
        assert (old.created_at, old.place <= new.place) == (new.created_at, True)
        assert all(map(earlier, old.cards, new.cards[: len(old.cards)]))


@given(happened=happenings, place=st.integers(0, 14))
@bounded
def test_folding_after_a_place_equals_folding_the_rest(happened: list[Happened], place: int) -> None:
    written = records(*happened)
    assert fold(written, TURN, AlreadyStored(place=place)) == fold(written[place:], TURN, AlreadyStored())
