"""The turn that runs in a session: stopping it, and answering its open questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ...gateway.operations.api_sessions import API_PLATFORM
from ...gateway.operations.gateway_actions import AnswerQuestion, OpenQuestions, StopAndDrop
from ...state.db.database import Database
from ..http.http_errors import Refusal, json_response, read_json
from .session_changes import ChangeFeed
from .session_lookup import entry_of


class QuestionAnswer(msgspec.Struct, frozen=True):
    """The body that answers an approval or a question of a turn."""

    id: str
    answer: Annotated[str, Meta(min_length=1, max_length=10_000)]


@dataclass(frozen=True, slots=True)
class TurnRoutes:
    """The handlers of running turns."""

    database: Database
    open_questions: OpenQuestions
    answer_question: AnswerQuestion
    stop_and_drop: StopAndDrop
    changes: ChangeFeed

    async def stop(self, request: Request) -> Response:
        """`POST /api/sessions/{id}/stop`: stop the running turn, and drop the waiting messages."""
        entry = await entry_of(self.database, request)
        stopped, dropped = False, 0
        if entry.ended_at is None:
            stopped, dropped = await self.stop_and_drop(entry.session_key)
            self.changes.note(entry.session_id)
        return json_response({"stopped": stopped, "dropped": dropped})

    async def answer(self, request: Request) -> Response:
        """`POST /api/sessions/{id}/answers` `{id, answer}`: answer an approval or a question. 409 if it is
        not open any more."""
        entry = await entry_of(self.database, request)
        body = await read_json(request, QuestionAnswer)
        waiting = self.open_questions(entry.session_key) if entry.ended_at is None else []
        asked = next((one for one in waiting if one.id == body.id), None)
        meant = asked.answer_in(body.answer) if asked is not None else None
        if asked is not None and meant is None:
            message = (
                "This does not answer the question."
                if asked.kind == "question"
                else "This is neither yes nor no."
            )
            raise Refusal(400, "no_answer", message, "Answer once, session, always or deny.")
        if asked is None or meant is None or not await self.answer_question(asked, meant, by=API_PLATFORM):
            message = "This question is not open any more."
            raise Refusal(409, "asked_no_more", message, "Read the session to see its open questions.")
        self.changes.note(entry.session_id)
        return json_response({"id": asked.id, "answer": meant})
