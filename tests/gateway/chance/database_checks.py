"""Checks of the database after a random story. Each function checks one promise and yields the violations.
The checks of the chats are in `chat_checks`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import inbox, turns
from tests.gateway.chance.random_story import START, Story

TAKES_BACK = "/stop", "/new", "/retry", "/undo"


@dataclass
class Evidence:
    """The story and its database, for the checks."""

    story: Story
    db: Db

    def rows(self, query: str, *args: object) -> list[tuple[Any, ...]]:
        return self.db.execute(query, args).fetchall()

    def commands(self, chat: str) -> list[tuple[float, str]]:
        """Return the accepted commands of a chat with their times."""
        accepted = self.story.platform.accepted
        return [(at, e.text) for at, e in accepted if e.source.chat_id == chat and e.text.startswith("/")]

    def taken_back(self, chat: str, after: float) -> bool:
        """Return whether a command in this chat took back earlier messages."""
        return any(at >= after and text.startswith(TAKES_BACK) for at, text in self.commands(chat))

    def chain(self, turn_id: int) -> Iterator[turns.TurnRow]:
        """Yield a turn, the turn that resumed it, and so on."""
        while (turn := turns.get(self.db, turn_id)) is not None:
            yield turn
            found = self.rows("SELECT turn_id FROM turns WHERE resumes = ?", turn_id)
            turn_id = found[0][0] if found else 0

    @property
    def outcomes(self) -> dict[str, str | None]:
        """Outcomes of all runs."""
        return dict(self.rows("SELECT run_id, outcome FROM turns"))


def cut_turns_are_resumed_once(evidence: Evidence) -> Iterator[str]:
    yield from map(
        str, evidence.rows("SELECT resumes, count(*) FROM turns GROUP BY 1 HAVING resumes AND count(*) > 1")
    )


def nothing_is_open(evidence: Evidence) -> Iterator[str]:
    waits = "state = 'pending'" if may_have_gone_chat(evidence) else "state <> 'done'"
    yield from map(str, evidence.rows(f"SELECT 'inbox', inbox_id, state, event FROM inbox WHERE {waits}"))  # noqa: S608
    yield from map(str, evidence.rows("SELECT 'turn', turn_id, run_id FROM turns WHERE outcome IS NULL"))
    yield from map(
        str, evidence.rows("SELECT 'asked', asked FROM approvals WHERE closed_at IS NULL AND answer IS NULL")
    )
    yield from no_delivery_is_owed(evidence)


def no_delivery_is_owed(evidence: Evidence) -> Iterator[str]:
    yield from map(
        str,
        evidence.rows(
            "SELECT 'owed', delivery_key, state, attempts, error FROM outbox "
            "WHERE NOT streamed AND state IN ('owed', 'attempting')"
        ),
    )


def no_mark_is_left(evidence: Evidence) -> Iterator[str]:
    """After the last messages, no direct chat has a mark."""
    marked = "SELECT session_key, mark, mark_reason FROM sessions WHERE mark IS NOT NULL AND ended_at IS NULL"
    yield from map(str, evidence.rows(f"{marked} AND session_key LIKE '%:dm:%'"))


def every_message_has_its_row(evidence: Evidence) -> Iterator[str]:
    if took_long(evidence):
        return
    for at, event in evidence.story.platform.accepted:
        if event.kind != "callback" and inbox.id_of(evidence.db, event) is None:
            yield f"accepted at {at} and not stored: {event.text!r}"


def every_message_has_an_outcome(evidence: Evidence) -> Iterator[str]:
    """Each message is answered, or there is a known reason."""
    for inbox_id, turn_id, chat, received_at, text in evidence.rows(
        "SELECT inbox_id, turn_id, chat_id, received_at, event ->> 'text' FROM inbox "
        "WHERE event ->> 'kind' <> 'callback'"
    ):
        if text.startswith("/"):
            continue
        said_at = received_at - START.timestamp()
        what = f"{inbox_id} {text!r} in {chat} at {said_at:.1f}"
        if turn_id is None:
            if not (
                evidence.taken_back(chat, said_at - 1) or text == "" or was_refused_by_limit(evidence, chat)
            ):
                yield f"{what} was dropped without a known reason"
            continue
        chain = list(evidence.chain(turn_id))
        outcomes = [turn.outcome for turn in chain]
        if set(outcomes[:-1]) - {"cut"}:
            yield f"{what}: {outcomes}: a turn that was not cut was resumed"
        last = chain[-1]
        match last.outcome:
            case "answered" | "failed" | "timed_out":
                pass
            case "stopped" | "reset" if evidence.taken_back(chat, last.started_at - 1 - START.timestamp()):
                pass
            case "superseded" if was_interrupted(evidence, inbox_id, last):
                pass
            case "unstarted" if last.resumes is not None and was_told_of_cut(evidence, last.resumes):
                pass  # the turn had its one automatic run
            case "cut" if evidence.taken_back(chat, 0) or took_long(evidence) or may_have_gone_chat(evidence):
                pass
            case "cut" if evidence.story.posted and has_later_turn(evidence, last):
                pass  # the turn of a request before the link was up had the note
            case "cut" if was_told_of_cut(evidence, last.turn_id) and not evidence.rows(
                "SELECT 1 FROM messages WHERE turn_id = ?", last.turn_id
            ):
                pass  # the automatic run added nothing
            case "cut" if is_suspended(evidence, last.session_id):
                pass
            case _:
                yield f"{what}: {outcomes} and no more"


def was_told_of_cut(evidence: Evidence, turn_id: int) -> bool:
    """Return whether the chat was told that this cut turn is not resumed again."""
    return bool(evidence.rows("SELECT 1 FROM outbox WHERE delivery_key = ?", f"left:{turn_id}"))


def was_interrupted(evidence: Evidence, inbox_id: int, turn: turns.TurnRow) -> bool:
    """Return whether a later message came before the end of the turn, and interrupted it."""
    query = (
        "SELECT 1 FROM inbox JOIN sessions USING (session_key) "
        "WHERE session_id = ? AND inbox_id > ? AND received_at <= ? AND turn_id IS NOT ?"
    )
    later = evidence.rows(query, turn.session_id, inbox_id, turn.ended_at, turn.turn_id)
    return bool(later) and evidence.story.plan.config.display.busy_input_mode == "interrupt"


def has_later_turn(evidence: Evidence, turn: turns.TurnRow) -> bool:
    """Return whether the conversation has a later turn."""
    follows = evidence.rows(
        "SELECT 1 FROM turns JOIN sessions USING (session_id) WHERE turn_id > ? AND session_key = "
        "(SELECT session_key FROM sessions WHERE session_id = ?)",
        turn.turn_id,
        turn.session_id,
    )
    return bool(follows)


def may_have_gone_chat(evidence: Evidence) -> bool:
    """Return whether a chat may have been gone, where nothing is resumed until a message comes."""
    return any(step[0] == "fails" and "gone" in step for step in evidence.story.plan.steps)


def was_refused_by_limit(evidence: Evidence, chat: str) -> bool:
    return any("waiting here already" in text for text in evidence.story.platform.chat(chat).texts)


def took_long(evidence: Evidence) -> bool:
    """Return whether the story is so long that data is deleted and cut turns are not resumed."""
    return any(step[0] == "sleep" and float(step[1]) > 3000 for step in evidence.story.plan.steps)


def is_suspended(evidence: Evidence, session_id: str) -> bool:
    query = "SELECT mark, end_reason FROM sessions WHERE session_id = ?"
    [(mark, reason)] = evidence.rows(query, session_id)
    return "suspended" in (mark, reason)


def suspended_sessions_are_told(evidence: Evidence) -> Iterator[str]:
    if evidence.story.plan.config.agent.crash_recovery == "resume":
        yield from map(
            str,
            evidence.rows(
                "SELECT 'suspended', session_key FROM sessions LEFT JOIN outbox "
                "ON delivery_key = 'stuck:' || sessions.session_id "
                "WHERE 'suspended' IN (mark, end_reason) AND outbox.state IS NULL"
            ),
        )


def finished_messages_are_not_run_again(evidence: Evidence) -> Iterator[str]:
    outcome = evidence.outcomes
    runs: dict[tuple[str, str], list[object]] = {}
    seen = Counter(ran.run_id for ran in evidence.story.ran)
    yield from (f"run {run} was run {count} times" for run, count in seen.items() if count > 1)
    for ran in evidence.story.ran:
        for said in filter(None, ran.said):
            runs.setdefault((ran.key, said), []).append(outcome.get(ran.run_id))
    for (key, said), outcomes in runs.items():
        if set(outcomes[:-1]) - {"unstarted", None}:
            yield f"message {said} of {key} was run with {outcomes}"


def only_waiting_messages_are_run(evidence: Evidence) -> Iterator[str]:
    """A message that was taken back does not wait any more."""
    for ran in evidence.story.ran:
        for said in ran.said if not took_long(evidence) else ():
            for turn_id, outcome in evidence.rows(
                "SELECT turn_id, outcome FROM turns WHERE run_id = ?", ran.run_id
            ):
                rows = evidence.rows(
                    "SELECT turn_id, state FROM inbox WHERE event ->> 'message_id' = ?", said
                )
                if said and outcome != "unstarted" and turn_id not in [of_turn for of_turn, _ in rows]:
                    yield f"{ran} is {outcome}, and {said} stands as {rows}"


def stopped_turns_are_not_resumed(evidence: Evidence) -> Iterator[str]:
    for chat, began, again, run_id in evidence.rows(
        "SELECT origin ->> 'chat_id', cut.started_at, turns.started_at, turns.run_id "
        "FROM turns JOIN turns AS cut ON cut.turn_id = turns.resumes "
        "JOIN sessions ON sessions.session_id = cut.session_id "
        "WHERE turns.outcome <> 'unstarted' AND session_key LIKE '%:dm:%'"
    ):
        for shown in evidence.story.platform.chat(chat).messages:
            at = shown.at + START.timestamp()
            # A reply at the moment of the begin belongs to the resumed turn.
            if began < at < again - 0.001 and shown.text.startswith(("⚡ Stopped", "✨")):
                yield f"run {run_id} in {chat} resumes a turn that was stopped at {shown.at}: {shown.text}"
