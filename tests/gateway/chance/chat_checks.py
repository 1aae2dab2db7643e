"""Checks of a random story as its people saw it: the chats, the runs of the agent, and the journals and
transcripts. Each function checks one promise and yields the violations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from hermes_trio.gateway.outbound.delivery import POSSIBLY_REPEATED
from hermes_trio.journal.reader import read_run
from hermes_trio.platform.contract import FOR_EVER, Traits
from hermes_trio.state.tables import transcript
from tests.gateway.chance.database_checks import Evidence, took_long
from tests.gateway.chance.random_plan import CHATS
from tests.gateway.chance.random_story import BEGIN_MARGIN

UNCERTAIN_STEPS = "fails", "loses", "slow", "drop", "away", "bar", "full"
"""Steps that may make the outcome of a send unknown during a life."""


def order_is_kept(evidence: Evidence) -> Iterator[str]:
    # A message repeated by /retry comes after the end of the turn before it.
    accepted = [event.message_id for _, event in evidence.story.platform.accepted if event.text != "/retry"]
    places = {said: place for place, said in enumerate(dict.fromkeys(accepted))}
    last: dict[str, tuple[int, ...]] = {}
    for ran in evidence.story.ran:
        now = tuple(places[said] for said in ran.said if said in places)
        if now:
            if list(now) != sorted(now) or now < last.get(ran.key, now):
                yield f"in {ran.key} {ran.said} came after {last.get(ran.key)}"
            last[ran.key] = now


def answers_are_shown_once(evidence: Evidence) -> Iterator[str]:
    story = evidence.story
    traits = story.platform.traits
    troubles = any(step[:3] == ("fails", "edit", "refused") for step in story.plan.steps)
    for chat in CHATS:
        texts = story.platform.chat(chat).texts
        for ran in story.ran:
            found = [text for text in texts if f"[{ran.run_id}]" in text and "trouble in" not in text]
            marked = [text for text in found if text.startswith(POSSIBLY_REPEATED.strip())]
            if len(found) - len(marked) > 1 and not troubles:
                yield f"shown twice and not marked: {found}"
            if marked and can_tell(traits):
                yield f"repeated without need: {found}"
        repeats = sum(text.startswith(POSSIBLY_REPEATED.strip()) for text in texts)
        if repeats > story.lives and not any(step[0] in UNCERTAIN_STEPS for step in story.plan.steps):
            yield f"{repeats} repeats in {chat} in {story.lives} lives"


def can_tell(traits: Traits) -> bool:
    """Return whether each unknown outcome can be settled without a visible repeat."""
    return traits.takes_keys_for == FOR_EVER or traits.finds


def may_have_lost_sends(evidence: Evidence) -> bool:
    """Return whether the platform may have refused a send for ever, or left its outcome unknown."""
    traits = evidence.story.platform.traits
    spoils = {"refused", "gone"} | (set() if can_tell(traits) else {"unknown", "slow"})
    return any(spoils.intersection(map(str, step)) for step in evidence.story.plan.steps)


def no_buttons_are_left(evidence: Evidence) -> Iterator[str]:
    if not may_have_lost_sends(evidence):
        for chat in CHATS:
            shown = evidence.story.platform.chat(chat).messages
            yield from (f"can be pressed: {one}" for one in shown if one.buttons)


def answers_are_shown(evidence: Evidence) -> Iterator[str]:
    story = evidence.story
    refuses = may_have_lost_sends(evidence)
    outcome = evidence.outcomes
    shown = [text for chat in CHATS for text in story.platform.chat(chat).texts]
    for ran in story.ran:
        if outcome.get(ran.run_id) == "answered" and ran.answer:
            answer = ran.answer.strip()
            if not any(answer in text for text in shown) and not refuses:
                yield f"the answer of {ran} is not shown"
            elif any(f"[{ran.run_id}]" in text and "(interrupted)" in text for text in shown):
                yield f"{ran} is answered, and shown as interrupted"
    for text in shown:
        if text.endswith("▉") and not refuses:
            yield f"a cursor is left: {text!r}"


def last_messages_are_answered(evidence: Evidence) -> Iterator[str]:
    story = evidence.story
    for chat in CHATS:
        for by, event in zip(
            (story.released_at + BEGIN_MARGIN, math.inf), story.said[chat][-2:], strict=True
        ):
            runs = [ran for ran in story.ran if event.message_id in ran.said and ran.began <= by]
            if [evidence.outcomes.get(ran.run_id) for ran in runs] != ["answered"]:
                yield f"the last messages in {chat} were answered by {runs}"


def journals_agree_with_outcomes(evidence: Evidence) -> Iterator[str]:
    if took_long(evidence):
        return
    for session_id, run_id, outcome in evidence.rows("SELECT session_id, run_id, outcome FROM turns"):
        reading = read_run(evidence.story.home / "journal", session_id, run_id)
        terminal = reading.terminal.terminal_state if reading.terminal else None
        if not reading.complete or reading.torn:
            yield f"the journal of {run_id} is damaged"
        if terminal and (terminal == "completed") != (outcome == "answered"):
            yield f"run {run_id} is {outcome}, and its journal says {terminal}"


def transcripts_are_complete(evidence: Evidence) -> Iterator[str]:
    outcome: dict[int | None, str] = dict(evidence.rows("SELECT turn_id, outcome FROM turns"))
    for (session_id,) in evidence.rows("SELECT session_id FROM sessions"):
        rows = [row for row in transcript.load(evidence.db, session_id) if row.marker is None]
        said = Counter(row.content for row in rows if row.role == "user" and " " in row.content)
        if not any(event.text == "/retry" for _, event in evidence.story.platform.accepted):
            yield from (
                f"in {session_id} is there twice: {text!r}" for text, count in said.items() if count > 1
            )
        of_turn: dict[int | None, list[transcript.TranscriptRow]] = {}
        for row in rows:
            of_turn.setdefault(row.turn_id, []).append(row)
        if [row.turn_id for row in rows] != sorted(row.turn_id or 0 for row in rows):
            yield f"the turns of {session_id} are not in order"
        for turn_id, those in of_turn.items():
            finals = [row for row in those if row.role == "assistant" and row.finish == "stop"]
            if len(finals) != (outcome.get(turn_id) == "answered"):
                yield f"turn {turn_id} is {outcome.get(turn_id)} and has {len(finals)} answers"
            if finals and those[-1] is not finals[0]:
                yield f"turn {turn_id} continues after its answer"
            asked = [call.id for row in those for call in row.tool_calls]
            got = [row.tool_call_id for row in those if row.role == "tool"]
            if asked[: len(got)] != got or (finals and asked != got):
                yield f"turn {turn_id} called {asked} and got {got}"
