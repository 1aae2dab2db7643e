"""Whether the books of a story that chance has written are as was promised. Each function looks at one
promise and yields what is wrong. What chats show is looked at in `any_shown`."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hermes_trio.state.tables import inbox, turns
from tests.gateway.chance.any_story import START, Story

TAKES_BACK = "/stop", "/new", "/retry", "/undo"


@dataclass
class Books:
    """The books at the end of a story."""

    story: Story
    db: sqlite3.Connection

    def rows(self, query: str, *args: object) -> list[tuple[Any, ...]]:
        return self.db.execute(query, args).fetchall()

    def commands(self, chat: str) -> list[tuple[float, str]]:
        """The commands that were accepted in a chat, and when."""
        accepted = self.story.platform.accepted
        return [(at, e.text) for at, e in accepted if e.source.chat_id == chat and e.text.startswith("/")]

    def taken_back(self, chat: str, after: float) -> bool:
        """Whether somebody gave a command there that ends what was said before."""
        return any(at >= after and text.startswith(TAKES_BACK) for at, text in self.commands(chat))

    def chain(self, turn_id: int) -> Iterator[turns.TurnRow]:
        """A turn, the one that took it up when it was cut, and so on."""
        while (turn := turns.get(self.db, turn_id)) is not None:
            yield turn
            found = self.rows("SELECT turn_id FROM turns WHERE resumes = ?", turn_id)
            turn_id = found[0][0] if found else 0

    @property
    def outcomes(self) -> dict[str, str | None]:
        """How each run has ended."""
        return dict(self.rows("SELECT run_id, outcome FROM turns"))


def cuts_are_taken_up_once(books: Books) -> Iterator[str]:
    yield from map(
        str, books.rows("SELECT resumes, count(*) FROM turns GROUP BY 1 HAVING resumes AND count(*) > 1")
    )


def nothing_is_left_open(books: Books) -> Iterator[str]:
    waits = "state = 'pending'" if gone(books) else "state <> 'done'"
    yield from map(str, books.rows(f"SELECT 'inbox', inbox_id, state, event FROM inbox WHERE {waits}"))  # noqa: S608
    yield from map(str, books.rows("SELECT 'turn', turn_id, run_id FROM turns WHERE outcome IS NULL"))
    yield from map(
        str, books.rows("SELECT 'asked', asked FROM approvals WHERE closed_at IS NULL AND answer IS NULL")
    )
    yield from nothing_is_owed(books)


def nothing_is_owed(books: Books) -> Iterator[str]:
    yield from map(
        str,
        books.rows(
            "SELECT 'owed', delivery_key, state, attempts, error FROM outbox "
            "WHERE NOT streamed AND state IN ('owed', 'attempting')"
        ),
    )


def no_mark_is_left(books: Books) -> Iterator[str]:
    """Behind the last words."""
    marked = "SELECT session_key, mark, mark_reason FROM sessions WHERE mark IS NOT NULL AND ended_at IS NULL"
    yield from map(str, books.rows(f"{marked} AND session_key LIKE '%:dm:%'"))


def every_message_has_its_row(books: Books) -> Iterator[str]:
    if long(books):
        return
    for at, event in books.story.platform.accepted:
        if event.kind != "callback" and inbox.id_of(books.db, event) is None:
            yield f"accepted at {at} and not stored: {event.text!r}"


def every_message_came_to_something(books: Books) -> Iterator[str]:
    """It is answered, or it is known why it is not."""
    for inbox_id, turn_id, chat, received_at, text in books.rows(
        "SELECT inbox_id, turn_id, chat_id, received_at, event ->> 'text' FROM inbox "
        "WHERE event ->> 'kind' <> 'callback'"
    ):
        if text.startswith("/"):
            continue
        said_at = received_at - START.timestamp()
        what = f"{inbox_id} {text!r} in {chat} at {said_at:.1f}"
        if turn_id is None:
            if not (books.taken_back(chat, said_at - 1) or text == "" or crowded(books, chat)):
                yield f"{what} was dropped, and nobody knows why"
            continue
        chain = list(books.chain(turn_id))
        outcomes = [turn.outcome for turn in chain]
        if set(outcomes[:-1]) - {"cut"}:
            yield f"{what}: {outcomes}: what was not cut was taken up"
        last = chain[-1]
        match last.outcome:
            case "answered" | "failed" | "timed_out":
                pass
            case "stopped" | "reset" if books.taken_back(chat, last.started_at - 1 - START.timestamp()):
                pass
            case "superseded" if came_in(books, inbox_id, last):
                pass
            case "unstarted" if last.resumes is not None and told_of(books, last.resumes):
                pass  # it had its one automatic run
            case "cut" if books.taken_back(chat, 0) or long(books) or gone(books):
                pass
            case "cut" if books.story.posted and later(books, last):
                pass  # a request came before the link was up: its turn had the note
            case "cut" if told_of(books, last.turn_id) and not books.rows(
                "SELECT 1 FROM messages WHERE turn_id = ?", last.turn_id
            ):
                pass  # its automatic run added nothing
            case "cut" if stuck(books, last.session_id):
                pass
            case _:
                yield f"{what}: {outcomes} and no more"


def told_of(books: Books, turn_id: int) -> bool:
    """Whether somebody was told that this cut is not taken up once more."""
    return bool(books.rows("SELECT 1 FROM outbox WHERE delivery_key = ?", f"left:{turn_id}"))


def came_in(books: Books, inbox_id: int, turn: turns.TurnRow) -> bool:
    """Whether another message came behind this one before its turn ended."""
    query = (
        "SELECT 1 FROM inbox JOIN sessions USING (session_key) "
        "WHERE session_id = ? AND inbox_id > ? AND received_at <= ? AND turn_id IS NOT ?"
    )
    later = books.rows(query, turn.session_id, inbox_id, turn.ended_at, turn.turn_id)
    return bool(later) and books.story.plan.config.display.busy_input_mode == "interrupt"


def later(books: Books, turn: turns.TurnRow) -> bool:
    """Whether another turn of its conversation came behind this one."""
    follows = books.rows(
        "SELECT 1 FROM turns JOIN sessions USING (session_id) WHERE turn_id > ? AND session_key = "
        "(SELECT session_key FROM sessions WHERE session_id = ?)",
        turn.turn_id,
        turn.session_id,
    )
    return bool(follows)


def gone(books: Books) -> bool:
    """Whether a chat may have been gone: nothing is taken up there until somebody is heard."""
    return any(step[0] == "fails" and "gone" in step for step in books.story.plan.steps)


def crowded(books: Books, chat: str) -> bool:
    return any("waiting here already" in text for text in books.story.platform.chat(chat).texts)


def long(books: Books) -> bool:
    """Whether so much time has passed that things are forgotten, and what was cut is not taken up."""
    return any(step[0] == "sleep" and float(step[1]) > 3000 for step in books.story.plan.steps)


def stuck(books: Books, session_id: str) -> bool:
    query = "SELECT mark, end_reason FROM sessions WHERE session_id = ?"
    [(mark, reason)] = books.rows(query, session_id)
    return "suspended" in (mark, reason)


def who_is_stuck_is_told(books: Books) -> Iterator[str]:
    if books.story.plan.config.agent.crash_recovery == "resume":
        yield from map(
            str,
            books.rows(
                "SELECT 'suspended', session_key FROM sessions LEFT JOIN outbox "
                "ON delivery_key = 'stuck:' || sessions.session_id "
                "WHERE 'suspended' IN (mark, end_reason) AND outbox.state IS NULL"
            ),
        )


def what_is_finished_is_not_run_again(books: Books) -> Iterator[str]:
    outcome = books.outcomes
    runs: dict[tuple[str, str], list[object]] = {}
    seen = Counter(ran.run_id for ran in books.story.ran)
    yield from (f"run {run} was run {count} times" for run, count in seen.items() if count > 1)
    for ran in books.story.ran:
        for said in filter(None, ran.said):
            runs.setdefault((ran.key, said), []).append(outcome.get(ran.run_id))
    for (key, said), outcomes in runs.items():
        if set(outcomes[:-1]) - {"unstarted", None}:
            yield f"message {said} of {key} was run with {outcomes}"


def only_what_waited_is_run(books: Books) -> Iterator[str]:
    """And what a person has taken back waits no more."""
    for ran in books.story.ran:
        for said in ran.said if not long(books) else ():
            for turn_id, outcome in books.rows(
                "SELECT turn_id, outcome FROM turns WHERE run_id = ?", ran.run_id
            ):
                rows = books.rows("SELECT turn_id, state FROM inbox WHERE event ->> 'message_id' = ?", said)
                if said and outcome != "unstarted" and turn_id not in [of_turn for of_turn, _ in rows]:
                    yield f"{ran} is {outcome}, and {said} stands as {rows}"


def what_was_stopped_is_not_taken_up(books: Books) -> Iterator[str]:
    for chat, began, again, run_id in books.rows(
        "SELECT origin ->> 'chat_id', cut.started_at, turns.started_at, turns.run_id "
        "FROM turns JOIN turns AS cut ON cut.turn_id = turns.resumes "
        "JOIN sessions ON sessions.session_id = cut.session_id "
        "WHERE turns.outcome <> 'unstarted' AND session_key LIKE '%:dm:%'"
    ):
        for shown in books.story.platform.chat(chat).messages:
            at = shown.at + START.timestamp()
            # What is said in the moment in which it begins was said to it.
            if began < at < again - 0.001 and shown.text.startswith(("⚡ Stopped", "✨")):
                yield f"run {run_id} in {chat} takes up what was stopped at {shown.at}: {shown.text}"
