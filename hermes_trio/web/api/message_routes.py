"""What is said in a session: its messages, a new one, a stop, and the answer to what its turn asks.

A message to a session that lives in a chat goes the way of a message in that chat, and so does the answer;
here both are seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ...base.messages import Attachment, AttachmentKind, MessageEvent
from ...gateway.commands.stop import stop_session
from ...gateway.intake.requests import NoTurnsNow, TooManyWait, post
from ...gateway.turn import questions
from ...state.tables import sessions
from ...state.tables.transcript import TranscriptRow
from ...state.tables.turns import TurnRow
from ..http.http_errors import RETRY_AFTER, Draining, NotThere, Refusal, answer, read_json
from .api_platform import NAME
from .session_routes import NO_SESSION, entry_of, id_of, made, number, reached, title_of

if TYPE_CHECKING:
    from ..app import Web


class Attached(msgspec.Struct, frozen=True):
    """A file that comes along."""

    kind: AttachmentKind
    url: Annotated[str, Meta(pattern="^https?://", max_length=4096)]
    name: str | None = None
    mime_type: str | None = None


class NewMessage(msgspec.Struct, frozen=True):
    """The body that says something. While a turn runs it waits for its own, or, with `steer`, is taken along
    by that one."""

    text: str = ""
    mode: Literal["queue", "steer"] = "queue"
    attachments: Annotated[tuple[Attached, ...], Meta(max_length=20)] = ()
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


class Answer(msgspec.Struct, frozen=True):
    """The body that answers what a turn asks."""

    id: str
    answer: Annotated[str, Meta(min_length=1, max_length=10_000)]


async def every(web: Web, request: Request) -> Response:
    """`GET /api/sessions/{id}/messages?after=&limit=`: in order, with what recovery found of cut turns.
    `next` is the `after` of the next page; None if there is none. `turns` says how the turns ended that they
    are of, and which ones go on."""
    session = await web.gateway.home.reader.get_session(id_of(request))
    if session is None:
        raise NotThere(*NO_SESSION)
    limit, after = number(request, "limit", 200), request.query_params.get("after")
    rows = [(_name(row), row) for row in session.messages]
    start = 0
    if after is not None:
        start = next((place for place, (name, _) in enumerate(rows, 1) if name == after), 0)
        if not start:
            message = "There is no such message in this session, or not any more."
            raise Refusal(400, "bad_cursor", message, "Read the messages from the beginning.")
    page = rows[start : start + limit]
    more = start + limit < len(rows)
    of_page = {row.turn_id for _, row in page}
    return answer(
        {
            "messages": [_shown(name, row) for name, row in page],
            "next": page[-1][0] if more else None,
            "turns": [
                _turn(turn) for turn in session.turns if turn.turn_id in of_page or turn.outcome is None
            ],
        }
    )


async def say(web: Web, request: Request) -> Response:
    """`POST /api/sessions/{id}/messages` `{text, attachments, mode, idempotency_key}`: 202, and what becomes
    of it."""
    gateway, body = web.gateway, await read_json(request, NewMessage)
    if not body.text.strip() and not body.attachments:
        raise Refusal(400, "no_text", "The message says nothing.", "Send a text, or attachments.")
    session_id = id_of(request)
    entry = await gateway.home.database.read(sessions.by_id, session_id)
    if entry is None:
        if not gateway.control.takes_turns:
            raise Draining
        entry, _ = await made(gateway, session_id, title_of(body.text))
    event = MessageEvent(
        reached(gateway, entry),
        body.text,
        attachments=tuple(
            Attachment(one.kind, name=one.name, mime_type=one.mime_type, url=one.url)
            for one in body.attachments
        ),
        idempotency_key=body.idempotency_key,
    )
    try:
        posted = await post(gateway.mailbox, entry.session_key, event, mode=body.mode)
    except NoTurnsNow:
        raise Draining from None
    except TooManyWait as error:
        wait = {"Retry-After": str(RETRY_AFTER)}
        raise Refusal(429, "too_many_waiting", str(error), "Wait until one is answered.", wait) from None
    web.changes.note(entry.session_id)
    told = {"message_id": str(posted.inbox_id), "run_id": posted.run_id, "status": posted.status}
    return answer(told, 202)


async def stop_turn(web: Web, request: Request) -> Response:
    """`POST /api/sessions/{id}/stop`: end what runs there, and drop what waits."""
    entry = await entry_of(web.gateway, request)
    stopped, dropped = False, 0
    if entry.ended_at is None:
        stopped, dropped = await stop_session(web.gateway.home, web.gateway.work.running, entry.session_key)
        web.changes.note(entry.session_id)
    return answer({"stopped": stopped, "dropped": dropped})


async def answer_request(web: Web, request: Request) -> Response:
    """`POST /api/sessions/{id}/answers` `{id, answer}`: the answer to an approval or a question. 409 if
    nobody waits for it any more."""
    gateway, entry = web.gateway, await entry_of(web.gateway, request)
    body = await read_json(request, Answer)
    waiting = gateway.work.running.open_questions(entry.session_key) if entry.ended_at is None else []
    asked = next((one for one in waiting if one.id == body.id), None)
    meant = asked.meant(body.answer) if asked is not None else None
    if asked is not None and meant is None:
        message = "This is no answer to that." if asked.kind == "question" else "This is neither yes nor no."
        raise Refusal(400, "no_answer", message, "Answer once, session, always or deny.")
    if asked is None or meant is None or not await questions.give_answer(gateway.home, asked, meant, by=NAME):
        message = "Nobody waits for this answer any more."
        raise Refusal(409, "asked_no_more", message, "Read the session to see what it asks now.")
    web.changes.note(entry.session_id)
    return answer({"id": asked.id, "answer": meant})


def _name(row: TranscriptRow) -> str:
    """What a message is called. A marker is not stored, and each turn has one at most."""
    return str(row.id) if row.id is not None else f"marker-{row.turn_id}"


def _turn(turn: TurnRow) -> dict[str, Any]:
    """How a turn ended, if it has."""
    return {
        "run_id": turn.run_id,
        "started_at": turn.started_at,
        "ended_at": turn.ended_at,
        "outcome": turn.outcome,
        "reason": turn.reason,
        "resumes": turn.resumes is not None,
    }


def _shown(name: str, row: TranscriptRow) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": name,
        "role": row.role,
        "content": row.content,
        "run_id": row.run_id,
        "created_at": row.created_at,
        "place": row.place,
        "marker": row.marker,
        "type": row.type,
    }
    more: dict[Literal["tool_calls", "tool_call_id", "tool_name", "status", "cards", "reasoning"], Any] = {
        "tool_calls": row.tool_calls,
        "tool_call_id": row.tool_call_id,
        "tool_name": row.tool_name,
        "status": row.status,
        "cards": row.cards,
        "reasoning": row.reasoning,
    }
    return {**shown, **{key: msgspec.to_builtins(value) for key, value in more.items() if value}}
