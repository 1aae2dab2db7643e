"""Methods of a Bot API server for tests, and its error answers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import trio
import trio.lowlevel

from hermes_trio.platform import (
    Attachment,
    Button,
    ChatGone,
    CredentialsRefused,
    Draft,
    FloodWait,
    NotSent,
    Outgoing,
    PlatformError,
    Refused,
)

from ...testing import HttpRequest
from .bot_api_entities import CannotParse, Entity, parse_markdown_v2, utf16_length
from .bot_api_rich import parse_rich_html
from .bot_state import BotState

FileKind = Literal["photo", "document", "voice"]

LONGEST_TEXT = 4096
LONGEST_CAPTION = 1024
LONGEST_PRESS = 64
MOST_UPDATES = 100
REACTIONS = ("👍", "👎", "❤", "🔥", "🎉", "🤔", "👀", "👌", "🙏")
"""Some of the reactions that a bot may use."""
NOT_MODIFIED = (
    "message is not modified: specified new message content and reply markup are exactly the same as a "
    "current content and reply markup of the message"
)
CONFLICT = "terminated by other getUpdates request; make sure that only one bot instance is running"
WEBHOOK_CONFLICT = "can't use getUpdates method while webhook is active; use deleteWebhook to delete"


class ApiError(PlatformError):
    """An error answer of the server."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(f"{code}: {description}")
        self.code, self.description, self.parameters = code, description, parameters

    @property
    def body(self) -> dict[str, Any]:
        """The JSON of the answer."""
        more = {"parameters": self.parameters} if self.parameters else {}
        return {"ok": False, "error_code": self.code, "description": self.description, **more}


def bad(description: str) -> ApiError:
    """Return the answer to an invalid request."""
    return ApiError(400, f"Bad Request: {description}")


def answer_of(error: PlatformError) -> ApiError | None:
    """Return the server's answer for an error; None if it hangs up without one."""
    match error:
        case ApiError():
            return error
        case FloodWait() | NotSent():
            seconds = int(error.seconds) if isinstance(error, FloodWait) else 1
            return ApiError(429, f"Too Many Requests: retry after {seconds}", retry_after=seconds)
        case ChatGone():
            return ApiError(403, "Forbidden: bot was blocked by the user")
        case Refused():
            return bad(str(error))
        case CredentialsRefused():
            return ApiError(401, "Unauthorized")
    return None


async def get_me(api: BotState, request: HttpRequest) -> object:
    await api.connecting()
    return {
        "id": api.bot_id,
        "is_bot": True,
        "first_name": "Hermes",
        "username": api.username,
        "can_join_groups": True,
        "can_read_all_group_messages": api.hears_all,
        "supports_inline_queries": False,
    }


async def get_updates(api: BotState, request: HttpRequest) -> object:
    if api.webhook:
        raise ApiError(409, f"Conflict: {WEBHOOK_CONFLICT}")
    offset, timeout = int(request.params.get("offset", 0)), float(request.params.get("timeout", 0))
    limit = min(int(request.params.get("limit", MOST_UPDATES)), MOST_UPDATES)
    with api.new_poll():
        for delivery in list(api.waiting):
            if delivery.number < offset:
                api.accept(delivery)
        with trio.move_on_after(timeout):
            await api.until(lambda: bool(api.waiting))
        await trio.lowlevel.checkpoint()
        return [api.update(one) for one in list(api.waiting)[:limit]]
    raise ApiError(409, f"Conflict: {CONFLICT}") if api.lets_in else CredentialsRefused(api.name)


async def set_webhook(api: BotState, request: HttpRequest) -> object:
    await trio.lowlevel.checkpoint()
    api.set_webhook(str(request.params["url"]), str(request.params.get("secret_token", "")))
    return True


async def delete_webhook(api: BotState, request: HttpRequest) -> object:
    await trio.lowlevel.checkpoint()
    api.set_webhook("", "")
    return True


async def get_webhook_info(api: BotState, request: HttpRequest) -> object:
    await trio.lowlevel.checkpoint()
    return {
        "url": api.webhook,
        "pending_update_count": len(api.waiting),
        "has_custom_certificate": False,
        "max_connections": 40,
        **({"last_error_message": "Wrong response from the webhook"} if api.brought_in_vain else {}),
    }


async def set_my_commands(api: BotState, request: HttpRequest) -> object:
    await trio.lowlevel.checkpoint()
    commands = _structured(request.params["commands"])
    api.commands = {one["command"]: one["description"] for one in commands}
    return True


async def answer_callback_query(api: BotState, request: HttpRequest) -> object:
    await trio.lowlevel.checkpoint()
    api.pressed.append(str(request.params["callback_query_id"]))
    return True


async def send_message(api: BotState, request: HttpRequest) -> object:
    text, entities = _text(request.params, "text", LONGEST_TEXT)
    return await _send(api, request.params, text, entities)


async def send_rich_message(api: BotState, request: HttpRequest) -> object:
    text, entities = _rich_text(request.params)
    return await _send(api, request.params, text, entities)


async def send_message_draft(api: BotState, request: HttpRequest) -> object:
    # Only the text of a draft may be empty: people see "Thinking…".
    is_empty = not str(request.params.get("text", "")).strip()
    text = "" if is_empty else _text(request.params, "text", LONGEST_TEXT)[0]
    return await _show_draft(api, request.params, text)


async def send_rich_message_draft(api: BotState, request: HttpRequest) -> object:
    return await _show_draft(api, request.params, _rich_text(request.params)[0])


async def set_message_reaction(api: BotState, request: HttpRequest) -> object:
    reactions = _structured(request.params.get("reaction") or [])
    if any(one.get("type") != "emoji" or one.get("emoji") not in REACTIONS for one in reactions):
        raise bad("REACTION_INVALID")
    await api.react(str(request.params["chat_id"]), str(request.params["message_id"]))
    return True


async def send_photo(api: BotState, request: HttpRequest) -> object:
    return await _send_file(api, request, "photo")


async def send_document(api: BotState, request: HttpRequest) -> object:
    return await _send_file(api, request, "document")


async def send_voice(api: BotState, request: HttpRequest) -> object:
    return await _send_file(api, request, "voice")


async def edit_message_text(api: BotState, request: HttpRequest) -> object:
    params = request.params
    is_rich = "rich_message" in params
    text, entities = _rich_text(params) if is_rich else _text(params, "text", LONGEST_TEXT)
    chat_id, message_id = str(params["chat_id"]), str(params["message_id"])
    shown = {one.message_id: one for one in api.chat(chat_id).messages}.get(message_id)
    if shown is None:
        raise bad("message to edit not found")
    await api.edit(chat_id, message_id, text)
    if (shown.text, api.entities[message_id], shown.buttons) == (text, entities, ()):
        raise bad(NOT_MODIFIED)
    api.entities[message_id] = entities
    (api.rich.add if is_rich else api.rich.discard)(message_id)
    return api.message(chat_id, message_id)


async def delete_message(api: BotState, request: HttpRequest) -> object:
    chat_id, message_id = str(request.params["chat_id"]), str(request.params["message_id"])
    if all(one.message_id != message_id for one in api.chat(chat_id).messages):
        raise bad("message to delete not found")
    await api.delete(chat_id, message_id)
    return True


async def send_chat_action(api: BotState, request: HttpRequest) -> object:
    thread_id = request.params.get("message_thread_id")
    await api.typing(str(request.params["chat_id"]), None if thread_id is None else str(thread_id))
    return True


async def get_file(api: BotState, request: HttpRequest) -> object:
    await trio.lowlevel.checkpoint()
    file_id = str(request.params["file_id"])
    if file_id not in api.files:
        raise bad("wrong file_id or the file is temporarily unavailable")
    size = len(api.files[file_id])
    named = {"file_id": file_id, "file_unique_id": file_id, "file_path": f"documents/{file_id}"}
    return named if api.hides_sizes else {**named, "file_size": size}


Method = Callable[[BotState, HttpRequest], Awaitable[object]]

METHODS: Mapping[str, Method] = {
    "getme": get_me,
    "getupdates": get_updates,
    "setwebhook": set_webhook,
    "deletewebhook": delete_webhook,
    "getwebhookinfo": get_webhook_info,
    "setmycommands": set_my_commands,
    "answercallbackquery": answer_callback_query,
    "sendmessage": send_message,
    "sendrichmessage": send_rich_message,
    "sendmessagedraft": send_message_draft,
    "sendrichmessagedraft": send_rich_message_draft,
    "setmessagereaction": set_message_reaction,
    "sendphoto": send_photo,
    "senddocument": send_document,
    "sendvoice": send_voice,
    "editmessagetext": edit_message_text,
    "deletemessage": delete_message,
    "sendchataction": send_chat_action,
    "getfile": get_file,
}
"""Methods by their names in lower case: the server ignores the case."""


def _text(params: Mapping[str, Any], key: str, longest: int) -> tuple[str, list[Entity]]:
    """Return the text of a message and its entities. Only a caption may be blank."""
    text, mode = str(params.get(key, "")).strip(), params.get("parse_mode")
    entities: list[Entity] = []
    try:
        text.encode()
    except UnicodeEncodeError:
        raise bad("strings must be encoded in UTF-8") from None
    if mode == "MarkdownV2":
        try:
            text, entities = parse_markdown_v2(text)
        except CannotParse as error:
            raise bad(f"can't parse entities: {error}") from error
    elif mode:
        raise bad("unsupported parse_mode")
    if not text and key == "text":
        raise bad("message text is empty")
    if utf16_length(text) > longest:
        raise bad("message is too long" if key == "text" else "message caption is too long")
    return text, entities


def _rich_text(params: Mapping[str, Any]) -> tuple[str, list[Entity]]:
    """Return the text of a rich message and its formatted parts. Only HTML is simulated."""
    message = _structured(params["rich_message"])
    if set(message) != {"html"}:
        raise bad("this simulator reads rich messages from the field html only")
    try:
        return parse_rich_html(str(message["html"]))
    except CannotParse as error:
        raise bad(f"can't parse rich message: {error}") from error


async def _show_draft(api: BotState, params: Mapping[str, Any], text: str) -> object:
    chat_id, number, thread = int(params["chat_id"]), int(params["draft_id"]), params.get("message_thread_id")
    if chat_id <= 0:
        raise bad("drafts can be sent to private chats only")
    if not number:
        raise bad("DRAFT_ID_INVALID")
    thread_id = None if thread is None else str(thread)
    await api.draft(Draft(chat_id=str(chat_id), number=number, text=text, thread_id=thread_id))
    api.stoppable = str(params.get("can_stop", False)).lower() == "true"
    return True


async def _send_file(api: BotState, request: HttpRequest, kind: FileKind) -> object:
    text, entities = _text(request.params, "caption", LONGEST_CAPTION)
    if (file := request.files.get(kind)) is not None:
        api.files[name := f"file-{len(api.files) + 1}"] = file.data
        attachment = Attachment(kind, name=file.name, size=len(file.data), file_id=name)
    else:
        attachment = Attachment(kind, file_id=str(request.params[kind]))
    return await _send(api, request.params, text, entities, attachment)


async def _send(
    api: BotState,
    params: Mapping[str, Any],
    text: str,
    entities: list[Entity],
    *attachments: Attachment,
) -> object:
    chat_id, thread_id = str(params["chat_id"]), params.get("message_thread_id")
    thread_id = None if thread_id is None else str(thread_id)
    if thread_id is not None and (thread_id == "1" or (chat_id, thread_id) in api.lost_threads):
        raise bad("message thread not found")
    reply = _structured(params.get("reply_parameters") or {})
    reply_to = str(reply["message_id"]) if reply else None
    if reply_to in api.lost_messages:
        if not reply.get("allow_sending_without_reply"):
            raise bad("message to be replied not found")
        reply_to = None
    message_id = await api.send(
        Outgoing(
            chat_id=chat_id,
            text=text,
            key=api.new_key(),
            thread_id=thread_id,
            reply_to=reply_to,
            attachments=attachments,
            buttons=_buttons(params),
            silent=str(params.get("disable_notification", False)).lower() == "true",
        )
    )
    api.entities.setdefault(message_id, entities)
    if "rich_message" in params:
        api.rich.add(message_id)
    return api.message(chat_id, message_id)


def _buttons(params: Mapping[str, Any]) -> tuple[Button, ...]:
    rows = _structured(params.get("reply_markup") or {}).get("inline_keyboard", [])
    buttons = tuple(Button(one["text"], one["callback_data"]) for row in rows for one in row)
    if not all(0 < len(one.value.encode()) <= LONGEST_PRESS for one in buttons):
        raise bad("BUTTON_DATA_INVALID")
    if not all(one.label.strip() for one in buttons):
        raise bad("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
    return buttons


def _structured(value: object) -> Any:
    """Return a structured parameter. Outside of JSON it is text that contains JSON."""
    return json.loads(value) if isinstance(value, str) else value
