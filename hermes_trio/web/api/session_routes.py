"""The sessions API: conversations of all platforms. What is said in them is in `messages`.

A session that is made here lives on the platform `api`, and its id is its chat.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import trio
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ...base.events import ApprovalRequest
from ...base.ids import path_safe_id
from ...base.messages import SessionSource
from ...gateway.commands.stop import stop_turn
from ...gateway.outbound.exact_text import on_one_line
from ...state.rules import settle
from ...state.rules.store import key_of
from ...state.tables import approvals, inbox, sessions, transcript
from ...state.tables.inbox import Received
from ...state.tables.session_entry import SessionEntry
from ...state.tables.turns import Outcome
from ..http.http_errors import NotThere, Refusal, answer, read_json
from .api_platform import NAME, source_of

if TYPE_CHECKING:
    from ...gateway.facade import Gateway
    from ...gateway.turn.handle import TurnHandle
    from ..app import Web

NO_SESSION = ("session", "GET /api/sessions has the list.")
MOST_AT_ONCE = 1000
MOST_HITS, LONGEST_HIT = 200, 300
LONGEST_TITLE = 60

Title = Annotated[str, Meta(max_length=200)]


class NewSession(msgspec.Struct, frozen=True):
    """The body that makes a session."""

    id: str | None = None
    title: Title | None = None


class Change(msgspec.Struct, frozen=True):
    """The body that changes one."""

    title: Title


# --- the sessions ------------------------------------------------------------------------------------


async def every(web: Web, request: Request) -> Response:
    """`GET /api/sessions?limit=&offset=`: the most recently used first. With `?q=` those in which somebody
    has said these words, the best first."""
    limit, offset = number(request, "limit", 50), number(request, "offset", 0, least=0)
    if words := request.query_params.get("q"):
        hits = await web.gateway.home.database.read(_said, words[:200])
        return answer({"sessions": [{**view(web.gateway, entry), "said": said} for entry, said in hits]})
    found = await web.gateway.home.database.read(sessions.newest, limit=limit + 1, offset=offset)
    shown = [view(web.gateway, entry) for entry in found[:limit]]
    return answer({"sessions": shown, "next": offset + limit if len(found) > limit else None})


async def make(web: Web, request: Request) -> Response:
    """`POST /api/sessions` `{id, title}`: a session of the API; the one there is, if the id is known."""
    body = await read_json(request, NewSession)
    session_id = path_safe_id(body.id) if body.id is not None else web.gateway.home.world.new_id()
    entry, is_new = await made(web.gateway, session_id, body.title)
    web.changes.note(entry.session_id)
    return answer(view(web.gateway, entry), 201 if is_new else 200)


async def one(web: Web, request: Request) -> Response:
    """`GET /api/sessions/{id}`: with the messages that wait there, and what a person is asked."""
    gateway, entry = web.gateway, await entry_of(web.gateway, request)
    shown, key = view(gateway, entry), entry.session_key
    if entry.ended_at is not None:
        return answer({**shown, "waiting": [], "asks": []})
    task, asked = (
        gateway.work.running.handle(key),
        {one.id: one for one in gateway.work.running.open_questions(key)},
    )
    waiting, requests = await gateway.home.database.read(_open, key, list(asked))
    return answer(
        {
            **shown,
            "waiting": [_waiting(row, task) for row in waiting],
            "asks": [_asked(gateway, one, asked[one.approval_id].choices) for one in requests],
        }
    )


async def change(web: Web, request: Request) -> Response:
    """`PATCH /api/sessions/{id}` `{title}`: moves it in no list."""
    entry, body = await entry_of(web.gateway, request), await read_json(request, Change)
    await web.gateway.home.database.write(sessions.rename, entry.session_id, body.title)
    web.changes.note(entry.session_id)
    return answer(view(web.gateway, replace(entry, display_name=body.title)))


async def delete(web: Web, request: Request) -> Response:
    """`DELETE /api/sessions/{id}`: with all that is its own. What runs in it is ended first."""
    gateway, entry = web.gateway, await entry_of(web.gateway, request)
    await gateway.home.database.write(_end, entry, gateway.home.world.time())
    if entry.ended_at is None:
        stop_turn(gateway.work.running, entry.session_key, Outcome.RESET)
        over = trio.Event()

        async def job() -> None:
            await trio.lowlevel.checkpoint()
            over.set()

        await gateway.work.sessions.after_turn(entry.session_key, job)
        await over.wait()
    await gateway.work.background.ended_of(entry.session_id)
    await gateway.home.database.write(settle.delete_session, entry.session_id, gateway.home.world.time())
    await gateway.home.journals.delete_session(entry.session_id)
    web.changes.note(entry.session_id, deleted=True)
    return answer({"id": entry.session_id, "deleted": True})


def view(gateway: Gateway, entry: SessionEntry) -> dict[str, Any]:
    """A session as it is shown."""
    key = entry.session_key
    task = gateway.work.running.handle(key) if entry.ended_at is None else None
    asks = gateway.work.running.open_questions(key) if entry.ended_at is None else []
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
        "running_since": gateway.home.world.time() - (trio.current_time() - task.began) if task else None,
        "asks_for": asks[0].kind if asks else None,
        "resume_pending": entry.resume_pending,
        "suspended": entry.suspended,
        "usage": {
            "input_tokens": entry.usage.input_tokens,
            "output_tokens": entry.usage.output_tokens,
            "total_tokens": entry.usage.total_tokens,
            "cost_usd": entry.usage.cost_usd,
        },
    }


def _waiting(row: Received, task: TurnHandle | None) -> dict[str, Any]:
    """A message that waits for its turn, or for that of others."""
    status = "queued"
    if task is not None and any(one.inbox_id == row.inbox_id for one in task.rows):
        status = "started"
    elif task is not None and row.inbox_id in task.steered:
        status = "steered"
    return {
        "message_id": str(row.inbox_id),
        "run_id": row.event.run_id,
        "text": row.event.text,
        "received_at": row.received_at,
        "status": status,
    }


def _asked(gateway: Gateway, asked: approvals.ApprovalRow, choices: Sequence[str]) -> dict[str, Any]:
    """What a person is asked."""
    is_question, config = asked.kind == "question", gateway.home.config
    within = config.agent.clarify_timeout if is_question else config.approvals.timeout
    return {
        "id": asked.approval_id,
        "kind": asked.kind,
        **(_question(asked, choices) if is_question else _approval(asked)),
        "asked_at": asked.asked_at,
        "until": asked.asked_at + within,
    }


def _question(asked: approvals.ApprovalRow, choices: Sequence[str]) -> dict[str, Any]:
    return {"text": asked.asked, "choices": choices, "labels": [on_one_line(one) for one in choices]}


def _approval(asked: approvals.ApprovalRow) -> dict[str, Any]:
    """What is asked to be allowed, as the event says it."""
    said = msgspec.json.decode(asked.asked, type=ApprovalRequest)
    return {
        "text": said.command,
        "command": said.command,
        "cwd": said.cwd,
        "description": said.description,
        "choices": said.choices,
    }


# --- finding and making them -------------------------------------------------------------------------


def id_of(request: Request) -> str:
    return path_safe_id(request.path_params["session_id"])


async def entry_of(gateway: Gateway, request: Request) -> SessionEntry:
    entry = await gateway.home.database.read(sessions.by_id, id_of(request))
    if entry is None:
        raise NotThere(*NO_SESSION)
    return entry


def reached(gateway: Gateway, entry: SessionEntry) -> SessionSource:
    """Where a session lives, which can be reached now. Raises `Refusal`."""
    origin = entry.origin
    if origin is None or (origin.platform, origin.account) not in gateway.chats.connections:
        message = "The chat of this session is on a platform that is not connected."
        raise Refusal(409, "no_way_to_chat", message, "Connect the platform, or begin another session.")
    return origin


def title_of(text: str) -> str | None:
    """What a conversation is called that begins with this: its first line, without what Markdown puts in
    front of lines."""
    lines = (line.lstrip(" \t#>*`-").rstrip() for line in text.splitlines())
    line = next(filter(None, lines), "")
    return (line if len(line) <= LONGEST_TITLE else f"{line[: LONGEST_TITLE - 1].rstrip()}…") or None


async def made(gateway: Gateway, session_id: str, title: str | None) -> tuple[SessionEntry, bool]:
    """The session of this id, made if there is none; and whether it was made."""
    source, at = source_of(session_id), gateway.home.world.time()
    entry = SessionEntry(
        session_key=key_of(source, gateway.home.config),
        session_id=session_id,
        created_at=at,
        updated_at=at,
        origin=source,
        display_name=title,
        platform=NAME,
        chat_type="dm",
    )
    return await gateway.home.database.write(_make, entry)


def _make(db: sqlite3.Connection, entry: SessionEntry) -> tuple[SessionEntry, bool]:
    # By its id, or as the one that came in its place when it was reset.
    known = sessions.by_id(db, entry.session_id) or sessions.open_by_key(db, entry.session_key)
    if known is None:
        sessions.add(db, entry)
    return known or entry, known is None


def _said(db: sqlite3.Connection, words: str) -> list[tuple[SessionEntry, str]]:
    """The sessions in which these words were said, each with the text that fits best."""
    said: dict[str, str] = {}
    for session_id, row in transcript.search(db, words, limit=MOST_HITS):
        said.setdefault(session_id, row.content[:LONGEST_HIT])
    return [(entry, text) for one, text in said.items() if (entry := sessions.by_id(db, one)) is not None]


def _open(
    db: sqlite3.Connection, key: str, asked: Sequence[str]
) -> tuple[list[Received], list[approvals.ApprovalRow]]:
    """What waits in the session of this key, and these requests."""
    requests = [request for one in asked if (request := approvals.get(db, one)) is not None]
    return inbox.pending(db, key), requests


def _end(db: sqlite3.Connection, entry: SessionEntry, at: float) -> None:
    """From here on it is used no more, and what waits for it is dropped."""
    if settle.end_session(db, entry.session_id, "deleted", at):
        inbox.drop_pending(db, entry.session_key, at)


def number(request: Request, name: str, default: int, *, least: int = 1) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal()) or not least <= int(text[:9]) <= MOST_AT_ONCE * 1000:
        raise Refusal(400, "bad_number", f"{name} is no number that makes sense.", f"Leave {name} out.")
    return min(int(text[:9]), MOST_AT_ONCE) if name == "limit" else int(text[:9])
