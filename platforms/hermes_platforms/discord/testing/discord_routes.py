"""The API of a Discord server for tests, over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote

from hermes_trio.platform import (
    Attachment,
    Button,
    ChatGone,
    CredentialsRefused,
    FloodWait,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Preformatted,
    Refused,
)

from ...testing import HttpRequest, HungUp, response
from .discord_state import DiscordState

LIMIT = 2000
SILENT, NO_PREVIEWS = 1 << 12, 1 << 2

_ESCAPE = re.compile(r"```\n(.*?)\n```|`([^`\n]+)`|\\([^0-9A-Za-z\s])", re.DOTALL)

Handler = Callable[[DiscordState, HttpRequest, re.Match[str]], Awaitable[Any]]


class ApiError(Exception):
    """An error answer."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status, self.body = status, {"code": code, "message": message}


def answer_of(error: PlatformError) -> bytes:
    """Return the answer by which Discord tells its clients of an error."""
    match error:
        case CredentialsRefused():
            return response(401, {"message": "401: Unauthorized", "code": 0})
        case ChatGone():
            return response(403, {"message": "Missing Access", "code": 50001})
        case FloodWait(seconds=seconds):
            return response(429, {"message": "rate limited", "retry_after": seconds, "global": False})
        case NotSent():
            return response(503, {"message": "overloaded", "code": 130000})
        case OutcomeUnknown():
            raise HungUp
        case _:
            return response(400, {"message": str(error), "code": 50035})


async def handle(state: DiscordState, request: HttpRequest) -> Any:
    """Return the result of a request. Raises `ApiError` or an error of the contract."""
    path = request.path.removeprefix("/api/v10")
    for method, pattern, handler in ROUTES:
        if method == request.method and (found := re.fullmatch(pattern, path)):
            return await handler(state, request, found)
    raise ApiError(404, 0, "404: Not Found")


async def _me(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    await state.connecting()
    return state.user


async def _application(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    about: dict[str, Any] = {
        "name": "Hermes",
        "icon": None,
        "description": "",
        "verify_key": "",
        "owner": state.user,
    }
    about |= {"bot_public": True, "bot_require_code_grant": False}
    return {"id": state.bot_id, "flags": (1 << 19) if state.allows_content else 0, **about}


async def _guilds(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    return [{"id": "1", "name": "A server"}]


async def _gateway(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    limit = {"total": 1000, "remaining": state.sessions_left, "reset_after": 1000, "max_concurrency": 1}
    return {"url": state.gateway_url, "shards": 1, "session_start_limit": limit}


async def _commands(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    if request.method == "PUT":
        state.commands = list(request.params[""])
    return state.commands


async def _channel(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    return state.channel(found[1])


async def _history(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    written = state.written(found[1], str(request.params.get("after", "0")))
    return list(reversed(written[: int(request.params.get("limit", 50))]))


async def _message(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    for one in state.written(found[1], "0"):
        if one["id"] == found[2]:
            return one
    raise ApiError(404, 10008, "Unknown Message")


async def _send(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    content = _content(request)
    chat_id, thread_id = state.place(found[1])
    text, exact = shown_text(content, has_files=bool(request.files))
    files = tuple(Attachment("document", name=file.name) for file in request.files.values())
    reference, flags = content.get("message_reference") or {}, int(content.get("flags", 0))
    if len(str(content.get("nonce", ""))) > 25:
        raise ApiError(400, 50035, "Invalid Form Body: nonce")
    if not flags & NO_PREVIEWS or content.get("allowed_mentions", {}).get("parse") != []:
        raise ApiError(400, 50035, "the adapter lets links or people be called")
    message_id = await state.send(
        Outgoing(
            chat_id=chat_id,
            text=text,
            preformatted=exact,
            key=str(content["nonce"]) if content.get("enforce_nonce") else state.new_key(),
            thread_id=thread_id,
            reply_to=reference.get("message_id"),
            attachments=files,
            buttons=_buttons(content),
            silent=bool(flags & SILENT),
        )
    )
    return state.shown_message(chat_id, message_id)


async def _edit(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    chat_id, _ = state.place(found[1])
    text, exact = shown_text(_content(request), has_files=False)
    try:
        await state.edit(chat_id, found[2], text, exact)
    except Refused as error:
        raise _unknown(error) from error
    return state.shown_message(chat_id, found[2])


async def _delete(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    try:
        await state.delete(state.place(found[1])[0], found[2])
    except Refused as error:
        raise _unknown(error) from error


async def _typing(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    await state.typing(*state.place(found[1]))


async def _react(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    if unquote(found[3]) != "👀":
        raise ApiError(400, 10014, "Unknown Emoji")
    await state.react(state.place(found[1])[0], found[2])


async def _interaction(state: DiscordState, request: HttpRequest, found: re.Match[str]) -> Any:
    state.acknowledged.append((found[1], int(request.params["type"])))
    state.changed.set()


ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", r"/users/@me", _me),
    ("GET", r"/users/@me/guilds", _guilds),
    ("GET", r"(?:/oauth2)?/applications/@me", _application),
    ("GET", r"/gateway/bot", _gateway),
    ("GET", r"/applications/\d+/commands", _commands),
    ("PUT", r"/applications/\d+/commands", _commands),
    ("GET", r"/channels/([^/]+)", _channel),
    ("GET", r"/channels/([^/]+)/messages", _history),
    ("POST", r"/channels/([^/]+)/messages", _send),
    ("GET", r"/channels/([^/]+)/messages/([^/]+)", _message),
    ("PATCH", r"/channels/([^/]+)/messages/([^/]+)", _edit),
    ("DELETE", r"/channels/([^/]+)/messages/([^/]+)", _delete),
    ("POST", r"/channels/([^/]+)/typing", _typing),
    ("PUT", r"/channels/([^/]+)/messages/([^/]+)/reactions/([^/]+)/@me", _react),
    ("POST", r"/interactions/([^/]+)/([^/]+)/callback", _interaction),
]


def _unknown(error: Refused) -> Exception:
    return ApiError(404, 10008, "Unknown Message") if "There is no message" in str(error) else error


def _content(request: HttpRequest) -> Mapping[str, Any]:
    content = json.loads(request.params["payload_json"]) if request.files else request.params
    return dict(content)


def shown_text(content: Mapping[str, Any], *, has_files: bool) -> tuple[str, Preformatted]:
    """Return a text as people see it: escapes and code are read, other markup stays as it is."""
    written = str(content.get("content", ""))
    if len(written) > LIMIT:
        raise ApiError(400, 50035, f"Invalid Form Body: content has {len(written)} characters")
    if not written.strip() and not has_files:
        raise ApiError(400, 50006, "Cannot send an empty message")
    text, spans, at = "", list[tuple[int, int]](), 0
    for found in _ESCAPE.finditer(written):
        text += written[at : found.start()]
        if found[3] is None:
            code = found[2] if found[1] is None else found[1]
            spans.append((len(text), len(text) + len(code)))
            text += code
        else:
            text += found[3]
        at = found.end()
    return text + written[at:], tuple(spans)


def _buttons(content: Mapping[str, Any]) -> tuple[Button, ...]:
    rows = content.get("components") or []
    if len(rows) > 5 or any(not 1 <= len(row["components"]) <= 5 for row in rows):
        raise ApiError(400, 50035, "Invalid Form Body: components")
    buttons = [one for row in rows for one in row["components"]]
    if any(not 1 <= len(one["custom_id"]) <= 100 or not 1 <= len(one["label"]) <= 80 for one in buttons):
        raise ApiError(400, 50035, "Invalid Form Body: components")
    return tuple(Button(one["label"], one["custom_id"]) for one in buttons)
