"""Responses in OpenAI's form, as newer clients ask for them: a turn of the agent, whole or as a stream of
typed events.

A response is a run, and its id is `resp_` and the id of that run. Each conversation is a session of its own,
which `previous_response_id` continues from its last response on; the agent remembers what it did in it.

| the turn ends | whole | as a stream |
|---|---|---|
| answered | 200, `completed` | `response.completed` |
| not answered, with some text | 200, `failed`, and the text | `response.failed`, after the text |
| not answered, without text | an error, as for chat completions | `response.failed` |

A client that goes away in the middle ends the turn that was begun for it alone, as for chat completions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from ...config.schema import GatewayConfig
from ...gateway.operations.conversation_entry import (
    ConversationInput,
    Conversations,
    RequestTarget,
    session_name,
)
from ...gateway.operations.run_follower import RunFollower
from ...gateway.operations.run_state import Runs, RunState
from ...journal.record import Record
from ...state.db.engine import Db
from ...state.tables import inbox, turns
from ..http.event_stream import Write, frame
from ..http.http_errors import NotThere, Refusal, json_response, openai_error, read_body
from ..nodes.forwarding import SessionElsewhere
from .answer import SESSION, Answer, Callers, ignore, responding
from .chat_messages import LONGEST_WITH_PICTURES, target_of
from .completions import model_names
from .parameters import asked_for
from .response_request import NewResponse, input_of

PREFIX = "resp_"
STATUS = {
    "queued": "queued",
    "completed": "completed",
    "failed": "failed",
    "interrupted": "failed",
    "cancelled": "cancelled",
}
"""The status of a response by that of its run; every other run is in progress."""


@dataclass(frozen=True, slots=True)
class ResponseRoutes:
    """The handlers of responses."""

    config: GatewayConfig
    runs: Runs
    conversations: Conversations
    callers: Callers
    elsewhere: SessionElsewhere

    async def create(self, request: Request) -> ASGIApp:
        """`POST /v1/responses`: a response, whole or as a stream. `previous_response_id` continues the
        conversation of that response. The same request with the same `Idempotency-Key` gets the same
        response."""
        body = await read_body(request, LONGEST_WITH_PICTURES)
        asked = asked_for(body, NewResponse)
        content, target = await self._entered(request, asked, body)
        if (elsewhere := await self.elsewhere(request, session_name(content, target), body)) is not None:
            return elsewhere
        model, previous = model_names(self.config)[-1], asked.previous_response_id
        return responding(
            self.callers,
            partial(self.conversations.enter, content, target),
            lambda answer: MadeResponse(answer, model, previous),
            is_stream=bool(asked.stream),
            comes_again=target.key is not None,
        )

    async def one(self, request: Request) -> Response:
        """`GET /v1/responses/{id}`: a response as it is now."""
        return json_response(self._known(await self._state(request)))

    async def cancel(self, request: Request) -> Response:
        """`POST /v1/responses/{id}/cancel`: stop the run of a response."""
        state = await self._state(request)
        if not state.is_over:
            await self.runs.stop(state.run_id)
            state = replace(state, status="cancelled")
        return json_response(self._known(state))

    async def _entered(
        self, request: Request, asked: NewResponse, body: bytes
    ) -> tuple[ConversationInput, RequestTarget]:
        """Return the content of a request, and its session. Raises `Refusal`."""
        content, named = input_of(asked), request.headers.get(SESSION)
        if asked.previous_response_id is not None:
            key = request.headers.get("idempotency-key")
            named = await self._session_after(asked.previous_response_id, key)
        target = target_of(request, body, named)
        if named is not None:
            content = replace(content, history=None, earlier_files=())
        elif target.key is None and asked.store is not False and not content.history:
            target = RequestTarget(self.runs.world.new_id(), None, "")  # a conversation of its own begins
        return content, target

    async def _session_after(self, response_id: str, key: str | None) -> str:
        """Return the session that goes on after a response, or went on with the request that has this
        idempotency key. Raises `Refusal`."""
        run_id = response_id.removeprefix(PREFIX)
        state = await self.runs.state(run_id) if response_id.startswith(PREFIX) else None
        if state is None or state.session_id is None:
            message = "There is no such previous response."
            remedy = "Send the whole conversation as the input."
            raise Refusal(400, "previous_response_not_found", message, remedy, param="previous_response_id")
        last = await self.runs.database.read(_last, state.session_id)
        if last is not None and not last.allows(key, run_id, state.resumed_as):
            message = "The conversation has gone on since that response, and cannot branch off."
            remedy = "Name its last response, or send the whole conversation as the input."
            refused = "previous_response_not_last"
            raise Refusal(409, refused, message, remedy, param="previous_response_id")
        return state.session_id

    async def _state(self, request: Request) -> RunState:
        state = await self.runs.state(request.path_params["run_id"])
        if state is None:
            raise NotThere("response", "A response is deleted with its session.")
        return state

    def _known(self, state: RunState) -> dict[str, Any]:
        """Return a response whose text is stored, or not there yet."""
        status = STATUS.get(state.status, "in_progress")
        error = {"code": "server_error", "message": state.error} if state.error else None
        at = int(state.turn.started_at) if state.turn is not None else 0
        output = [_message(state.run_id, status, state.answer)] if state.answer else []
        return _response(state.run_id, at, model_names(self.config)[-1], status, output, error=error)


@dataclass(slots=True)
class MadeResponse:
    """An answer in the form of a response, whole or as events."""

    answer: Answer
    model: str
    previous: str | None
    _number: int = field(default=0, init=False)
    """The number of the next event."""

    def response(self) -> Response:
        """Return the whole response."""
        is_answered = self.answer.is_answered
        error = None if is_answered else {"code": "server_error", "message": "The turn has broken off."}
        whole = self._whole("completed" if is_answered else "failed", error)
        return json_response(whole, headers={SESSION: self.answer.entered.session})

    async def stream(self, callers: Callers, write: Write) -> bytes:
        """Write the events of the response, and return the last ones."""
        answer = self.answer

        async def tell(record: Record) -> None:
            if text := answer.add(record):
                await write(self._delta(text))

        async def silence() -> None:
            await write(b": heartbeat\n\n")

        async with callers.waiting(answer):
            await write(b"".join(self._opening()))
            await answer.follow(RunFollower(tell, ignore, silence))
        error = None if answer.is_answered else openai_error(await answer.refusal())
        return b"".join(self._closing(error))

    def _opening(self) -> Iterator[bytes]:
        """Yield the events before the text."""
        begun = self._whole("in_progress")
        yield self._event("response.created", response=begun)
        yield self._event("response.in_progress", response=begun)
        item = {**_message(self.answer.run_id, "in_progress", ""), "content": []}
        yield self._event("response.output_item.added", output_index=0, item=item)
        yield self._event("response.content_part.added", **self._place, part=_part(""))

    def _delta(self, text: str) -> bytes:
        """Return the event for some more text."""
        return self._event("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def _closing(self, error: dict[str, Any] | None) -> Iterator[bytes]:
        """Yield the events after the text."""
        text, status = self.answer.text, "completed" if error is None else "incomplete"
        yield self._event("response.output_text.done", **self._place, text=text, logprobs=[])
        yield self._event("response.content_part.done", **self._place, part=_part(text))
        item = _message(self.answer.run_id, status, text)
        yield self._event("response.output_item.done", output_index=0, item=item)
        if error is None:
            yield self._event("response.completed", response=self._whole("completed"))
        else:
            failed = {"code": error["code"], "message": error["message"]}
            yield self._event("response.failed", response=self._whole("failed", failed))

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": f"msg_{self.answer.run_id}", "output_index": 0, "content_index": 0}

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        data = {"type": kind, "sequence_number": self._number - 1, **fields}
        return f"event: {kind}\n".encode() + frame(data)

    def _whole(self, status: str, error: dict[str, Any] | None = None) -> dict[str, Any]:
        answer = self.answer
        usage = None
        if status == "completed":
            sent, received = answer.tokens
            usage = {
                "input_tokens": sent,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": received,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": sent + received,
            }
        is_whole = "completed" if status == "completed" else "incomplete"
        output = [_message(answer.run_id, is_whole, answer.text)] if answer.text else []
        more = {"usage": usage, "previous_response_id": self.previous}
        return _response(answer.run_id, answer.made_at, self.model, status, output, error=error, **more)


@dataclass(frozen=True, slots=True)
class _LastRun:
    run_id: str
    key: str | None
    """The idempotency key of its message."""

    def allows(self, key: str | None, *run_ids: str | None) -> bool:
        """Return True if the request with this key has begun it, or it is one of these runs."""
        return self.run_id in run_ids or (key is not None and key == self.key)


def _last(db: Db, session_id: str) -> _LastRun | None:
    """Return the last run of a session."""
    turn = turns.last_of(db, session_id)
    if turn is None:
        return None
    message = inbox.by_run(db, turn.run_id)
    return _LastRun(turn.run_id, message.event.idempotency_key if message else None)


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(run_id: str, status: str, text: str) -> dict[str, Any]:
    head = {"id": f"msg_{run_id}", "type": "message", "status": status, "role": "assistant"}
    return {**head, "content": [_part(text)]}


def _response(
    run_id: str, at: int, model: str, status: str, output: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """Return a response with the fields that clients expect to be there."""
    return {
        "id": PREFIX + run_id,
        "object": "response",
        "created_at": at,
        "status": status,
        "model": model,
        "output": output,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "temperature": None,
        "top_p": None,
        "usage": None,
        "previous_response_id": None,
        **more,
    }
