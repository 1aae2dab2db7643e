"""Reading only the rows that are new: always the same as reading all."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.gateway.turn.history_cache import CachedHistory, extended
from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import transcript
from hermes_trio.state.tables.transcript import TranscriptRow
from tests.state.rows import session, turn, undone

STEPS = ("new turn", "append", "forget", "recover", "instruct", "read")


def read(db: Db, former: CachedHistory) -> tuple[CachedHistory, bool]:
    """Return the transcript, read after what is known of it; and True if only new rows were read."""
    rows, are_new = transcript.ask_after(db, "s1", former.known)()
    return extended(former, "s1", rows, are_new=are_new), are_new


@settings(max_examples=200)
@given(steps=st.lists(st.sampled_from(STEPS), max_size=25), data=st.data())
def test_new_rows_after_known_ones_are_the_whole_transcript(
    shared_db: Db, steps: list[str], data: st.DataObject
) -> None:
    with undone(shared_db) as db:
        session(db)
        turns, known = [turn(db, run="first")], CachedHistory()
        for number, step in enumerate(steps):
            chosen = data.draw(st.sampled_from(turns))
            if step == "new turn":
                db.execute("UPDATE turns SET ended_at = 1, outcome = 'answered'")
                turns.append(turn(db, run=f"run {number}"))
            elif step == "append":
                transcript.append(db, "s1", TranscriptRow("user", str(number), 1.0, turns[-1], place=number))
            elif step == "forget":
                transcript.forget_turn(db, chosen)
            elif step == "recover":
                row = TranscriptRow("assistant", f"recovered {number}", 1.0, chosen, recovered=True)
                transcript.replace_recovered(db, "s1", chosen, [row])
            elif step == "instruct":
                transcript.replace_instructions(db, "s1", TranscriptRow("system", str(number), 1.0))
            else:
                known, _ = read(db, known)
            assert list(read(db, known)[0].rows) == transcript.load(db, "s1")


def test_a_long_transcript_is_read_once(shared_db: Db) -> None:
    with undone(shared_db) as db:
        session(db)
        first = turn(db, run="first")
        for number in range(300):
            transcript.append(db, "s1", TranscriptRow("user", str(number), 1.0, first, place=number))
        known, _ = read(db, CachedHistory())
        assert len(known.rows) == 300
        transcript.append(db, "s1", TranscriptRow("assistant", "the answer", 1.0, first, place=300))
        rows, are_new = transcript.ask_after(db, "s1", known.known)()
        assert ([row.content for row in rows], are_new) == (["the answer"], True)
