"""What a turn asks a person: a question, or a yes before something is done that may do harm.

It is stored before anybody sees it, and lives as long as its turn: the end of the turn closes it, and an
answer that comes later is told so. While a person is waited for, nothing counts as silence.

Where a platform has buttons, the question has one for each answer. A press is an event that names what was
asked, and counts as the same answer in words would from the same person. What is answered, or over, loses its
buttons: whatever ends it owes, in the same transaction, the edit that takes them away.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import msgspec
import trio

from ...base.events import ApprovalRequest, QuestionRequest, RequestClosed
from ...platform.contract import Button
from ...state.tables import approvals, inbox, outbox, turns
from ...state.tables.approvals import ApprovalRow
from ...tools.tool import Approval, NotShown
from ..intake.access import ids_of
from ..outbound import texts
from ..outbound.exact_text import approval_parts, on_one_line, question_parts, visible, with_end
from ..outbound.rows import Body, Chat, owed, place_of

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ...base.messages import SessionSource
    from ...state.tables.outbox import Owed
    from ..parts import Gateway
    from .context import TurnContext
    from .handle import TurnHandle

Kind = Literal["approval", "question"]

DENY = "deny"
_PLAIN = {
    **dict.fromkeys(("approve", "yes", "ok", "okay", "confirm", "y", "👍", "once"), "once"),
    "session": "session",
    "always": "always",
    **dict.fromkeys(("deny", "no", "reject", "cancel", "n", "👎"), DENY),
}
"""The words that answer an approval, and what each of them means."""
_YES_OR_NO = (
    ("✅ Yes", "once"),
    ("✅ For this session", "session"),
    ("✅ Always", "always"),
    ("❌ No", DENY),
)
PRESS = "ask:"
"""What the values of our buttons begin with. Another press is what an adapter makes of it: words."""
LONGEST_LABEL = 60


@dataclass(eq=False, slots=True)
class OpenQuestion:
    """One thing that a person is asked, and the answer when there is one."""

    id: str
    kind: Kind
    choices: Sequence[str] = ()
    asked_of: frozenset[str] = frozenset()
    """The ids of the people whose turn asks."""
    at: float = field(default_factory=trio.current_time)
    answer: str | None = None
    _answered: trio.Event = field(default_factory=trio.Event)

    def meant(self, text: str) -> str | None:
        """What a message says as an answer to this; None if it is none. To a question anything is one,
        and a number is the choice that has it; to an approval a plain word is one, for whatever else is
        said there is meant for the agent."""
        text = text.strip()
        if self.kind == "approval":
            return _PLAIN.get(text.rstrip(".!").lower())
        numbered = {str(number): choice for number, choice in enumerate(self.choices, start=1)}
        return numbered.get(text, text) or None

    def buttons(self) -> tuple[Button, ...]:
        """One for each answer. What comes back holds no words, for it has room for few."""
        answers = (
            _YES_OR_NO
            if self.kind == "approval"
            else [(choice, str(number)) for number, choice in enumerate(self.choices, start=1)]
        )
        return tuple(
            Button(_short(label), f"{PRESS}{self.id}:{value}") for label, value in answers if label.strip()
        )

    def settle(self, answer: str) -> None:
        """This is the answer."""
        self.answer = answer
        self._answered.set()

    async def answered(self) -> None:
        """Wait for it."""
        await self._answered.wait()


async def ask(
    gateway: Gateway,
    turn: TurnContext,
    task: TurnHandle,
    what: Approval | str,
    *,
    choices: Sequence[str] = (),
    within: float,
) -> str | None:
    """Ask for a yes, or the answer to a question, and return the answer; None if none came in time, or
    nobody is there who could give one. Raises `NotShown` if it cannot be shown as it is."""
    if task.source is None:
        return None
    kind: Kind = "question" if isinstance(what, str) else "approval"
    asked = OpenQuestion(gateway.world.new_id(), kind, choices, _people_of(task))
    try:
        said = _shown(gateway, turn, task.source, asked, what, within)
    except NotShown as error:
        turn.mention(texts.cannot_be_shown(error.why))
        raise
    event = _event(asked, what)
    text = what if isinstance(what, str) else msgspec.json.encode(event).decode()
    row = ApprovalRow(asked.id, turn.turn_id, kind, text, gateway.world.time())
    await gateway.database.write(_ask, row, said)
    task.asked.append(asked)
    turn.patience.deadline = math.inf
    try:
        await turn.emit(event)
        gateway.lane_of(task.source).deliver()
        with trio.move_on_after(within):
            await asked.answered()
    finally:
        task.asked.remove(asked)
        turn.active()
    got = asked.answer or await gateway.database.write(_give_up, asked.id, gateway.world.time())
    gateway.lane_of(task.source).deliver()
    await turn.emit(RequestClosed(asked.id, got))
    return got


def _people_of(task: TurnHandle) -> frozenset[str]:
    """The ids of the people whose messages this turn answers; of a resumed one, of whom its session is."""
    origin = [task.origin] if task.origin is not None else []
    sources = [row.event.source for row in task.rows] or origin
    return frozenset(one for source in sources for one in ids_of(source))


def waiting(gateway: Gateway, key: str) -> list[OpenQuestion]:
    """What is asked in the conversation of this key, the oldest first: what its own turn asks, and then
    what is asked by those who work beside it."""
    task = gateway.sessions.task(key)
    own = list(task.asked) if task is not None else []
    beside = [one for actor in gateway.sessions.beside(key) if actor.task for one in actor.task.asked]
    return own + sorted(beside, key=lambda asked: asked.at)


def anybodys_approvals(gateway: Gateway, source: SessionSource) -> list[OpenQuestion]:
    """What waits for a yes in this place, whoever's turn asks for it."""
    tasks = (actor.task for actor in gateway.sessions.running if actor.task is not None)
    here = (task for task in tasks if task.source is not None and place_of(task.source) == place_of(source))
    return [asked for task in here for asked in task.asked if asked.kind == "approval"]


async def answer(
    gateway: Gateway, asked: OpenQuestion, meant: str, *, by: str, inbox_id: int | None = None
) -> bool:
    """Give the answer; the message it was given in is then of the turn that asked. False if it comes too
    late."""
    at = gateway.world.time()
    stored = await gateway.database.write(_answer, asked.id, meant, by=by, at=at, inbox_id=inbox_id)
    if stored:
        asked.settle(meant)
    return stored


def pressed(value: str) -> tuple[str, str]:
    """Of what was asked by the button with this value: its id, and what is answered."""
    asked_id, _, answer = value.removeprefix(PRESS).rpartition(":")
    return asked_id, answer


def _short(label: str) -> str:
    label = " ".join(on_one_line(label).split())
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def _event(asked: OpenQuestion, what: Approval | str) -> ApprovalRequest | QuestionRequest:
    if isinstance(what, str):
        return QuestionRequest(asked.id, what, asked.choices)
    command, cwd, why = visible(what.exact), visible(what.place), on_one_line(what.description)
    return ApprovalRequest(asked.id, command, why, cwd)


def _shown(
    gateway: Gateway,
    turn: TurnContext,
    source: SessionSource,
    asked: OpenQuestion,
    what: Approval | str,
    within: float,
) -> Owed | None:
    """What the person is shown, in as many messages as it takes; the last has the buttons. None if there is
    nothing to show."""
    chat = Chat.of(source)
    traits = gateway.traits(chat)
    if isinstance(what, str):
        parts = question_parts(what, asked.choices, traits)
    else:
        parts = approval_parts(what, within, traits)
    if not parts:
        return None
    *before, last = parts
    return owed(
        chat,
        _key(turn.run_id, asked.id),
        Body(
            last.text,
            preformatted=last.preformatted,
            before=tuple(before),
            buttons=asked.buttons() if traits.buttons else (),
        ),
        thread_id=source.thread_id,
        session_id=turn.entry.session_id,
        turn_id=turn.turn_id,
    )


def _key(run_id: str, asked_id: str) -> str:
    """The delivery key of a question."""
    return f"{run_id}:asks:{asked_id}"


# --- steps of the database ---------------------------------------------------------------------------


def _ask(db: sqlite3.Connection, row: ApprovalRow, said: Owed | None) -> None:
    approvals.ask(db, row)
    if said is not None:
        outbox.owe(db, said, row.asked_at)


def _answer(
    db: sqlite3.Connection, asked_id: str, meant: str, *, by: str, at: float, inbox_id: int | None
) -> bool:
    request = approvals.get(db, asked_id)
    if request is None or not approvals.answer(db, asked_id, meant, by=by, at=at):
        return False
    if inbox_id is not None:
        inbox.join_turn(db, request.turn_id, [inbox_id])
    _take_buttons(db, request, meant, at)
    return True


def _give_up(db: sqlite3.Connection, asked_id: str, at: float) -> str | None:
    """Nobody waits any more. Returns the answer if one was stored in the moment in which patience ended."""
    request = approvals.get(db, asked_id)
    if request is not None and request.closed_at is None:
        approvals.close(db, asked_id, at)
        _take_buttons(db, request, None, at)
    return request.answer if request is not None else None


def close_of_turn(db: sqlite3.Connection, turn_id: int, at: float) -> bool:
    """The turn is about to end: what it still asks loses its buttons. Whether there is anything of it."""
    asked = approvals.open_of_turn(db, turn_id)
    for request in asked:
        _take_buttons(db, request, None, at)
    return bool(asked)


def _take_buttons(db: sqlite3.Connection, request: ApprovalRow, answer: str | None, at: float) -> None:
    """Owe the edit that takes the buttons away and says how it ended, if there are any."""
    turn = turns.get(db, request.turn_id)
    asked = outbox.by_key(db, _key(turn.run_id, request.approval_id)) if turn else None
    body = msgspec.json.decode(asked.owed.body, type=Body) if asked else None
    if asked is None or body is None or not body.buttons:
        return
    key = asked.owed.delivery_key
    part = with_end(body.part, answer)
    said = Body(part.text, closes=key, only_closes=True, preformatted=part.preformatted)
    row = replace(asked.owed, delivery_key=f"{key}:over", body=msgspec.json.encode(said).decode())
    outbox.owe(db, row, at)
