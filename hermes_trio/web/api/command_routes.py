"""What is typed as a command, `/status` say, obeyed as in a chat; for the page, and for whoever asks.

Only here a text that begins with a slash is a command: a message, a run and a completion are text whatever
they say. What a command says is the answer to the request, and goes to no chat. Who gives it has shown the
key at the door, and may do what an admin may.

What stands behind `/queue`, `/steer` and `/background` is a message. It is handed back, to be sent as one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import trio
from starlette.requests import Request
from starlette.responses import Response

from ...base.messages import MessageEvent
from ...gateway.commands.parse import SAYING, parse
from ...state.rules.store import key_of
from ...state.tables import sessions
from ..http.http_errors import Refusal, answer, read_json
from .api_platform import source_of
from .session_routes import id_of, reached

if TYPE_CHECKING:
    from ..app import Web


class Typed(msgspec.Struct, frozen=True):
    """The body that may be a command."""

    text: str


async def obey(web: Web, request: Request) -> Response:
    """`POST /api/sessions/{id}/commands` `{text}`: do what the command in this text asks for, as in a chat.
    `replies` is what it says; `command` is None, and nothing is done, if there is none in it. With `rest` it
    is for the client to send that as a message: in the mode `command`, or in a session of its own for
    `background`."""
    gateway, body = web.gateway, await read_json(request, Typed)
    session_id = id_of(request)
    entry = await gateway.home.database.read(sessions.by_id, session_id)
    if entry is not None and entry.ended_at is not None:
        message, remedy = "This session has ended.", "Begin another one."
        raise Refusal(409, "session_ended", message, remedy)
    source = source_of(session_id) if entry is None else reached(gateway, entry)
    key = key_of(source, gateway.home.config) if entry is None else entry.session_key
    event, replies = MessageEvent(source, body.text), list[str]()
    given = parse(event)
    name, rest = (given.name, given.rest) if given is not None else (None, "")
    if given is None or (name in SAYING and rest):
        return answer({"command": name, "rest": rest, "replies": replies})
    await gateway.commands.obey(given, key, event, replies)
    if not replies:
        # What is done when the turn that runs has ended says so then. Behind that this is done.
        over = trio.Event()

        async def job() -> None:
            await trio.lowlevel.checkpoint()
            over.set()

        await gateway.work.sessions.after_turn(key, job)
        await over.wait()
    if entry is not None:
        web.changes.note(entry.session_id)
    return answer({"command": name, "rest": "", "replies": replies})
