"""Asking a person during a turn, and waiting for the answer. The clock of inactivity stands still meanwhile.

It may touch the questions of the turn, its chat, and the tables of approvals and of the inbox.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import trio

from ...base.events import Event, RequestClosed
from ...base.messages import SessionSource
from ...state.tables.approvals import ApprovalRow
from ...state.tables.outbox import Owed
from ...tools.tool import Approval, NotShown
from ..home.open_home import Home
from ..links.access import ids_of
from ..outbound import texts
from ..outbound.chats import Chats
from ..outbound.rows import Chat, owed
from .handle import TurnHandle
from .open_question import (
    Kind,
    OpenQuestion,
    close_question,
    question_body,
    question_key,
    request_event,
    store_answer,
    store_question,
)


class AskingTurn(Protocol):
    """The turn that asks, as far as a question needs it."""

    run_id: str
    turn_id: int

    @property
    def session_id(self) -> str: ...
    def active(self) -> None: ...
    def mention(self, text: str) -> None: ...
    async def emit(self, event: Event) -> None: ...


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks the person of one turn."""

    home: Home
    chats: Chats
    turn: AskingTurn
    handle: TurnHandle

    async def ask(self, asked: Approval | str, choices: Sequence[str] = (), *, within: float) -> str | None:
        """Ask for an approval, or the answer to a question, and return the answer. Return None if no answer
        came in time or the turn has no person to ask. Raises `NotShown` if an approval cannot be shown
        exactly."""
        home, source = self.home, self.handle.source
        if source is None:
            return None
        kind: Kind = "question" if isinstance(asked, str) else "approval"
        question = OpenQuestion(home.world.new_id(), kind, choices, _people_of(self.handle))
        shown = self._shown(question, asked, source, within)
        event = request_event(question, asked)
        text = asked if isinstance(asked, str) else msgspec.json.encode(event).decode()
        row = ApprovalRow(question.id, self.turn.turn_id, kind, text, home.world.time())
        await home.database.write(store_question, row, shown)
        await self._wait(question, event, Chat.of(source), within)
        answer = question.answer or await home.database.write(close_question, question.id, home.world.time())
        self.chats.lane(Chat.of(source)).deliver()
        if answer is None and kind == "approval":
            self.turn.mention(texts.approval_expired(within))
        await self.turn.emit(RequestClosed(question.id, answer))
        return answer

    def _shown(
        self, question: OpenQuestion, asked: Approval | str, source: SessionSource, within: float
    ) -> Owed | None:
        """Return the outbox row that shows a question, or None if there is nothing to show."""
        chat, turn = Chat.of(source), self.turn
        try:
            body = question_body(question, asked, traits=self.chats.traits(chat), within=within)
        except NotShown as error:
            turn.mention(texts.cannot_be_shown(error.why))
            raise
        if body is None:
            return None
        return owed(
            chat,
            question_key(turn.run_id, question.id),
            body,
            thread_id=source.thread_id,
            session_id=turn.session_id,
            turn_id=turn.turn_id,
        )

    async def _wait(self, question: OpenQuestion, event: Event, chat: Chat, within: float) -> None:
        """Show a stored question, and wait until it is answered or its time is over."""
        self.handle.questions.append(question)
        self.handle.scope.deadline = math.inf
        try:
            await self.turn.emit(event)
            self.chats.lane(chat).deliver()
            with trio.move_on_after(within):
                await question.answered()
        finally:
            self.handle.questions.remove(question)
            self.turn.active()


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
