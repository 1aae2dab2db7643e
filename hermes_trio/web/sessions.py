"""The sessions API: conversations of all platforms, and what is said in them.

A session that is made here lives on the platform `api`, and its id is its chat. A message to a session that
lives in a chat goes the way of a message in that chat, and so does the answer; here both are seen.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import trio
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ..gateway.posting import NoTurnsNow, TooManyWait, post
from ..gateway.letting_go import let_go, stop
from ..ids import path_safe_id
from ..messages import Attachment, AttachmentKind, MessageEvent
from ..state import inbox, sessions, settle
from ..state.entry import SessionEntry
from ..state.store import key_of
from ..state.transcript import Message
from ..state.turns import Outcome
from .errors import RETRY_AFTER, Draining, NotThere, Refusal, answer, read_json
from .platform import NAME, source_of

if TYPE_CHECKING:
    from ..gateway.gateway import Gateway
    from .app import Web

MOST_AT_ONCE = 1000

Title = Annotated[str, Meta(max_length=200)]


class NewSession(msgspec.Struct, frozen=True):
    """The body that makes a session."""

    id: str | None = None
    title: Title | None = None


class Change(msgspec.Struct, frozen=True):
    """The body that changes one."""

    title: Title


class Attached(msgspec.Struct, frozen=True):
    """A file that comes along."""

    kind: AttachmentKind
    url: Annotated[str, Meta(pattern="^https?://", max_length=4096)]
    name: str | None = None
    mime_type: str | None = None


class NewMessage(msgspec.Struct, frozen=True):
    """The body that says something."""

    text: str = ""
    attachments: Annotated[tuple[Attached, ...], Meta(max_length=20)] = ()
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


# --- the sessions ------------------------------------------------------------------------------------


async def every(web: Web, request: Request) -> Response:
    """`GET /api/sessions?limit=&offset=`: the most recently used first."""
    limit, offset = _number(request, "limit", 50), _number(request, "offset", 0, least=0)
    found = await web.gateway.database.read(sessions.newest, limit=limit + 1, offset=offset)
    shown = [view(web.gateway, entry) for entry in found[:limit]]
    return answer({"sessions": shown, "next": offset + limit if len(found) > limit else None})


async def make(web: Web, request: Request) -> Response:
    """`POST /api/sessions` `{id, title}`: a session of the API; the one there is, if the id is known."""
    body = await read_json(request, NewSession)
    session_id = path_safe_id(body.id) if body.id is not None else web.gateway.world.new_id()
    entry, is_new = await _made(web.gateway, session_id, body.title)
    return answer(view(web.gateway, entry), 201 if is_new else 200)


async def one(web: Web, request: Request) -> Response:
    """`GET /api/sessions/{id}`"""
    return answer(view(web.gateway, await _entry(web.gateway, request)))


async def change(web: Web, request: Request) -> Response:
    """`PATCH /api/sessions/{id}` `{title}`: moves it in no list."""
    entry, body = await _entry(web.gateway, request), await read_json(request, Change)
    await web.gateway.database.write(sessions.rename, entry.session_id, body.title)
    return answer(view(web.gateway, replace(entry, display_name=body.title)))


async def delete(web: Web, request: Request) -> Response:
    """`DELETE /api/sessions/{id}`: with all that is its own. What runs in it is ended first."""
    gateway, entry = web.gateway, await _entry(web.gateway, request)
    await gateway.database.write(_end, entry, gateway.world.time())
    if entry.ended_at is None:
        stop(gateway, entry.session_key, Outcome.RESET)
        over = trio.Event()

        async def job() -> None:
            await trio.lowlevel.checkpoint()
            over.set()

        await gateway.sessions.after_turn(entry.session_key, job)
        await over.wait()
    await gateway.background.ended_of(entry.session_id)
    await gateway.database.write(settle.delete_session, entry.session_id, gateway.world.time())
    await gateway.journals.delete_session(entry.session_id)
    return answer({"id": entry.session_id, "deleted": True})


def view(gateway: Gateway, entry: SessionEntry) -> dict[str, Any]:
    """A session as it is shown."""
    task = gateway.sessions.task(entry.session_key) if entry.ended_at is None else None
    return {
        "id": entry.session_id,
        "key": entry.session_key,
        "title": entry.display_name,
        "platform": entry.platform,
        "chat_type": entry.chat_type,
        "created_at": entry.created_at,
        "updated_at": entry.updated_at,
        "ended_at": entry.ended_at,
        "end_reason": entry.end_reason,
        "state": "running" if task is not None else "idle",
        "run_id": task.run_id or None if task is not None else None,
        "resume_pending": entry.resume_pending,
        "suspended": entry.suspended,
        "usage": {
            "input_tokens": entry.usage.input_tokens,
            "output_tokens": entry.usage.output_tokens,
            "total_tokens": entry.usage.total_tokens,
            "cost_usd": entry.usage.cost_usd,
        },
    }


# --- what is said in them ----------------------------------------------------------------------------


async def messages(web: Web, request: Request) -> Response:
    """`GET /api/sessions/{id}/messages?after=&limit=`: in order, with what recovery found of cut turns.
    `next` is the `after` of the next page; None if there is none."""
    session = await web.gateway.reader.get_session(_id(request))
    if session is None:
        raise NotThere("session")
    limit, after = _number(request, "limit", 200), request.query_params.get("after")
    rows = [(_name(row), row) for row in session.messages]
    start = 0
    if after is not None:
        start = next((place for place, (name, _) in enumerate(rows, 1) if name == after), 0)
        if not start:
            message = "There is no such message in this session, or not any more."
            raise Refusal(400, "bad_cursor", message, "Read the messages from the beginning.")
    page = rows[start : start + limit]
    more = start + limit < len(rows)
    return answer(
        {"messages": [_shown(name, row) for name, row in page], "next": page[-1][0] if more else None}
    )


async def say(web: Web, request: Request) -> Response:
    """`POST /api/sessions/{id}/messages` `{text, attachments, idempotency_key}`: 202, and what becomes of
    it."""
    gateway, body = web.gateway, await read_json(request, NewMessage)
    if not body.text.strip() and not body.attachments:
        raise Refusal(400, "no_text", "The message says nothing.", "Send a text, or attachments.")
    session_id = _id(request)
    entry = await gateway.database.read(sessions.by_id, session_id)
    if entry is None:
        if not gateway.sessions.open:
            raise Draining
        entry, _ = await _made(gateway, session_id, None)
    origin = entry.origin
    if origin is None or (origin.platform, origin.account) not in gateway.connections:
        message = "The chat of this session is on a platform that is not connected."
        raise Refusal(409, "no_way_to_chat", message, "Connect the platform, or begin another session.")
    event = MessageEvent(
        origin,
        body.text,
        attachments=tuple(
            Attachment(one.kind, name=one.name, mime_type=one.mime_type, url=one.url)
            for one in body.attachments
        ),
        idempotency_key=body.idempotency_key,
    )
    try:
        posted = await post(gateway, entry.session_key, event)
    except NoTurnsNow:
        raise Draining from None
    except TooManyWait as error:
        wait = {"Retry-After": str(RETRY_AFTER)}
        raise Refusal(429, "too_many_waiting", str(error), "Wait until one is answered.", wait) from None
    told = {"message_id": str(posted.inbox_id), "run_id": posted.run_id, "status": posted.status}
    return answer(told, 202)


async def stop_turn(web: Web, request: Request) -> Response:
    """`POST /api/sessions/{id}/stop`: end what runs there, and drop what waits."""
    entry = await _entry(web.gateway, request)
    stopped, dropped = False, 0
    if entry.ended_at is None:
        stopped, dropped = await let_go(web.gateway, entry.session_key)
    return answer({"stopped": stopped, "dropped": dropped})


def _name(row: Message) -> str:
    """What a message is called. A marker is not stored, and each turn has one at most."""
    return str(row.id) if row.id is not None else f"marker-{row.turn_id}"


def _shown(name: str, row: Message) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": name,
        "role": row.role,
        "content": row.content,
        "run_id": row.run_id,
        "created_at": row.created_at,
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


# --- finding and making them -------------------------------------------------------------------------


def _id(request: Request) -> str:
    return path_safe_id(request.path_params["session_id"])


async def _entry(gateway: Gateway, request: Request) -> SessionEntry:
    entry = await gateway.database.read(sessions.by_id, _id(request))
    if entry is None:
        raise NotThere("session")
    return entry


async def _made(gateway: Gateway, session_id: str, title: str | None) -> tuple[SessionEntry, bool]:
    """The session of this id, made if there is none; and whether it was made."""
    source, at = source_of(session_id), gateway.world.time()
    entry = SessionEntry(
        session_key=key_of(source, gateway.config),
        session_id=session_id,
        created_at=at,
        updated_at=at,
        origin=source,
        display_name=title,
        platform=NAME,
        chat_type="dm",
    )
    return await gateway.database.write(_make, entry)


def _make(db: sqlite3.Connection, entry: SessionEntry) -> tuple[SessionEntry, bool]:
    # By its id, or as the one that came in its place when it was reset.
    known = sessions.by_id(db, entry.session_id) or sessions.open_by_key(db, entry.session_key)
    if known is None:
        sessions.add(db, entry)
    return known or entry, known is None


def _end(db: sqlite3.Connection, entry: SessionEntry, at: float) -> None:
    """From here on it is used no more, and what waits for it is dropped."""
    if settle.end_session(db, entry.session_id, "deleted", at):
        inbox.drop_pending(db, entry.session_key, at)


def _number(request: Request, name: str, default: int, *, least: int = 1) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or not least <= int(text[:9]) <= MOST_AT_ONCE * 1000:
        raise Refusal(400, "bad_number", f"{name} is no number that makes sense.", f"Leave {name} out.")
    return min(int(text[:9]), MOST_AT_ONCE) if name == "limit" else int(text[:9])
