"""Requests in Anthropic's messages format. The reasoning of the model is sent back unchanged, block by block
and with its signatures: without them the model refuses to continue after a tool call."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ....base.world import World
from ....state.tables.transcript import ToolCall
from ..earlier_messages import EarlierMessages, decoded
from ..endpoint import Body, Endpoint
from ..model import Item, ModelRequest
from ..model_messages import AssistantMessage, Message, ToolResult
from ..pictures import EncodedPicture, encoded
from ..refused_pictures import speaks_of_pictures, without_pictures
from ..repair import clean
from ..stream import VendorRequest, open_answer, path
from .anthropic_answer import THOUGHTS, MessagesFold

if TYPE_CHECKING:
    from ..model_clients import httpx

_FORMAT = "messages"
_PICTURE = "image"
_VERSION = "2023-06-01"
_LONGEST_ANSWER = 32_000
_LONGEST_ANSWER_OF_OLD = 4_096
"""Maximum length of an answer that every model of the third generation accepts."""
_BUDGETS = {"minimal": 2_000, "low": 4_000, "medium": 8_000, "high": 16_000, "xhigh": 32_000, "max": 32_000}
_CACHED = {"type": "ephemeral"}


class AnthropicMessages:
    """A model on a server with Anthropic's messages format."""

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
        headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": _VERSION,
        }
        if endpoint.api_key and endpoint.api_key.startswith(
            "sk-ant-oat"
        ):  # from a sign-in; keys of the console differ
            headers["authorization"] = f"Bearer {endpoint.api_key}"
        elif endpoint.api_key:
            headers["x-api-key"] = endpoint.api_key
        tail = "/messages" if endpoint.base_url.rstrip("/").endswith("/v1") else "/v1/messages"
        vendor_request = VendorRequest(
            path(endpoint, tail),
            headers,
            partial(_body, request, endpoint),
            partial(MessagesFold, endpoint),
            amended,
            self._refused,
        )
        return open_answer(self._client, endpoint, vendor_request, self._world)


def generation(model: str) -> tuple[int, int]:
    """Return the version in a model's name, at any place in it: claude-3-7-sonnet, claude-opus-4-6,
    claude-sonnet-5. A name without a version counts as a new model."""
    found = re.search(r"claude\D*?[-@.](\d{1,2})(?:[-.](\d{1,2}))?(?!\d)", model)
    return (int(found[1]), int(found[2] or 0)) if found else (99, 0)


async def _body(request: ModelRequest, endpoint: Endpoint) -> Body:
    if request.earlier is not None:
        encode = partial(_encoded, endpoint, request.files)
        await request.earlier.encode_in_steps(_FORMAT, endpoint.origin, encode)
    return messages_body(request, endpoint)


def messages_body(request: ModelRequest, endpoint: Endpoint) -> Body:
    """Return the request as the JSON body for Anthropic."""
    earlier = request.earlier or EarlierMessages()
    turns: list[Body | msgspec.Raw] = [
        *earlier.encoded(_FORMAT, endpoint.origin, partial(_encoded, endpoint, request.files))
    ]
    turns += _turns(earlier.repaired_rest(request.messages[earlier.count :]), endpoint, request.files)
    version = generation(endpoint.model)
    longest = _LONGEST_ANSWER if version >= (4, 0) else _LONGEST_ANSWER_OF_OLD
    body: Body = {
        "model": endpoint.model,
        "max_tokens": request.max_tokens or longest,
        "stream": True,
        "messages": _marked(turns),
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": clean(request.system), "cache_control": _CACHED}]
    if request.tools:
        body["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
            for tool in request.tools
        ]
        if not request.may_call:
            body["tool_choice"] = {"type": "none"}
    body |= _thinking(request, version, body["messages"], body["max_tokens"])
    if request.temperature is not None and "thinking" not in body and version < (4, 7):
        body["temperature"] = min(request.temperature, 1.0)
    return body


def _thinking(request: ModelRequest, version: tuple[int, int], turns: list[Body], most: int) -> Body:
    """Return the keys for the reasoning effort, as the generation of the model expects them."""
    effort = request.effort
    if effort is None or effort == "none" or version < (3, 7):
        return {}
    if version >= (4, 6):
        words = {"minimal": "low", "xhigh": "xhigh" if version >= (4, 7) else "high"}
        return {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": words.get(effort, effort)},
        }
    # In the middle of a round of tools, an older model accepts thinking only if the round began with it.
    if turns[-1]["content"][0]["type"] == "tool_result" and turns[-2]["content"][0]["type"] not in THOUGHTS:
        return {}
    budget = _BUDGETS[effort]
    return {
        "thinking": {"type": "enabled", "budget_tokens": budget},
        "max_tokens": max(most, budget + _LONGEST_ANSWER_OF_OLD),
    }


def _encoded(endpoint: Endpoint, files: Path | None, messages: Sequence[Message]) -> list[msgspec.Raw]:
    return [msgspec.Raw(msgspec.json.encode(turn)) for turn in _turns(messages, endpoint, files)]


def _turns(messages: Iterable[Message], endpoint: Endpoint, files: Path | None) -> list[Body]:
    """Return the messages as alternating turns: everything that is not from the model, results included,
    belongs to the user."""
    turns: list[Body] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _blocks(message, endpoint, files)
    return turns


def _marked(turns: list[Body | msgspec.Raw]) -> list[Body | msgspec.Raw]:
    """Mark the last three turns of the user: a marked block and everything before it is read from the cache
    by the next request. Turns alternate, and the last one is the user's."""
    for at in range(len(turns) - 1, max(len(turns) - 6, -1), -2):
        turn = turns[at] = decoded(turns[at])
        turn["content"][-1]["cache_control"] = _CACHED
    return turns


def _blocks(message: Message, endpoint: Endpoint, files: Path | None) -> list[Body]:
    """Return the content blocks of a message."""
    match message:
        case AssistantMessage():
            return _answer(message, endpoint)
        case ToolResult():
            block: Body = {"type": "tool_result", "tool_use_id": message.call_id, "content": message.content}
            return [{**block, "is_error": True} if message.is_error else block]
    pictures = (encoded(files, picture) for picture in message.pictures)
    return [*(_picture(one) for one in pictures if one), {"type": "text", "text": message.text}]


def _picture(one: EncodedPicture) -> Body:
    source = {"type": "base64", "media_type": one.mime_type, "data": one.base64}
    return {"type": _PICTURE, "source": source}


def _answer(message: AssistantMessage, endpoint: Endpoint) -> list[Body]:
    """Return the blocks of an answer: the original ones if this model wrote it and its text is unchanged;
    else its text and its calls."""
    calls = {call.id: call for call in message.calls}
    blocks: list[Body] = []
    for block in _opaque(message.opaque, endpoint):
        if block.get("type") != "tool_use":
            blocks.append(block)
        elif call := calls.pop(str(block.get("id")), None):
            blocks.append(_use(call))
    text = "".join(block.get("text", "") for block in blocks)
    if not blocks or blocks[-1]["type"] in THOUGHTS or text.strip() != message.text.strip():
        calls = {call.id: call for call in message.calls}
        blocks = [{"type": "text", "text": message.text.rstrip()}] if message.text else []
    return blocks + [_use(call) for call in calls.values()]


def _use(call: ToolCall) -> Body:
    arguments = msgspec.Raw(call.arguments.encode())
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _opaque(text: str | None, endpoint: Endpoint) -> list[Body]:
    """Return the original blocks of an answer if this model wrote it; else none."""
    try:
        value = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except msgspec.MsgspecError:
        return []
    return value["blocks"] if value.get("origin") == endpoint.origin else []


def amended(body: Body, said: str) -> Body | None:
    """Return the body without the part that the server refused; None if that cannot be left out."""
    low = said.lower()
    for name in ("temperature", "tool_choice"):
        if name in low and name in body:
            return {key: body[key] for key in body if key != name}
    if speaks_of_pictures(low):
        return without_pictures(body, _PICTURE)
    if found := re.search(r"max_tokens: \d+ > (\d+)", low):
        return {**body, "max_tokens": int(found[1])}
    if "thinking" in low and re.search("signature|cannot be modified|bound to|expected", low):
        kept = [
            {**turn, "content": [block for block in turn["content"] if block["type"] not in THOUGHTS]}
            for turn in map(decoded, body["messages"])
        ]
        return {key: body[key] for key in body if key != "thinking"} | {"messages": kept}
    if "thinking" in low or "output_config" in low or "effort" in low:
        return {key: body[key] for key in body if key not in ("thinking", "output_config")}
    return None
