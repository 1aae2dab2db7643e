"""Rules for requests in both wire formats, as strict as the strictest server. Tests check every request body
with them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.model import ModelRequest
from hermes_trio.agent.providers.wire.anthropic import messages_body
from hermes_trio.agent.providers.wire.openai import chat_body

Body = Mapping[str, Any]

_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CHAT_KEYS = {
    "model", "messages", "stream", "stream_options", "tools", "max_tokens", "max_completion_tokens",
    "temperature", "reasoning_effort",
}  # fmt: skip
_MESSAGES_KEYS = {
    "model", "messages", "stream", "max_tokens", "system", "tools", "temperature", "thinking",
    "output_config",
}  # fmt: skip


class BreaksTheRules(AssertionError):
    """A body that a server would refuse."""


def _must(holds: bool, rule: str, about: object = "") -> None:
    if not holds:
        raise BreaksTheRules(f"{rule}: {about!r}")


def check(path: str, body: Body) -> None:
    """Raise `BreaksTheRules` if a server with this address would refuse the body."""
    (check_messages if path.endswith("/messages") else check_chat)(body)


def check_request(request: ModelRequest) -> None:
    """Check a request in both wire formats."""
    chat = chat_body(request, Endpoint("openai", "http://127.0.0.1/v1", "m"))
    messages = messages_body(request, Endpoint("anthropic", "http://127.0.0.1", "claude-4"))
    check_chat(msgspec.json.decode(msgspec.json.encode(chat)))
    check_messages(msgspec.json.decode(msgspec.json.encode(messages)))


def check_chat(body: Body) -> None:
    """Check a body in OpenAI's chat completions format."""
    _must(set(body) <= _CHAT_KEYS, "no unknown keys", set(body) - _CHAT_KEYS)
    _common(body)
    _must(not {"max_tokens", "max_completion_tokens"} <= set(body), "one limit, not two")
    _tools([tool["function"] for tool in body.get("tools", [])], "parameters")
    messages = list(body["messages"])
    if messages[0]["role"] == "system":
        _text(messages.pop(0)["content"])
    _must(messages[0]["role"] == "user", "a person begins", messages[0])
    _must(messages[-1]["role"] in ("user", "tool"), "the model does not speak last", messages[-1])
    owed: list[str] = []
    ids: set[str] = set()
    before = ""
    for message in messages:
        role = message["role"]
        _must(role in ("user", "assistant", "tool"), "a known role", role)
        if role == "tool":
            _must(
                bool(owed) and message["tool_call_id"] == owed.pop(0), "results follow their calls", message
            )
            _text(message["content"])
        else:
            _must(not owed, "each call has its result", owed)
            _must(role != before, "people and model take turns", message)
        if role == "user":
            _words(message["content"])
        if role == "assistant":
            calls = message.get("tool_calls")
            _must(calls is None or len(calls) > 0, "no empty list of calls", message)
            _must(message["content"] is not None or calls, "an answer is not empty", message)
            if message["content"] is not None:
                _text(message["content"])
            for call in calls or []:
                _must(call["type"] == "function", "a call is one of a function", call)
                _call(call["id"], call["function"]["name"], ids)
                _must(isinstance(call["function"]["arguments"], str), "arguments are text", call)
                _must(isinstance(json.loads(call["function"]["arguments"]), dict), "a JSON object", call)
                owed.append(call["id"])
        before = role
    _must(not owed, "each call has its result", owed)


def check_messages(body: Body) -> None:
    """Check a body in Anthropic's messages format."""
    _must(set(body) <= _MESSAGES_KEYS, "no unknown keys", set(body) - _MESSAGES_KEYS)
    _common(body)
    _must(isinstance(body["max_tokens"], int) and body["max_tokens"] > 0, "a limit", body["max_tokens"])
    _tools(body.get("tools", []), "input_schema")
    for block in body.get("system", []):
        _text(block["text"])
    thinking = body.get("thinking")
    if thinking:
        _must("temperature" not in body, "who thinks takes no temperature")
        if thinking["type"] == "enabled":
            _must(
                1024 <= thinking["budget_tokens"] < body["max_tokens"], "a budget below the limit", thinking
            )
    turns = body["messages"]
    _must(turns[0]["role"] == "user", "a person begins", turns[0])
    _must(turns[-1]["role"] == "user", "the model does not speak last", turns[-1])
    marks = json.dumps([body.get("system", []), turns]).count('"cache_control"')
    _must(marks <= 4, "at most four marks for the cache", marks)
    owed: list[str] = []
    ids: set[str] = set()
    for number, turn in enumerate(turns):
        _must(turn["role"] == ("user", "assistant")[number % 2], "people and model take turns", turn)
        _must(len(turn["content"]) > 0, "no empty turn", turn)
        if turn["role"] == "user":
            results = turn["content"][: len(owed)]
            _must([block.get("tool_use_id") for block in results] == owed, "results follow their calls", turn)
            for block in results:
                _must(block["type"] == "tool_result", "results come first", block)
                _text(block["content"])
            for block in turn["content"][len(owed) :]:
                _must(block["type"] in ("text", "image"), "no result without its call", block)
                if block["type"] == "text":
                    _text(block["text"])
                else:
                    _must(block["source"]["media_type"].startswith("image/"), "a picture", block)
            owed = []
        else:
            owed = _answer(turn["content"], ids)
    _must(not owed, "each call has its result", owed)


def _answer(blocks: Sequence[Body], ids: set[str]) -> list[str]:
    owed: list[str] = []
    for block in blocks:
        match block["type"]:
            case "text":
                _text(block["text"])
            case "thinking":
                _must(bool(block["signature"]), "a thought is signed", block)
            case "redacted_thinking":
                _must(bool(block["data"]), "a hidden thought has something in it", block)
            case "tool_use":
                _call(block["id"], block["name"], ids)
                _must(isinstance(block["input"], dict), "arguments are an object", block)
                owed.append(block["id"])
            case kind:
                _must(False, "a known block", kind)
    _must(blocks[-1]["type"] not in ("thinking", "redacted_thinking"), "a thought is not the end", blocks)
    return owed


def _words(content: str | Sequence[Body]) -> None:
    """Check a message of a person: a text, or pictures with a text."""
    parts: Sequence[Body] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for part in parts:
        if part["type"] == "image_url":
            _must(part["image_url"]["url"].startswith("data:image/"), "a picture in the request", part)
        else:
            _text(part["text"])


def _common(body: Body) -> None:
    _must(bool(body["model"]), "a model")
    _must(body["stream"] is True, "streamed")
    _must(len(body["messages"]) > 0, "something is said")
    json.dumps(body, ensure_ascii=False).encode()  # no lone surrogate


def _tools(tools: Sequence[Body], schema: str) -> None:
    names = [tool["name"] for tool in tools]
    _must(len(set(names)) == len(names), "each tool has its own name", names)
    for tool in tools:
        _must(bool(_NAME.fullmatch(tool["name"])), "a plain name", tool)
        _must(tool[schema].get("type") == "object", "arguments are an object", tool)


def _call(id_: str, name: str, ids: set[str]) -> None:
    _must(bool(_ID.fullmatch(id_)), "a short and plain id", id_)
    _must(id_ not in ids, "an id of its own", id_)
    _must(bool(_NAME.fullmatch(name)), "a call has a plain name", name)
    ids.add(id_)


def _text(text: object) -> None:
    _must(isinstance(text, str) and bool(text.strip()), "text is not empty", text)
