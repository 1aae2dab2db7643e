"""A question that a turn asks a person: an approval, or a question of the agent.

It is stored before the person sees it, and lives as long as its turn: the end of the turn closes it, and a
later answer is told that it came too late.

On a platform with buttons it has a button for each answer. A press is an event that names the question, and
counts like the same answer in words by the same person. A question that is answered or closed loses its
buttons: the transaction that ends it owes the edit that removes them.

It may touch the tables of approvals and of the outbox, and waits only for the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec
import trio

from ...base.events import ApprovalRequest, QuestionRequest
from ...platform.contract import Button, Traits
from ...state.db.engine import Db
from ...state.tables import approvals, inbox, outbox, turns
from ...state.tables.approvals import ApprovalRow
from ...state.tables.outbox import Owed
from ...tools.tool import Approval
from ..outbound.exact_text import approval_parts, on_one_line, question_parts, visible, with_end
from ..outbound.rows import Body

Kind = Literal["approval", "question"]

DENY = "deny"
_PLAIN = {
    **dict.fromkeys(("approve", "yes", "ok", "okay", "confirm", "y", "👍", "once"), "once"),
    "session": "session",
    "always": "always",
    **dict.fromkeys(("deny", "no", "reject", "cancel", "n", "👎"), DENY),
}
"""The words that answer an approval, each with its meaning."""
_YES_OR_NO = (
    ("✅ Yes", "once"),
    ("✅ For this session", "session"),
    ("✅ Always", "always"),
    ("❌ No", DENY),
)
PRESS = "ask:"
"""Prefix of the values of our buttons. The press of any other button is words, as its adapter makes them."""
LONGEST_LABEL = 60


@dataclass(eq=False, slots=True)
class OpenQuestion:
    """A question, and its answer once there is one."""

    id: str
    kind: Kind
    choices: Sequence[str] = ()
    asked_of: frozenset[str] = frozenset()
    """Ids of the people whose messages the asking turn answers."""
    at: float = field(default_factory=trio.current_time)
    answer: str | None = None
    _answered: trio.Event = field(default_factory=trio.Event)

    def answer_in(self, text: str) -> str | None:
        """Return the answer that a message gives, or None if it is no answer. Any text answers a question,
        and a number selects its choice; only the known words answer an approval, because any other text is
        meant for the agent."""
        text = text.strip()
        if self.kind == "approval":
            return _PLAIN.get(text.rstrip(".!").lower())
        numbered = {str(number): choice for number, choice in enumerate(self.choices, start=1)}
        return numbered.get(text, text) or None

    def buttons(self) -> tuple[Button, ...]:
        """Return a button for each answer. Its value holds a number instead of words: platforms limit it."""
        answers = (
            _YES_OR_NO
            if self.kind == "approval"
            else [(choice, str(number)) for number, choice in enumerate(self.choices, start=1)]
        )
        return tuple(
            Button(_short(label), f"{PRESS}{self.id}:{value}") for label, value in answers if label.strip()
        )

    def set_answer(self, answer: str) -> None:
        """Set the answer, and wake the turn that waits for it."""
        self.answer = answer
        self._answered.set()

    async def answered(self) -> None:
        """Wait for the answer."""
        await self._answered.wait()


def parse_press(value: str) -> tuple[str, str]:
    """Return the id of the question and the answer in the value of a pressed button."""
    question_id, _, answer = value.removeprefix(PRESS).rpartition(":")
    return question_id, answer


def request_event(question: OpenQuestion, asked: Approval | str) -> ApprovalRequest | QuestionRequest:
    """Return the event that tells the followers of a run what it asks."""
    if isinstance(asked, str):
        return QuestionRequest(question.id, asked, question.choices)
    command, cwd, why = visible(asked.exact), visible(asked.place), on_one_line(asked.description)
    return ApprovalRequest(question.id, command, why, cwd, tuple(map(on_one_line, asked.grants)))


def question_body(
    question: OpenQuestion, asked: Approval | str, *, traits: Traits, within: float
) -> Body | None:
    """Return the message that shows a question, or None if there is nothing to show. Raises `NotShown` if an
    approval cannot be shown whole and exactly."""
    if isinstance(asked, str):
        parts = question_parts(asked, question.choices, traits)
    else:
        parts = approval_parts(asked, within, traits)
    if not parts:
        return None
    *before, last = parts
    return Body(
        last.text,
        preformatted=last.preformatted,
        before=tuple(before),
        buttons=question.buttons() if traits.buttons else (),
    )


def _short(label: str) -> str:
    label = " ".join(on_one_line(label).split())
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def question_key(run_id: str, question_id: str) -> str:
    """Return the delivery key of a question."""
    return f"{run_id}:asks:{question_id}"


# --- steps of the database ---------------------------------------------------------------------------


def store_question(db: Db, row: ApprovalRow, shown: Owed | None) -> None:
    """Store a question, and owe the message that shows it."""
    approvals.ask(db, row)
    if shown is not None:
        outbox.owe(db, shown, row.asked_at)


def store_answer(db: Db, question_id: str, answer: str, *, by: str, at: float, inbox_id: int | None) -> bool:
    """Store an answer; the message that gave it joins the asking turn. Return False if the question is
    closed."""
    request = approvals.get(db, question_id)
    if request is None or not approvals.answer(db, question_id, answer, by=by, at=at):
        return False
    if inbox_id is not None:
        inbox.join_turn(db, request.turn_id, [inbox_id])
    _remove_buttons(db, request, answer, at)
    return True


def close_question(db: Db, question_id: str, at: float) -> str | None:
    """Close a question whose time is over. Return its answer if one was stored in that very moment."""
    request = approvals.get(db, question_id)
    if request is not None and request.closed_at is None:
        approvals.close(db, question_id, at)
        _remove_buttons(db, request, None, at)
    return request.answer if request is not None else None


def remove_buttons(db: Db, unanswered: Iterable[ApprovalRow], at: float) -> None:
    """Owe the edits that remove the buttons of questions which end without an answer."""
    for request in unanswered:
        _remove_buttons(db, request, None, at)


def _remove_buttons(db: Db, request: ApprovalRow, answer: str | None, at: float) -> None:
    """Owe the edit that removes the buttons of a question and says how it ended, if it has any."""
    turn = turns.get(db, request.turn_id)
    asked = outbox.by_key(db, question_key(turn.run_id, request.approval_id)) if turn else None
    body = msgspec.json.decode(asked.owed.body, type=Body) if asked else None
    if asked is None or body is None or not body.buttons:
        return
    key = asked.owed.delivery_key
    part = with_end(body.part, answer)
    said = Body(part.text, closes=key, only_closes=True, preformatted=part.preformatted)
    row = replace(asked.owed, delivery_key=f"{key}:over", body=msgspec.json.encode(said).decode())
    outbox.owe(db, row, at)
