"""The sessions API: conversations of all platforms. `message_routes` has their messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import trio
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ...base.events import ApprovalRequest
from ...base.ids import path_safe_id
from ...gateway.home.open_home import Home
from ...gateway.operations.api_sessions import find_or_create, new_session
from ...gateway.operations.chat_owners import TurnElsewhere, turns_elsewhere
from ...gateway.operations.gateway_actions import OpenQuestions
from ...gateway.operations.session_removal import remove_session
from ...gateway.outbound.exact_text import on_one_line
from ...gateway.session.work import Work
from ...gateway.turn.handle import TurnHandle
from ...state.db.engine import Db
from ...state.tables import approvals, inbox, sessions, transcript
from ...state.tables.inbox import Received
from ...state.tables.session_entry import SessionEntry
from ..http.http_errors import json_response, read_json
from .session_changes import ChangeFeed
from .session_lookup import entry_of, number_of

MOST_HITS, LONGEST_HIT = 200, 300

Title = Annotated[str, Meta(max_length=200)]


class NewSession(msgspec.Struct, frozen=True):
    """The body that creates a session."""

    id: str | None = None
    title: Title | None = None


class SessionUpdate(msgspec.Struct, frozen=True):
    """The body that changes a session."""

    title: Title


@dataclass(frozen=True, slots=True)
class SessionRoutes:
    """The handlers of sessions."""

    home: Home
    work: Work
    open_questions: OpenQuestions
    changes: ChangeFeed

    async def every(self, request: Request) -> Response:
        """`GET /api/sessions?limit=&offset=`: the most recently used sessions first. With `?q=` the sessions
        that contain these words, the best match first."""
        limit, offset = number_of(request, "limit", 50), number_of(request, "offset", 0, least=0)
        if words := request.query_params.get("q"):
            hits = await self.home.database.read(_search, words[:200])
            shown = await self._all_shown([entry for entry, _ in hits])
            return json_response(
                {"sessions": [{**one, "said": text} for one, (_, text) in zip(shown, hits, strict=True)]}
            )
        found = await self.home.database.read(sessions.newest, limit=limit + 1, offset=offset)
        shown = await self._all_shown(found[:limit])
        return json_response({"sessions": shown, "next": offset + limit if len(found) > limit else None})

    async def make(self, request: Request) -> Response:
        """`POST /api/sessions` `{id, title}`: create a session of the API. If the id is known, return that
        session instead."""
        body = await read_json(request, NewSession)
        session_id = path_safe_id(body.id) if body.id is not None else self.home.world.new_id()
        new = new_session(self.home.config, self.home.world, session_id, body.title)
        entry, is_new = await self.home.database.write(find_or_create, new)
        self.changes.note(entry.session_id)
        return json_response(self._shown(entry), 201 if is_new else 200)

    async def one(self, request: Request) -> Response:
        """`GET /api/sessions/{id}`: a session with its waiting messages and its open questions."""
        entry = await entry_of(self.home.database, request)
        [shown], key = await self._all_shown([entry]), entry.session_key
        if entry.ended_at is not None:
            return json_response({**shown, "waiting": [], "asks": []})
        task, asked = self.work.running.handle(key), {one.id: one for one in self.open_questions(key)}
        waiting, requests = await self.home.database.read(_open, key, list(asked))
        return json_response(
            {
                **shown,
                "waiting": [_waiting_message(row, task) for row in waiting],
                "asks": [self._open_question(one, asked[one.approval_id].choices) for one in requests],
            }
        )

    async def change(self, request: Request) -> Response:
        """`PATCH /api/sessions/{id}` `{title}`: rename a session. Its place in lists stays the same."""
        entry, body = await entry_of(self.home.database, request), await read_json(request, SessionUpdate)
        await self.home.database.write(sessions.rename, entry.session_id, body.title)
        self.changes.note(entry.session_id)
        return json_response(self._shown(replace(entry, display_name=body.title)))

    async def delete(self, request: Request) -> Response:
        """`DELETE /api/sessions/{id}`: delete a session with everything that belongs to it. Its turn and its
        processes are ended first."""
        entry = await entry_of(self.home.database, request)
        await remove_session(self.home, self.work, entry)
        self.changes.note(entry.session_id, deleted=True)
        return json_response({"id": entry.session_id, "deleted": True})

    async def _all_shown(self, entries: Sequence[SessionEntry]) -> list[dict[str, Any]]:
        """Return sessions for clients, with the turns that run in other gateways."""
        elsewhere = dict[str, TurnElsewhere]()
        if self.home.owner is not None:
            elsewhere = await self.home.database.read(turns_elsewhere, self.home.owner)
        return [{**self._shown(one), **_running_elsewhere(elsewhere.get(one.session_id))} for one in entries]

    def _shown(self, entry: SessionEntry) -> dict[str, Any]:
        """Return a session for clients."""
        key = entry.session_key
        task = self.work.running.handle(key) if entry.ended_at is None else None
        asks = self.open_questions(key) if entry.ended_at is None else []
        return {
            "id": entry.session_id,
            "key": key,
            "title": entry.display_name,
            "platform": entry.platform,
            "chat_type": entry.chat_type,
            "created_at": entry.created_at,
            "updated_at": entry.updated_at,
            "ended_at": entry.ended_at,
            "end_reason": entry.end_reason,
            "state": "running" if task is not None else "idle",
            "run_id": task.run_id or None if task is not None else None,
            "running_since": self.home.world.time() - (trio.current_time() - task.began) if task else None,
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

    def _open_question(self, asked: approvals.ApprovalRow, choices: Sequence[str]) -> dict[str, Any]:
        """Return an approval or a question for clients."""
        is_question, config = asked.kind == "question", self.home.config
        within = config.agent.clarify_timeout if is_question else config.approvals.timeout
        return {
            "id": asked.approval_id,
            "kind": asked.kind,
            **(_question_fields(asked, choices) if is_question else _approval_fields(asked)),
            "asked_at": asked.asked_at,
            "until": asked.asked_at + within,
        }


def _running_elsewhere(found: TurnElsewhere | None) -> dict[str, Any]:
    """Return the fields of a session that differ because its turn runs in another gateway."""
    if found is None:
        return {}
    turn = found.turn
    return {
        "state": "running",
        "run_id": turn.run_id,
        "running_since": turn.started_at,
        "asks_for": found.asks_for,
    }


def _waiting_message(row: Received, task: TurnHandle | None) -> dict[str, Any]:
    """Return a message that waits for its own turn, or that the running turn has taken."""
    status = "queued"
    if task is not None and any(one.inbox_id == row.inbox_id for one in task.rows):
        status = "started"
    elif task is not None and row.inbox_id in task.steered:
        status = "steered"
    return {
        "message_id": str(row.inbox_id),
        "run_id": row.event.run_id,
        "text": row.event.text,
        "files": row.event.files,
        "received_at": row.received_at,
        "status": status,
    }


def _question_fields(asked: approvals.ApprovalRow, choices: Sequence[str]) -> dict[str, Any]:
    return {"text": asked.asked, "choices": choices, "labels": [on_one_line(one) for one in choices]}


def _approval_fields(asked: approvals.ApprovalRow) -> dict[str, Any]:
    """Return the action to be approved, with the fields of the event `approval.request`."""
    event = msgspec.json.decode(asked.asked, type=ApprovalRequest)
    return {
        "text": event.command,
        "command": event.command,
        "cwd": event.cwd,
        "grants": event.grants,
        "description": event.description,
        "choices": event.choices,
    }


def _search(db: Db, words: str) -> list[tuple[SessionEntry, str]]:
    """Return the sessions that contain these words, each with the text that matches best."""
    found: dict[str, str] = {}
    for session_id, row in transcript.search(db, words, limit=MOST_HITS):
        found.setdefault(session_id, row.content[:LONGEST_HIT])
    return [(entry, text) for one, text in found.items() if (entry := sessions.by_id(db, one)) is not None]


def _open(db: Db, key: str, asked: Sequence[str]) -> tuple[list[Received], list[approvals.ApprovalRow]]:
    """Return the messages that wait in the session with this key, and the questions with these ids."""
    requests = [request for one in asked if (request := approvals.get(db, one)) is not None]
    return inbox.pending(db, key), requests
