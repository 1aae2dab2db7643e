"""What a turn asks a person: a question, or a yes before something is done that may do harm.

It is stored before anybody sees it, and lives as long as its turn: the end of the turn closes it, and an
answer that comes later is told so. While a person is waited for, nothing counts as silence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import trio

from ..state import approvals, inbox, outbox
from ..state.approvals import Request
from . import words
from .outgoing import Body, Chat, owed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ..messages import SessionSource
    from ..state.outbox import Owed
    from .gateway import Gateway
    from .run import Task
    from .turn import Turn

Kind = Literal["approval", "question"]

DENY = "deny"
_PLAIN = {
    **dict.fromkeys(("approve", "yes", "ok", "okay", "confirm", "y", "👍", "once"), "once"),
    "session": "session",
    "always": "always",
    **dict.fromkeys(("deny", "no", "reject", "cancel", "n", "👎"), DENY),
}
"""The words that answer an approval, and what each of them means."""


@dataclass(eq=False, slots=True)
class Asked:
    """One thing that a person is asked, and the answer when there is one."""

    id: str
    kind: Kind
    choices: Sequence[str] = ()
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

    def settle(self, answer: str) -> None:
        """This is the answer."""
        self.answer = answer
        self._answered.set()

    async def answered(self) -> None:
        """Wait for it."""
        await self._answered.wait()


async def ask(
    gateway: Gateway,
    turn: Turn,
    task: Task,
    kind: Kind,
    text: str,
    *,
    choices: Sequence[str] = (),
    within: float,
) -> str | None:
    """Ask, and return the answer; None if none came in time, or nobody is there who could give one."""
    if task.source is None:
        return None
    asked = Asked(gateway.world.new_id(), kind, choices)
    row = Request(asked.id, turn.turn_id, kind, text, gateway.world.time())
    shown = words.asks_for_a_yes(text, within) if kind == "approval" else words.asks(text, choices)
    said = _shown(turn, task.source, asked.id, shown)
    await gateway.database.write(_ask, row, said)
    task.asked.append(asked)
    turn.patience.deadline = math.inf
    try:
        gateway.lane_of(task.source).deliver()
        with trio.move_on_after(within):
            await asked.answered()
    finally:
        task.asked.remove(asked)
        turn.active()
    return asked.answer or await gateway.database.write(_give_up, asked.id, gateway.world.time())


def waiting(gateway: Gateway, key: str) -> list[Asked]:
    """What is asked in the conversation of this key, the oldest first: what its own turn asks, and then
    what is asked by those who work beside it."""
    task = gateway.sessions.task(key)
    own = list(task.asked) if task is not None else []
    beside = [one for actor in gateway.sessions.beside(key) if actor.task for one in actor.task.asked]
    return own + sorted(beside, key=lambda asked: asked.at)


async def answer(gateway: Gateway, asked: Asked, meant: str, *, by: str, inbox_id: int | None = None) -> bool:
    """Give the answer; the message it was given in is then of the turn that asked. False if it comes too
    late."""
    at = gateway.world.time()
    stored = await gateway.database.write(_answer, asked.id, meant, by=by, at=at, inbox_id=inbox_id)
    if stored:
        asked.settle(meant)
    return stored


def _shown(turn: Turn, source: SessionSource, asked_id: str, text: str) -> Owed:
    return owed(
        Chat.of(source),
        f"{turn.run_id}:asks:{asked_id}",
        Body(text),
        thread_id=source.thread_id,
        session_id=turn.entry.session_id,
        turn_id=turn.turn_id,
    )


# --- steps of the database ---------------------------------------------------------------------------


def _ask(db: sqlite3.Connection, row: Request, said: Owed) -> None:
    approvals.ask(db, row)
    outbox.owe(db, said, row.asked_at)


def _answer(
    db: sqlite3.Connection, asked_id: str, meant: str, *, by: str, at: float, inbox_id: int | None
) -> bool:
    request = approvals.get(db, asked_id)
    if request is None or not approvals.answer(db, asked_id, meant, by=by, at=at):
        return False
    if inbox_id is not None:
        inbox.join_turn(db, request.turn_id, [inbox_id])
    return True


def _give_up(db: sqlite3.Connection, asked_id: str, at: float) -> str | None:
    """Nobody waits any more. Returns the answer if one was stored in the moment in which patience ended."""
    approvals.close(db, asked_id, at)
    request = approvals.get(db, asked_id)
    return request.answer if request is not None else None
