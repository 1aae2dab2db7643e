"""Requests in OpenAI's chat completions format, which most servers accept, hosted or local. A part that a
server refuses is left out from then on."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ....base.world import World
from ..earlier_messages import EarlierMessages, decoded
from ..endpoint import Body, Endpoint
from ..model import Item, ModelRequest, ToolSpec
from ..model_messages import AssistantMessage, Message, ToolResult
from ..pictures import encoded
from ..refused_pictures import speaks_of_pictures, without_pictures
from ..repair import clean
from ..stream import VendorRequest, open_answer, path
from .openai_answer import ChatFold

if TYPE_CHECKING:
    from ..model_clients import httpx

_FORMAT = "chat completions"
_PICTURE = "image_url"


class ChatCompletions:
    """A model on an OpenAI-compatible server."""

    def __init__(self, client: httpx.AsyncClient, endpoint: Endpoint, world: World) -> None:
        self._client, self._endpoint, self._world = client, endpoint, world
        self._refused: list[str] = []

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._endpoint.model

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Item]]:
        """Send the request and yield its answer."""
        endpoint = self._endpoint
        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        if endpoint.api_key:
            headers["authorization"] = f"Bearer {endpoint.api_key}"
        vendor_request = VendorRequest(
            path(endpoint, "/chat/completions"),
            headers,
            partial(_body, request, endpoint),
            partial(ChatFold, endpoint, self._world.new_id),
            amended,
            self._refused,
        )
        return open_answer(self._client, endpoint, vendor_request, self._world)


async def _body(request: ModelRequest, endpoint: Endpoint) -> Body:
    if request.earlier is not None:
        encode = partial(_encoded, endpoint, request.files)
        await request.earlier.encode_in_steps(_FORMAT, endpoint.origin, encode)
    return chat_body(request, endpoint)


def chat_body(request: ModelRequest, endpoint: Endpoint) -> Body:
    """Return the request as the JSON body for chat completions."""
    earlier = request.earlier or EarlierMessages()
    messages: list[Body | msgspec.Raw] = []
    if request.system.strip():
        messages.append({"role": "system", "content": clean(request.system)})
    messages += earlier.encoded(_FORMAT, endpoint.origin, partial(_encoded, endpoint, request.files))
    rest = earlier.repaired_rest(request.messages[earlier.count :])
    messages += (_message(message, endpoint, request.files) for message in rest)
    body: Body = {
        "model": endpoint.model,
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [{"type": "function", "function": _tool(tool)} for tool in request.tools]
        if not request.may_call:
            body["tool_choice"] = "none"
    if request.max_tokens is not None:
        body["max_completion_tokens" if endpoint.host.endswith("openai.com") else "max_tokens"] = (
            request.max_tokens
        )
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.effort is not None:
        body["reasoning_effort"] = request.effort
    return body


def _tool(tool: ToolSpec) -> Body:
    return {"name": tool.name, "description": tool.description, "parameters": tool.schema}


def _encoded(endpoint: Endpoint, files: Path | None, messages: Sequence[Message]) -> list[msgspec.Raw]:
    return [msgspec.Raw(msgspec.json.encode(_message(message, endpoint, files))) for message in messages]


def _message(message: Message, endpoint: Endpoint, files: Path | None) -> Body:
    """Return a message in OpenAI's format."""
    match message:
        case AssistantMessage():
            opaque = _opaque(message.opaque, endpoint)
            extras = opaque.pop("calls", {})
            body: Body = {"role": "assistant", "content": message.text or None, **opaque}
            if message.calls:
                body["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments},
                        **extras.get(call.id, {}),
                    }
                    for call in message.calls
                ]
            return body
        case ToolResult():
            return {"role": "tool", "tool_call_id": message.call_id, "content": message.content}
    pictures = [
        {"type": _PICTURE, _PICTURE: {"url": f"data:{one.mime_type};base64,{one.base64}"}}
        for picture in message.pictures
        if (one := encoded(files, picture)) is not None
    ]
    text = {"type": "text", "text": message.text}
    return {"role": "user", "content": [*pictures, text] if pictures else message.text}


def _opaque(text: str | None, endpoint: Endpoint) -> Body:
    """Return the opaque data of an answer if this model wrote it; else none."""
    try:
        value = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}
    return value if value.pop("origin", None) == endpoint.origin else {}


def amended(body: Body, said: str) -> Body | None:
    """Return the body without the part that the server refused; None if that cannot be left out."""
    said = said.lower()
    if "max_completion_tokens" in said and "max_tokens" in body:
        return {("max_completion_tokens" if key == "max_tokens" else key): body[key] for key in body}
    if "max_completion_tokens" in said and "max_completion_tokens" in body:
        return {("max_tokens" if key == "max_completion_tokens" else key): body[key] for key in body}
    if "reasoning_effort" in said:  # newer models of OpenAI accept it here only without tools
        if re.search(r"""['"]none['"]""", said) and body.get("reasoning_effort") != "none":
            return {**body, "reasoning_effort": "none"}
        return {key: body[key] for key in body if key != "reasoning_effort"}
    for name in ("stream_options", "temperature", "tool_choice"):
        if name in said and name in body:
            return {key: body[key] for key in body if key != name}
    if speaks_of_pictures(said):
        return without_pictures(body, _PICTURE)
    if "reasoning" in said:
        messages = map(decoded, body["messages"])
        kept = [{key: m[key] for key in m if not key.startswith("reasoning")} for m in messages]
        return {**body, "messages": kept}
    return None
