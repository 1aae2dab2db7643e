"""The messages of a request in OpenAI's form, and the names by which the request finds its session."""

from __future__ import annotations

import hashlib
from base64 import b64decode
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request

from ...agent.providers.pictures import picture_type
from ...base.ids import path_safe_id
from ...gateway.operations.conversation_entry import ConversationInput, RequestTarget, SentFile
from ...gateway.turn.attachments import reference
from ...state.tables.transcript import ToolCall, TranscriptRow
from ..http.http_errors import MB, Refusal

LONGEST_KEY = 256
LONGEST_WITH_PICTURES = 32 * MB
_SYSTEM_ROLES = ("system", "developer")
_PICTURES = ("image_url", "input_image")


class ImageUrl(msgspec.Struct, frozen=True):
    """A picture in the address itself: `data:image/png;base64,…`."""

    url: str
    detail: Annotated[Any, Meta(description="Ignored. Every picture is sent in the same size.")] = None


class MessagePart(msgspec.Struct, frozen=True):
    """A part of a message."""

    type: str
    text: str | None = None
    refusal: str | None = None
    image_url: ImageUrl | str | None = None


class Function(msgspec.Struct, frozen=True):
    """The function of a tool call, with its arguments."""

    name: str
    arguments: str = "{}"


class Call(msgspec.Struct, frozen=True):
    """A tool call of an earlier answer."""

    id: str
    function: Function


_UNREADABLE = Meta(description="It cannot be read here.", extra_json_schema={"enum": [None]})


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of a client."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[MessagePart, ...] | None = None
    tool_calls: tuple[Call, ...] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    refusal: str | None = None
    """The text of a model that refused, in place of a `content`."""
    audio: Annotated[Any, _UNREADABLE] = None
    function_call: Annotated[Any, _UNREADABLE] = None


MOST_MESSAGES = 4096
"""No real conversation has more, and each message becomes a row."""
ChatMessages = Annotated[tuple[ChatMessage, ...], Meta(min_length=1, max_length=MOST_MESSAGES)]


def conversation_of(
    messages: Sequence[ChatMessage], before: Sequence[ChatMessage] | None = None
) -> ConversationInput:
    """Return the content of a conversation. The last message is the new one; `before` replaces the other
    ones as the history. Raises `Refusal`."""
    system = [_text(one) for one in (*(before or ()), *messages) if one.role in _SYSTEM_ROLES]
    talk = [one for one in messages if one.role not in _SYSTEM_ROLES]
    if not talk or talk[-1].role != "user" or not (_text(talk[-1]).strip() or _files(talk[-1])):
        message = "The last message is not a text of a person."
        remedy = "End with a message of role user that has a text."
        raise Refusal(400, "no_text", message, remedy, param="messages")
    earlier = talk[:-1] if before is None else [one for one in before if one.role not in _SYSTEM_ROLES]
    return ConversationInput(
        _text(talk[-1]),
        tuple(map(_row, earlier)),
        "\n\n".join(system) or None,
        _files(talk[-1]),
        tuple(file for one in earlier for file in _files(one)),
    )


def _row(one: ChatMessage) -> TranscriptRow:
    calls = tuple(
        ToolCall(call.id, call.function.name, call.function.arguments) for call in one.tool_calls or ()
    )
    if one.role == "assistant":
        return TranscriptRow(
            "assistant", _text(one), 0, tool_calls=calls, finish="tool_calls" if calls else "completed"
        )
    if one.role == "tool":
        return TranscriptRow(
            "tool", _text(one), 0, tool_call_id=one.tool_call_id, tool_name=one.name, status="ok"
        )
    return TranscriptRow("user", _text(one), 0, files=tuple(file.stored for file in _files(one)))


def _text(one: ChatMessage) -> str:
    if one.audio is not None or one.function_call is not None:
        raise _unreadable("Messages with `audio` or `function_call`")
    if one.content is None or isinstance(one.content, str):
        return one.content or one.refusal or ""
    return "\n".join(_text_of_part(part) for part in one.content if part.type not in _PICTURES)


def _files(one: ChatMessage) -> tuple[SentFile, ...]:
    """Return the pictures of a message of a person. Raises `Refusal`."""
    if one.role != "user" or one.content is None or isinstance(one.content, str):
        return ()
    return tuple(_picture(part) for part in one.content if part.type in _PICTURES)


def _picture(part: MessagePart) -> SentFile:
    """Return the picture of a part. Its address holds it: the gateway fetches nothing for a client."""
    url = part.image_url.url if isinstance(part.image_url, ImageUrl) else part.image_url or ""
    head, _, encoded = url.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        message = "The address of a picture must hold the picture."
        remedy = "Send it as data:image/png;base64,… in place of a link."
        raise Refusal(400, "unsupported_content", message, remedy, param="messages")
    try:
        data = b64decode(encoded, validate=True)
    except ValueError:
        data = b""
    kind = picture_type(data)
    if kind is None:
        message, remedy = "A picture cannot be read.", "Send PNG, JPEG, WebP or GIF in base64."
        raise Refusal(400, "unsupported_content", message, remedy, param="messages")
    return SentFile(reference(f"picture.{kind.partition('/')[2]}", kind, data), data)


def _text_of_part(part: MessagePart) -> str:
    text = part.text if part.type in ("text", "input_text", "output_text") else None
    if part.type == "refusal":  # a part of a model's answer
        text = part.refusal
    if text is None:
        raise _unreadable(f"Parts of type {part.type[:40]!r}")
    return text


def _unreadable(what: str) -> Refusal:
    remedy = "Send text, and links to other content."
    return Refusal(400, "unsupported_content", f"{what} cannot be read here.", remedy, param="messages")


def target_of(request: Request, body: bytes, session_id: str | None) -> RequestTarget:
    """Return the names by which this request finds its session. Raises `Refusal` and `InvalidId`."""
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= LONGEST_KEY:
        message = f"An Idempotency-Key has 1 to {LONGEST_KEY} characters."
        raise Refusal(400, "bad_idempotency_key", message, "Send a shorter one, or none.")
    if session_id is not None:
        path_safe_id(session_id)
    of = hashlib.sha256(f"{request.scope['path']}\n{session_id}\n".encode() + body).hexdigest()
    return RequestTarget(session_id, key, of)
