"""The messages of a session: its transcript, and a new message.

A message to a session that lives in a chat is handled like a message in that chat, and so is its answer; both
are also visible here.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import Response

from ...base.messages import Attachment, AttachmentKind, MessageEvent, StoredFile
from ...base.world import World
from ...config.schema import GatewayConfig
from ...gateway.ending.control import Control
from ...gateway.intake.requests import StoredRequest, store_request
from ...gateway.operations.api_sessions import (
    find_or_create,
    new_session,
    reachable_origin,
    title_of,
)
from ...gateway.operations.gateway_actions import DeliverRequest, PostMessage
from ...gateway.turn.attachments import attached, shown_name, without_notes
from ...journal.session_reader import SessionReader
from ...state.db.database import Database
from ...state.db.engine import Db
from ...state.tables import sessions
from ...state.tables.session_entry import SessionEntry
from ...state.tables.transcript import TranscriptRow
from ...state.tables.turns import TurnRow
from ..http.http_errors import Draining, NotThere, Refusal, json_response, read_json
from .session_changes import ChangeFeed
from .session_lookup import NO_SESSION, id_of, number_of


class AttachedFile(msgspec.Struct, frozen=True):
    """A file of a message: one that was sent to the session before, by its `file`, or an address."""

    kind: AttachmentKind = "document"
    file: Annotated[str, Meta(pattern=r"^[0-9a-f]{12}-[\w.-]{1,80}$")] | None = None
    url: Annotated[str, Meta(pattern="^https?://", max_length=4096)] | None = None
    name: str | None = None
    mime_type: str | None = None


class NewMessage(msgspec.Struct, frozen=True):
    """The body with a new message. While a turn runs, the message waits for its own turn, or, with `steer`,
    joins the one that runs."""

    text: str = ""
    mode: Literal["queue", "steer"] = "queue"
    attachments: Annotated[tuple[AttachedFile, ...], Meta(max_length=20)] = ()
    idempotency_key: Annotated[str, Meta(min_length=1, max_length=256)] | None = None


@dataclass(frozen=True, slots=True)
class MessageRoutes:
    """The handlers of messages."""

    database: Database
    reader: SessionReader
    config: GatewayConfig
    world: World
    control: Control
    connected: Container[tuple[str, str]]
    post: PostMessage
    deliver: DeliverRequest
    changes: ChangeFeed
    home: Path
    owner: str | None
    """The life of this gateway if others share its store."""

    async def every(self, request: Request) -> Response:
        """`GET /api/sessions/{id}/messages?after=&limit=`: the messages in order, with the recovered parts of
        cut turns. `next` is the `after` of the next page, or null. `turns` says how the turns of these
        messages ended, and which turns are running."""
        session = await self.reader.get_session(id_of(request))
        if session is None:
            raise NotThere(*NO_SESSION)
        limit, after = number_of(request, "limit", 200), request.query_params.get("after")
        rows = [(_message_id(row), row) for row in session.messages]
        start = 0
        if after is not None:
            start = next((place for place, (name, _) in enumerate(rows, 1) if name == after), 0)
            if not start:
                message = "This session has no such message, or not any more."
                raise Refusal(400, "bad_cursor", message, "Read the messages from the beginning.")
        page = rows[start : start + limit]
        more = start + limit < len(rows)
        of_page = {row.turn_id for _, row in page}
        return json_response(
            {
                "messages": [_shown_message(name, row) for name, row in page],
                "next": page[-1][0] if more else None,
                "turns": [
                    _shown_turn(turn)
                    for turn in session.turns
                    if turn.turn_id in of_page or turn.outcome is None
                ],
            }
        )

    async def say(self, request: Request) -> Response:
        """`POST /api/sessions/{id}/messages` `{text, attachments, mode, idempotency_key}`: send a message.
        202, with the name of its run and its status."""
        body = await read_json(request, NewMessage)
        if not body.text.strip() and not body.attachments:
            raise Refusal(400, "no_text", "The message is empty.", "Send a text, or attachments.")
        if any((one.file is None) == (one.url is None) for one in body.attachments):
            message = "An attachment has either a `file` or a `url`."
            raise Refusal(400, "bad_attachment", message, "Send a file to the session first, or an address.")
        session_id = id_of(request)
        found = await self.database.read(sessions.by_id, session_id)
        if found is None:
            if not self.control.takes_messages:
                raise Draining
            new = new_session(self.config, self.world, session_id, title_of(_opening(body)))
            entry, stored = await self.database.write(self._store_first, body, new)
            posted = await self.deliver(stored, mode=body.mode)
        else:
            entry = found
            posted = await self.post(entry.session_key, self._event(body, entry), mode=body.mode)
        self.changes.note(entry.session_id)
        answer = {"message_id": str(posted.inbox_id), "run_id": posted.run_id, "status": posted.status}
        return json_response(answer, 202)

    def _store_first(self, db: Db, body: NewMessage, new: SessionEntry) -> tuple[SessionEntry, StoredRequest]:
        """Store a session, unless there is one already, with a message."""
        entry, _ = find_or_create(db, new)
        event = replace(self._event(body, entry), run_id=self.world.new_id())
        return entry, store_request(db, event, entry.session_key, self.world.time(), self.owner)

    def _event(self, body: NewMessage, entry: SessionEntry) -> MessageEvent:
        """Return the event for a message to this session."""
        return MessageEvent(
            reachable_origin(entry, self.connected),
            body.text,
            attachments=tuple(self._attachment(one, entry) for one in body.attachments),
            idempotency_key=body.idempotency_key,
        )

    def _attachment(self, one: AttachedFile, entry: SessionEntry) -> Attachment:
        """Return a part of a message. A stored file belongs to this session."""
        if one.file is None:
            return Attachment(one.kind, name=one.name, mime_type=one.mime_type, url=one.url)
        return attached(self.home, entry.session_id, StoredFile(one.file, one.mime_type))


def _opening(body: NewMessage) -> str:
    """Return the text that a new session is named after: that of its message, or the name of its file."""
    names = (one.name or shown_name(one.file or "") for one in body.attachments)
    return body.text.strip() or next(names, "")


def _message_id(row: TranscriptRow) -> str:
    """Return the id of a message. A marker is not stored; each turn has at most one."""
    return str(row.id) if row.id is not None else f"marker-{row.turn_id}"


def _shown_turn(turn: TurnRow) -> dict[str, Any]:
    """Return a turn for clients."""
    return {
        "run_id": turn.run_id,
        "started_at": turn.started_at,
        "ended_at": turn.ended_at,
        "outcome": turn.outcome,
        "reason": turn.reason,
        "resumes": turn.resumes is not None,
    }


def _shown_message(name: str, row: TranscriptRow) -> dict[str, Any]:
    """Return a message for clients. Empty fields of tools and of reasoning are left out."""
    shown: dict[str, Any] = {
        "id": name,
        "role": row.role,
        "content": without_notes(row.content) if row.files else row.content,
        "run_id": row.run_id,
        "created_at": row.created_at,
        "place": row.place,
        "marker": row.marker,
        "type": row.type,
    }
    more: dict[str, Any] = {
        "files": row.files,
        "tool_calls": row.tool_calls,
        "tool_call_id": row.tool_call_id,
        "tool_name": row.tool_name,
        "status": row.status,
        "cards": row.cards,
        "reasoning": row.reasoning,
    }
    return {**shown, **{key: msgspec.to_builtins(value) for key, value in more.items() if value}}
