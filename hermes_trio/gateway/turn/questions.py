"""Asking a person during a turn, and waiting for the answer. The clock of inactivity stands still
meanwhile."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import msgspec
import trio

from ...base.events import Event, RequestClosed
from ...state.tables.approvals import ApprovalRow
from ...tools.tool import Approval, NotShown
from ..home.open_home import Home
from ..links.access import ids_of
from ..outbound import texts
from ..outbound.chats import Chats
from ..outbound.rows import Chat
from .handle import TurnHandle
from .open_question import (
    OpenQuestion,
    close_question,
    question_row,
    request_event,
    store_answer,
    store_question,
)


class AskingTurn(Protocol):
    """The turn that asks, as far as a question needs it."""

    run_id: str
    turn_id: int
    patience: trio.CancelScope

    @property
    def session_id(self) -> str: ...
    def active(self) -> None: ...
    def mention(self, text: str) -> None: ...
    async def emit(self, event: Event) -> None: ...


async def ask(
    home: Home,
    chats: Chats,
    turn: AskingTurn,
    handle: TurnHandle,
    asked: Approval | str,
    *,
    choices: Sequence[str] = (),
    within: float,
) -> str | None:
    """Ask for an approval, or the answer to a question, and return the answer. Return None if no answer came
    in time or the turn has no person to ask. Raises `NotShown` if an approval cannot be shown exactly."""
    source = handle.source
    if source is None:
        return None
    kind = "question" if isinstance(asked, str) else "approval"
    question = OpenQuestion(home.world.new_id(), kind, choices, _people_of(handle))  # type: ignore[arg-type]
    try:
        shown = question_row(
            question,
            asked,
            source=source,
            traits=chats.traits(Chat.of(source)),
            within=within,
            run_id=turn.run_id,
            turn_id=turn.turn_id,
            session_id=turn.session_id,
        )
    except NotShown as error:
        turn.mention(texts.cannot_be_shown(error.why))
        raise
    event = request_event(question, asked)
    text = asked if isinstance(asked, str) else msgspec.json.encode(event).decode()
    row = ApprovalRow(question.id, turn.turn_id, question.kind, text, home.world.time())
    await home.database.write(store_question, row, shown)
    handle.questions.append(question)
    turn.patience.deadline = math.inf
    try:
        await turn.emit(event)
        chats.lane(Chat.of(source)).deliver()
        with trio.move_on_after(within):
            await question.answered()
    finally:
        handle.questions.remove(question)
        turn.active()
    answer = question.answer or await home.database.write(close_question, question.id, home.world.time())
    chats.lane(Chat.of(source)).deliver()
    await turn.emit(RequestClosed(question.id, answer))
    return answer


async def give_answer(
    home: Home, question: OpenQuestion, answer: str, *, by: str, inbox_id: int | None = None
) -> bool:
    """Answer a question; the message that gave the answer then belongs to the asking turn. Return False if
    the answer is too late."""
    at = home.world.time()
    stored = await home.database.write(store_answer, question.id, answer, by=by, at=at, inbox_id=inbox_id)
    if stored:
        question.set_answer(answer)
    return stored


def _people_of(handle: TurnHandle) -> frozenset[str]:
    """Return the ids of the people whose messages a turn answers; of a resumed turn, those of its session."""
    own = [handle.source] if handle.source is not None else []
    sources = [row.event.source for row in handle.rows] or own
    return frozenset(one for source in sources for one in ids_of(source))
