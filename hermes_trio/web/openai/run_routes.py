"""The runs API: beginning a run, its state, its events, stopping it, and answering its approvals.

A run that is begun here is a turn of a session, like any other. A client that follows it only watches, and
may leave and come back. The events have the form that clients of hermes-agent know, each with a cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import msgspec
import trio
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...base.errors import JournalError
from ...gateway.operations.conversation_entry import (
    ConversationInput,
    Conversations,
    RequestTarget,
    session_name,
)
from ...gateway.operations.gateway_actions import AnswerQuestion
from ...gateway.operations.run_follower import RunFollower, fields_of, follow
from ...gateway.operations.run_state import Runs, RunState
from ...gateway.turn.open_question import OpenQuestion
from ...journal.record import Record
from ...journal.replay import parse_cursor
from ...state.tables import approvals
from ..http.event_stream import EventStream, Write, frame
from ..http.http_errors import NotThere, Refusal, json_response, parsed, read_body, read_json
from ..nodes.forwarding import SessionElsewhere
from .chat_messages import (
    LONGEST_WITH_PICTURES,
    MOST_MESSAGES,
    ChatMessage,
    ChatMessages,
    conversation_of,
    target_of,
)

DONE = b"data: [DONE]\n\n"
STOP_WITHIN = 2.0
ANSWERED_BY = "the API"


class NewRun(msgspec.Struct, frozen=True):
    """The body that begins a run. `conversation_history` replaces the stored conversation. `model`,
    `provider` and `reasoning_effort` are accepted, but the gateway's own settings apply."""

    input: str | ChatMessages
    session_id: str | None = None
    instructions: str | None = None
    conversation_history: Annotated[tuple[ChatMessage, ...], Meta(max_length=MOST_MESSAGES)] | None = None
    model: str | None = None
    provider: str | None = None
    reasoning_effort: str | None = None


class ApprovalChoice(msgspec.Struct, frozen=True):
    """The body that grants or denies an approval of a run. `approval_id` names the approval; without it the
    oldest open one is meant."""

    choice: Literal["once", "session", "always", "deny"]
    approval_id: Annotated[str, Meta(max_length=256)] | None = None


@dataclass(frozen=True, slots=True)
class RunRoutes:
    """The handlers of runs."""

    runs: Runs
    conversations: Conversations
    answer_question: AnswerQuestion
    elsewhere: SessionElsewhere

    async def capabilities(self, request: Request) -> Response:
        """`GET /v1/capabilities`: the features that a client may rely on."""
        features = dict.fromkeys(
            (
                "approval_events",
                "approval_identity_v1",  # the ids in `approval.request` are unique: each names one request
                "run_approval_response",
                "run_stop",
                "event_replay",
                "chat_completions",
                "runs",
            ),
            True,
        )
        return json_response({"object": "hermes.api_server.capabilities", "features": features})

    async def begin(self, request: Request) -> ASGIApp:
        """`POST /v1/runs` `{input, session_id}`: 202, with the name of a run. The same request with the same
        `Idempotency-Key` returns the same run."""
        body = await read_body(request, LONGEST_WITH_PICTURES)
        asked = parsed(body, NewRun)
        target = target_of(request, body, asked.session_id)
        if target.session_id is None and target.key is None:
            target = RequestTarget(self.runs.world.new_id(), None, "")
        content = _input_of(asked)
        if (elsewhere := await self.elsewhere(request, session_name(content, target), body)) is not None:
            return elsewhere
        entered = await self.conversations.enter(content, target)
        run_id, status = entered.posted.run_id, entered.posted.status
        answer = {"run_id": run_id, "session_id": entered.session, "status": status, "object": "run"}
        return json_response(answer, 202, {"Location": f"/v1/runs/{run_id}"})

    async def one(self, request: Request) -> Response:
        """`GET /v1/runs/{id}`: the state of a run. `resumed_as` is the run that resumed a cut one."""
        state = await self._state(request)
        usage = None
        if state.status == "completed" and state.session_id is not None:
            try:
                last = (await self.runs.journals.read(state.session_id, state.run_id)).terminal
            except JournalError:  # a request for the events reports it
                last = None
            usage = fields_of(last).get("usage") if last is not None else None
        return json_response(
            {
                "object": "run",
                "run_id": state.run_id,
                "session_id": state.session_id,
                "status": state.status,
                "output": state.answer,
                "error": state.error,
                "usage": usage,
                "resumed_as": state.resumed_as,
            }
        )

    async def events(self, request: Request) -> EventStream:
        """`GET /v1/runs/{id}/events?cursor=`: the events of a run, past and live, from its first one or from
        the one after the cursor, which `Last-Event-ID` may hold too."""
        state = await self._state(request)
        cursor = parse_cursor(request.headers.get("last-event-id") or request.query_params.get("cursor", ""))
        after = cursor.seq if cursor is not None and cursor.run_id == state.run_id else 0

        async def writer(write: Write) -> bytes:
            async def tell(record: Record) -> None:
                await write(_frame(record))

            async def gap() -> None:
                await write(frame({"event": "gap", "run_id": state.run_id}))

            async def silence() -> None:
                await write(b": heartbeat\n\n")

            await write(b": connected\n\n")
            has_end = await follow(self.runs, state.run_id, RunFollower(tell, gap, silence, after))
            return DONE if has_end else b""

        return EventStream(writer)

    async def stop(self, request: Request) -> ASGIApp:
        """`POST /v1/runs/{id}/stop`: stop a run that is not over. The answer is sent when the stop is stored,
        and before the run's last event."""
        state = await self._state(request)
        answer = {"run_id": state.run_id, "status": state.status if state.is_over else "stopping"}

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            stopped: RunState | None = None
            try:
                # The run is stopped even if the client has gone.
                with trio.move_on_after(STOP_WITHIN, shield=True):
                    stopped = await self.runs.note_stop(state.run_id)
                await json_response(answer)(scope, receive, send)
            finally:
                with trio.move_on_after(STOP_WITHIN, shield=True):
                    if stopped is not None:
                        await self.runs.end_stopped(stopped)

        return respond

    async def approve(self, request: Request) -> Response:
        """`POST /v1/runs/{id}/approval` `{choice, approval_id}`: grant or deny an approval of a run."""
        state = await self._state(request)
        chosen = await read_json(request, ApprovalChoice)
        requests = state.task.questions if state.task is not None else ()
        waiting = [one for one in requests if one.kind == "approval" and one.answer is None]
        asked = await self._open_approval(waiting, chosen.approval_id)
        if asked is None or not await self.answer_question(asked, chosen.choice, by=ANSWERED_BY):
            open_ids = ", ".join(one.id for one in waiting)
            remedy = f"Name one of these: {open_ids}." if open_ids else "Follow the events of the run."
            message = "This id names no open approval of this run."
            raise Refusal(409, "approval_not_pending", message, remedy)
        answer = {"run_id": state.run_id, "approval_id": asked.id, "choice": chosen.choice, "resolved": 1}
        return json_response({"object": "run.approval_response", **answer})

    async def _open_approval(self, waiting: Sequence[OpenQuestion], named: str | None) -> OpenQuestion | None:
        """Return the open approval that a client means.

        Clients of hermes-agent send no id, or one that they made themselves, because its ids named nothing.
        No id means the oldest approval, as it does there. A foreign id means the only open approval; if
        several are open it means none, because it could approve another command than the person saw. An id
        of ours means its own approval, and never another one: if that is not open, the answer is too late.
        """
        if not named:
            return waiting[0] if waiting else None
        known = next((one for one in waiting if one.id == named), None)
        if known is not None or len(waiting) != 1:
            return known
        ours = await self.runs.database.read(approvals.get, named)
        return waiting[0] if ours is None else None

    async def _state(self, request: Request) -> RunState:
        state = await self.runs.state(request.path_params["run_id"])
        if state is None:
            remedy = "Use the run_id of the answer that began it. A run is deleted with its session."
            raise NotThere("run", remedy)
        return state


def _input_of(asked: NewRun) -> ConversationInput:
    messages = (ChatMessage("user", asked.input),) if isinstance(asked.input, str) else asked.input
    content, before = conversation_of(messages, asked.conversation_history), asked.conversation_history
    # A message alone continues the stored conversation; an empty history starts a new one.
    history = content.history if before is not None or content.history else None
    earlier_files = content.earlier_files if history is not None else ()
    instructions = asked.instructions or content.instructions
    return replace(content, history=history, instructions=instructions, earlier_files=earlier_files)


def _frame(record: Record) -> bytes:
    fields = {**fields_of(record), "event": record.event, "run_id": record.run_id, "seq": record.seq}
    return frame({**fields, "timestamp": record.created_at}, record.event_id)
