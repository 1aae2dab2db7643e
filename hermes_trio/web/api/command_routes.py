"""Chat commands such as `/status`, given by request; used by the page.

Only this route takes a text that begins with a slash as a command: messages, runs and completions are always
text. The output of a command is the answer to the request, and is sent to no chat. The client has shown the
key, so it may do everything that an admin may.

The text after `/queue`, `/steer` and `/background` is a message. It is returned, for the client to send.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from ...base.messages import MessageEvent
from ...config.schema import GatewayConfig
from ...gateway.commands.parse import SAYING, parse
from ...gateway.operations.api_sessions import reachable_origin, source_of
from ...gateway.operations.gateway_actions import ObeyCommand
from ...gateway.session.registry import Sessions
from ...state.db.database import Database
from ...state.rules.store import key_of
from ...state.tables import sessions
from ..http.http_errors import Refusal, json_response, read_json
from .session_changes import ChangeFeed
from .session_lookup import id_of


class CommandText(msgspec.Struct, frozen=True):
    """The body with a text that may be a command."""

    text: str


@dataclass(frozen=True, slots=True)
class CommandRoutes:
    """The handler of chat commands."""

    database: Database
    config: GatewayConfig
    sessions: Sessions
    connected: Container[tuple[str, str]]
    obey_command: ObeyCommand
    changes: ChangeFeed

    async def obey(self, request: Request) -> Response:
        """`POST /api/sessions/{id}/commands` `{text}`: carry out the command in this text, as in a chat.
        `replies` has its output. If the text is not a command, `command` is null and nothing is done. If
        `rest` is not empty, the client sends it as a message: in the mode that `command` names, or in a
        session of its own for `background`."""
        body = await read_json(request, CommandText)
        session_id = id_of(request)
        entry = await self.database.read(sessions.by_id, session_id)
        if entry is not None and entry.ended_at is not None:
            raise Refusal(409, "session_ended", "This session has ended.", "Start another one.")
        source = source_of(session_id) if entry is None else reachable_origin(entry, self.connected)
        key = key_of(source, self.config) if entry is None else entry.session_key
        event, replies = MessageEvent(source, body.text), list[str]()
        given = parse(event)
        name, rest = (given.name, given.rest) if given is not None else (None, "")
        if given is None or (name in SAYING and rest):
            return json_response({"command": name, "rest": rest, "replies": replies})
        await self.obey_command(given, key, event, replies)
        if not replies:
            # Some commands wait for the end of the running turn, and reply only then.
            await self.sessions.turn_ended(key)
        if entry is not None:
            self.changes.note(entry.session_id)
        return json_response({"command": name, "rest": "", "replies": replies})
