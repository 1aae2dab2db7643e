"""The Web API of a Slack server for tests."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

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
from .slack_state import SlackState, Upload

LONGEST, LONGEST_EDIT = 40_000, 4000

Params = dict[str, Any]
Method = Callable[[SlackState, Params], Awaitable[dict[str, Any]]]


class ApiError(Exception):
    """An error answer."""


def answer_of(error: PlatformError) -> bytes:
    """Return the answer by which Slack tells its clients of an error."""
    headers: dict[str, str] = {}
    match error:
        case CredentialsRefused():
            name, status = "invalid_auth", 200
        case ChatGone():
            name, status = "is_archived", 200
        case FloodWait(seconds=seconds):
            name, status, headers = "ratelimited", 429, {"retry-after": f"{seconds:g}"}
        case NotSent():
            name, status = "request_timeout", 200
        case OutcomeUnknown():
            raise HungUp
        case _:
            name, status = "cant_post_message", 200
    return response(status, {"ok": False, "error": name}, headers)


async def handle(state: SlackState, method: str, request: HttpRequest) -> dict[str, Any]:
    """Return the result of a call. Raises `ApiError` or an error of the contract."""
    if method not in METHODS:
        raise ApiError("unknown_method")
    wanted = state.app_token if method == "apps.connections.open" else state.token
    if not state.lets_in or request.headers.get("authorization") != f"Bearer {wanted}":
        raise CredentialsRefused(state.name)
    params = {name: _read_json(value) for name, value in request.params.items()}
    return await METHODS[method](state, params)


def _read_json(value: Any) -> Any:
    """Return a parameter. Lists and objects come as JSON, also in a form."""
    if isinstance(value, str) and value[:1] in "[{":
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


async def _me(state: SlackState, params: Params) -> dict[str, Any]:
    await state.connecting()
    about = {"url": "https://simulated.slack.com/", "team": "Simulated", "team_id": state.team_id}
    return {**about, "user": state.username, "user_id": state.user_id, "bot_id": "BHERMES"}


async def _open(state: SlackState, params: Params) -> dict[str, Any]:
    return {"url": state.ticket()}


async def _person(state: SlackState, params: Params) -> dict[str, Any]:
    names = {"display_name": f"person-{params['user']}", "real_name": ""}
    return {"user": {"id": params["user"], "profile": names}}


async def _send(state: SlackState, params: Params) -> dict[str, Any]:
    channel, key = str(params["channel"]), _key(state, params)
    if len(str(params.get("text", ""))) > LONGEST:
        raise ApiError("msg_too_long")
    if params.get("unfurl_links") not in ("false", False):
        raise ApiError("the adapter lets links be asked for")
    text, exact = _shown(params)
    state.sent.setdefault(channel, []).append(key)
    message = Outgoing(
        chat_id=channel,
        text=text,
        preformatted=exact,
        key=key,
        thread_id=_thread(params),
        buttons=_buttons(params),
    )
    return {"channel": channel, "ts": await state.send(message)}


async def _edit(state: SlackState, params: Params) -> dict[str, Any]:
    if len(str(params.get("text", ""))) > LONGEST_EDIT:
        raise ApiError("msg_too_long")
    text, exact = _shown(params)
    try:
        await state.edit(str(params["channel"]), str(params["ts"]), text, exact)
    except Refused as error:
        raise _unknown(error) from error
    return {"channel": params["channel"], "ts": params["ts"], "text": params.get("text")}


async def _delete(state: SlackState, params: Params) -> dict[str, Any]:
    try:
        await state.delete(str(params["channel"]), str(params["ts"]))
    except Refused as error:
        raise _unknown(error) from error
    return {"channel": params["channel"], "ts": params["ts"]}


async def _react(state: SlackState, params: Params) -> dict[str, Any]:
    if params.get("name") != "eyes":
        raise ApiError("invalid_name")
    await state.react(str(params["channel"]), str(params["timestamp"]))
    return {}


async def _history(state: SlackState, params: Params) -> dict[str, Any]:
    return _page(state.messages_of(str(params["channel"]), None)[::-1], params)


async def _replies(state: SlackState, params: Params) -> dict[str, Any]:
    return _page(state.messages_of(str(params["channel"]), str(params["ts"])), params)


def _page(messages: list[dict[str, Any]], params: Params) -> dict[str, Any]:
    if params.get("include_all_metadata") not in ("true", "1", True):
        messages = [{**one, "metadata": None} for one in messages]
    start, limit = int(params.get("cursor", 0)), int(params.get("limit", 100))
    rest = len(messages) > start + limit
    return {
        "messages": messages[start : start + limit],
        "has_more": rest,
        "response_metadata": {"next_cursor": str(start + limit) if rest else ""},
    }


async def _file(state: SlackState, params: Params) -> dict[str, Any]:
    if str(params["file"]) not in state.files:
        raise ApiError("file_not_found")
    size = len(state.files[str(params["file"])])
    url = state.file_url or f"{state.base_url}/files/{params['file']}"
    return {"file": {"id": params["file"], "size": size, "url_private_download": url}}


async def _upload_place(state: SlackState, params: Params) -> dict[str, Any]:
    file_id = f"F{len(state.uploads) + 1}"
    state.uploads[file_id] = Upload(str(params["filename"]), int(params["length"]))
    return {"file_id": file_id, "upload_url": f"{state.base_url}/upload/{file_id}"}


async def _upload_done(state: SlackState, params: Params) -> dict[str, Any]:
    files = [state.uploads[one["id"]] for one in params["files"]]
    if any(one.data is None or len(one.data) != one.length for one in files):
        raise ApiError("invalid_file")
    text = _read(str(params["initial_comment"])) if params.get("initial_comment") else ""
    attachments = tuple(Attachment("document", name=one.name) for one in files)
    channel = str(params["channel_id"])
    message = Outgoing(
        chat_id=channel,
        text=text,
        key=_key(state, params),
        thread_id=_thread(params),
        attachments=attachments,
    )
    await state.send(message)
    return {"files": [{"id": one["id"]} for one in params["files"]]}


METHODS: dict[str, Method] = {
    "apps.connections.open": _open,
    "auth.test": _me,
    "chat.delete": _delete,
    "chat.postMessage": _send,
    "chat.update": _edit,
    "conversations.history": _history,
    "conversations.replies": _replies,
    "files.completeUploadExternal": _upload_done,
    "files.getUploadURLExternal": _upload_place,
    "files.info": _file,
    "reactions.add": _react,
    "users.info": _person,
}


def _unknown(error: Refused) -> Exception:
    return ApiError("message_not_found") if "There is no message" in str(error) else error


def _key(state: SlackState, params: Params) -> str:
    metadata = params.get("metadata") or {}
    key = metadata.get("event_payload", {}).get("key")
    return str(key) if key else f"sent-{state.requests}"


def _thread(params: Params) -> str | None:
    return None if params.get("thread_ts") is None else str(params["thread_ts"])


def _shown(params: Params) -> tuple[str, Preformatted]:
    """Return a text as people see it, with the parts that blocks show exactly."""
    for block in params.get("blocks") or ():
        if block["type"] == "rich_text":
            return read_exact(block)
        if block["type"] == "section" and len(block["text"]["text"]) > 3000:
            raise ApiError("invalid_blocks")
    sections = [one["text"]["text"] for one in params.get("blocks") or () if one["type"] == "section"]
    return _read("".join(sections) or str(params.get("text", ""))), ()


def read_exact(block: dict[str, Any]) -> tuple[str, Preformatted]:
    """Return the text of a block of rich text, and its exact parts."""
    text, exact = "", list[tuple[int, int]]()
    for number, part in enumerate(block["elements"]):
        text += "\n" if number else ""
        for one in part["elements"]:
            start, text = len(text), text + one["text"]
            if part["type"] == "rich_text_preformatted" or one.get("style", {}).get("code"):
                exact.append((start, len(text)))
    return text, tuple(exact)


def _read(text: str) -> str:
    found = re.search(r"<[^>|]*(?:>|\Z)|<(?!https?://|mailto:)", text)
    if found is not None:
        raise ApiError(f"the adapter lets a text call somebody: {found[0]}")
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _buttons(params: Params) -> tuple[Button, ...]:
    rows = [one for one in params.get("blocks") or () if one["type"] == "actions"]
    buttons = [one for row in rows for one in row["elements"]]
    ids = [one["action_id"] for one in buttons]
    if len(set(ids)) != len(ids) or any(len(one["text"]["text"]) > 75 for one in buttons):
        raise ApiError("invalid_blocks")
    return tuple(Button(one["text"]["text"], one["value"]) for one in buttons)
