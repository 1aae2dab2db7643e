"""Runs by name: begun, looked at, followed, stopped and allowed.

A run that is begun here is a turn of a session, like any other; whoever follows it is a watcher, and may go
and come again. What happens in it is told as clients of the original know it, each event with a cursor.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import trio
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...base.errors import JournalError
from ...base.events import RunCancelled
from ...gateway.turn import questions
from ...gateway.turn.open_question import OpenQuestion
from ...journal.record import Record
from ...journal.replay import parse_cursor
from ...journal.writer import append_run_event
from ...state.tables import approvals, inbox, turns
from ...state.tables.turns import Outcome
from ..http.http_errors import NotThere, Refusal, answer, parsed, read_body, read_json
from ..openai.openai_sessions import (
    MOST_MESSAGES,
    ChatMessage,
    ChatMessages,
    Place,
    Said,
    enter,
    place_of,
    said_in,
)
from .event_stream import EventStream, Write, frame
from .run_follower import Follower, Standing, fields_of, follow, standing

if TYPE_CHECKING:
    from ...gateway.facade import Gateway
    from ..app import Web

DONE = b"data: [DONE]\n\n"
STOP_WITHIN = 2.0
ANSWERED_BY = "the API"


class NewRun(msgspec.Struct, frozen=True):
    """The body that begins a run. `conversation_history` stands in place of the stored conversation; `model`,
    `provider` and `reasoning_effort` are taken, and the gateway's own count."""

    input: str | ChatMessages
    session_id: str | None = None
    instructions: str | None = None
    conversation_history: Annotated[tuple[ChatMessage, ...], Meta(max_length=MOST_MESSAGES)] | None = None
    model: str | None = None
    provider: str | None = None
    reasoning_effort: str | None = None


class Choice(msgspec.Struct, frozen=True):
    """The body that allows what a run asks for, or refuses it. `_open_request` tells which one."""

    choice: Literal["once", "session", "always", "deny"]
    approval_id: Annotated[str, Meta(max_length=256)] | None = None


async def capabilities(web: Web, request: Request) -> Response:
    """`GET /v1/capabilities`: what a client may count on."""
    features = dict.fromkeys(
        (
            "approval_events",
            "approval_identity_v1",  # the ids in `approval.request` are ours, and answer one request each
            "run_approval_response",
            "run_stop",
            "event_replay",
            "chat_completions",
            "runs",
        ),
        True,
    )
    return answer({"object": "hermes.api_server.capabilities", "features": features})


async def begin(web: Web, request: Request) -> Response:
    """`POST /v1/runs` `{input, session_id}`: 202, and the name of a run. An `Idempotency-Key` makes the same
    request, sent again, the same run."""
    body = await read_body(request)
    asked = parsed(body, NewRun)
    place = place_of(request, body, asked.session_id)
    if place.session_id is None and place.key is None:
        place = Place(web.gateway.home.world.new_id(), None, "")
    entered = await enter(web, _said(asked), place)
    run_id = entered.posted.run_id
    told = {"run_id": run_id, "session_id": entered.session, "status": entered.posted.status, "object": "run"}
    return answer(told, 202, {"Location": f"/v1/runs/{run_id}"})


def _said(asked: NewRun) -> Said:
    messages = (ChatMessage("user", asked.input),) if isinstance(asked.input, str) else asked.input
    said, before = said_in(messages, asked.conversation_history), asked.conversation_history
    # A message alone does not say that there was nothing before it; an empty history does.
    history = said.history if before is not None or said.history else None
    return Said(said.text, history, asked.instructions or said.instructions)


async def one(web: Web, request: Request) -> Response:
    """`GET /v1/runs/{id}`: how it stands; `resumed_as` is the run in which a cut one goes on."""
    stands = await _standing(web.gateway, request)
    usage = None
    if stands.status == "completed" and stands.session_id is not None:
        try:
            last = (await web.gateway.home.journals.read(stands.session_id, stands.run_id)).terminal
        except JournalError:  # it is reported where it is read for its own sake
            last = None
        usage = fields_of(last).get("usage") if last is not None else None
    return answer(
        {
            "object": "run",
            "run_id": stands.run_id,
            "session_id": stands.session_id,
            "status": stands.status,
            "output": stands.answer,
            "error": stands.error,
            "usage": usage,
            "resumed_as": stands.resumed_as,
        }
    )


async def events(web: Web, request: Request) -> EventStream:
    """`GET /v1/runs/{id}/events?cursor=`: what happened in it and what happens, from its first event or from
    behind the cursor, which `Last-Event-ID` may hold too."""
    gateway, stands = web.gateway, await _standing(web.gateway, request)
    cursor = parse_cursor(request.headers.get("last-event-id") or request.query_params.get("cursor", ""))
    after = cursor.seq if cursor is not None and cursor.run_id == stands.run_id else 0

    async def writer(write: Write) -> None:
        async def tell(record: Record) -> None:
            await write(_frame(record))

        async def gap() -> None:
            await write(frame({"event": "gap", "run_id": stands.run_id}))

        async def silence() -> None:
            await write(b": heartbeat\n\n")

        await write(b": connected\n\n")
        if await follow(gateway, stands.run_id, Follower(tell, gap, silence, after)):
            await write(DONE)

    return EventStream(writer)


async def stop(web: Web, request: Request) -> ASGIApp:
    """`POST /v1/runs/{id}/stop`: end it, if it is not over. The answer comes before its last event."""
    stands = await _standing(web.gateway, request)
    told = {"run_id": stands.run_id, "status": stands.status if stands.is_over else "stopping"}

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await answer(told)(scope, receive, send)
        finally:
            # Whoever asked for it may be gone: it is done all the same.
            with trio.move_on_after(STOP_WITHIN, shield=True):
                await stop_run(web.gateway, stands.run_id)

    return respond


async def approve(web: Web, request: Request) -> Response:
    """`POST /v1/runs/{id}/approval` `{choice, approval_id}`: say yes or no to what it asks for."""
    gateway, stands = web.gateway, await _standing(web.gateway, request)
    chosen = await read_json(request, Choice)
    requests = stands.task.questions if stands.task is not None else ()
    waiting = [one for one in requests if one.kind == "approval" and one.answer is None]
    asked = await _open_request(gateway, waiting, chosen.approval_id)
    if asked is None or not await questions.give_answer(gateway.home, asked, chosen.choice, by=ANSWERED_BY):
        open_ids = ", ".join(one.id for one in waiting)
        remedy = f"Name one of these: {open_ids}." if open_ids else "Follow the events of the run."
        message = "No open approval of this run is meant by that id."
        raise Refusal(409, "approval_not_pending", message, remedy)
    told = {"run_id": stands.run_id, "approval_id": asked.id, "choice": chosen.choice, "resolved": 1}
    return answer({"object": "run.approval_response", **told})


async def _open_request(
    gateway: Gateway, waiting: Sequence[OpenQuestion], named: str | None
) -> OpenQuestion | None:
    """The open approval that a client means.

    Clients of the original send no id, or one that they made themselves, because its ids were not real:
    no id means the oldest request, as it did there. A foreign id means the only open request; where
    several are open it could be the yes to another command than the person saw, and means none. An id of
    ours never means another request: its own is open, or this answer comes too late.
    """
    if not named:
        return waiting[0] if waiting else None
    known = next((one for one in waiting if one.id == named), None)
    if known is not None or len(waiting) != 1:
        return known
    ours = await gateway.home.database.read(approvals.get, named)
    return waiting[0] if ours is None else None


async def stop_run(gateway: Gateway, run_id: str) -> None:
    """End a run, or let it never begin."""
    stands = await standing(gateway, run_id)
    if stands is None:
        return
    if stands.task is not None and stands.session_id is not None:
        try:
            await gateway.home.database.write(turns.stop, stands.session_id, gateway.home.world.time())
        finally:
            stands.task.end(Outcome.STOPPED)
    elif stands.session_id is not None and await drop(gateway, stands):
        # It has never begun, so nobody else tells its end. Who is not told now finds out for themselves.
        with suppress(JournalError):
            await append_run_event(gateway.home.journals, stands.session_id, run_id, RunCancelled.event)


async def drop(gateway: Gateway, stands: Standing) -> bool:
    """Let the message of a run wait no more. False if it does not wait."""
    if stands.message is None:
        return False
    return await gateway.home.database.write(inbox.drop, stands.message.inbox_id, gateway.home.world.time())


def _frame(record: Record) -> bytes:
    said = {**fields_of(record), "event": record.event, "run_id": record.run_id, "seq": record.seq}
    return frame({**said, "timestamp": record.created_at}, record.event_id)


async def _standing(gateway: Gateway, request: Request) -> Standing:
    stands = await standing(gateway, request.path_params["run_id"])
    if stands is None:
        raise NotThere("run", "It has the name that was told when it began, and goes with its session.")
    return stands
