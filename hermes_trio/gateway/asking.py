"""What a turn asks a person: a question, or a yes before something is done that may do harm.

It is stored before anybody sees it, and lives as long as its turn: the end of the turn closes it, and an
answer that comes later is told so. While a person is waited for, nothing counts as silence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import trio

from ..state import approvals, outbox
from ..state.approvals import Request
from .lane import Body, Chat, owed

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from ..messages import SessionSource
    from ..state.outbox import Owed
    from .gateway import Gateway
    from .run import Task
    from .turn import Turn

Kind = Literal["approval", "question"]

YES = frozenset({"approve", "yes", "ok", "okay", "confirm", "y", "👍", "always", "session"})
NO = frozenset({"deny", "no", "reject", "cancel", "n", "👎"})


@dataclass(eq=False, slots=True)
class Asked:
    """One thing that a person is asked, and the answer when there is one."""

    id: str
    kind: Kind
    answer: str | None = None
    _answered: trio.Event = field(default_factory=trio.Event)

    def takes(self, text: str) -> bool:
        """Whether a message is meant as the answer. To a question anything is; to an approval a plain
        word, for whatever else is said there is meant for the agent."""
        return self.kind == "question" or text.strip().lower() in YES | NO

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
    """Ask, and return the answer; None if none came in time."""
    asked = Asked(gateway.world.new_id(), kind)
    row = Request(asked.id, turn.turn_id, kind, text, gateway.world.time())
    said = _shown(turn, task.source, asked.id, text, choices) if task.source else None
    await gateway.database.write(_ask, row, said)
    task.asked.append(asked)
    turn.patience.deadline = math.inf
    try:
        if task.source is not None:
            gateway.lane_of(task.source).deliver()
        with trio.move_on_after(within):
            await asked.answered()
    finally:
        task.asked.remove(asked)
        turn.active()
    if asked.answer is None:
        await gateway.database.write(approvals.close, asked.id, gateway.world.time())
    return asked.answer


async def answer(gateway: Gateway, asked: Asked, text: str, *, by: str) -> bool:
    """Give the answer. False if it comes too late."""
    stored = await gateway.database.write(approvals.answer, asked.id, text, by=by, at=gateway.world.time())
    if stored:
        asked.settle(text)
    return stored


def _shown(turn: Turn, source: SessionSource, asked_id: str, text: str, choices: Sequence[str]) -> Owed:
    lines = [text, *(f"{number}. {choice}" for number, choice in enumerate(choices, start=1))]
    return owed(
        Chat.of(source),
        f"{turn.run_id}:asks:{asked_id}",
        Body("\n".join(lines)),
        thread_id=source.thread_id,
        session_id=turn.entry.session_id,
        turn_id=turn.turn_id,
    )


def _ask(db: sqlite3.Connection, row: Request, said: Owed | None) -> None:
    approvals.ask(db, row)
    if said is not None:
        outbox.owe(db, said, row.asked_at)
