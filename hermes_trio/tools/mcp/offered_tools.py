"""The tools of a server as tools of ours: their names, their arguments, and the results of calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from ...state.db.column_text import storable
from ..output import shortened
from ..tool import LONGEST_RESULT, Result, Tool, ToolFailed, Workplace

if TYPE_CHECKING:
    from mcp import types

LONGEST_NAME = 64
"""Characters that every vendor accepts."""
LONGEST_DESCRIPTION = 2_000
LONGEST_TEXT = LONGEST_RESULT - 200
"""Characters of a result; with the note about its cut it stays within `LONGEST_RESULT`."""
MOST_TOOLS = 100
"""Tools of one server: each request to the model pays for all of them."""

_PLAIN_SERVER = re.compile(r"[A-Za-z0-9]+(?:[_-][A-Za-z0-9]+)*")
_PLAIN_TOOL = re.compile(r"[A-Za-z0-9_-]+")

Call = Callable[[str, dict[str, Any]], Awaitable["types.CallToolResult"]]
"""Calls the tool of this name with these arguments. Raises `ToolFailed`."""


def name_of(server: str, tool: str) -> str:
    """Return the name of a tool among the tools of all servers. A name with characters that vendors refuse is
    made plain and gets a hash, so that no two names are the same."""
    name = f"mcp__{server}__{tool}"
    if _PLAIN_SERVER.fullmatch(server) and _PLAIN_TOOL.fullmatch(tool) and len(name) <= LONGEST_NAME:
        return name
    own = sha256(f"{server}\0{tool}".encode("utf-8", "replace")).hexdigest()[:8]
    return plain_name(name)[: LONGEST_NAME - 9] + "_" + own


def plain_name(name: str) -> str:
    """Return a name with `_` in place of every character that may have a meaning somewhere."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def tools_of(server: str, offered: Iterable[types.Tool], call: Call, *, within: float) -> dict[str, Tool]:
    """Return the tools of a server by their names here."""
    tools: dict[str, Tool] = {}
    for one in offered:
        if len(tools) < MOST_TOOLS:
            tool = _tool(name_of(server, one.name), server, one, call, within)
            tools.setdefault(tool.name, tool)
    return tools


def _tool(name: str, server: str, one: types.Tool, call: Call, within: float) -> Tool:
    description = storable((one.description or one.title or one.name)[:LONGEST_DESCRIPTION])
    return Tool(
        name,
        f"{description} (A tool of the server {server!r}.)",
        _schema(one.input_schema),
        partial(_run, call, one.name),
        # Only the server says so; the only effect is that such calls run at the same time.
        reads_only=bool(one.annotations and one.annotations.read_only_hint),
        untrusted=True,
        within=within or None,
    )


def _schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the arguments in a form that every vendor accepts: an object."""
    return {"properties": {}, **{key: given[key] for key in given if key != "$schema"}, "type": "object"}


async def _run(call: Call, tool: str, arguments: dict[str, Any], place: Workplace) -> Result:
    redact = place.masking
    try:
        done = await call(tool, arguments)
    except ToolFailed as error:
        raise ToolFailed(shortened(str(error), LONGEST_TEXT, redact)) from error
    return Result(shortened(_text(done), LONGEST_TEXT, redact) or "(no output)", is_error=bool(done.is_error))


def _text(done: types.CallToolResult) -> str:
    """Return a result as text. A part that is no text is described."""
    parts = [_part(one) for one in done.content]
    if not parts and done.structured_content is not None:
        parts.append(msgspec.json.encode(done.structured_content).decode())
    return "\n".join(parts)


def _part(one: types.ContentBlock) -> str:
    match one.type:
        case "text":
            return one.text
        case "image" | "audio":
            return f"[{one.type}, {one.mime_type}, {len(one.data) * 3 // 4} bytes: it cannot be shown here]"
        case "resource_link":
            return f"[{one.name}: {one.uri}]"
        case "resource":
            text = getattr(one.resource, "text", None)
            return f"[{one.resource.uri}]\n{text}" if text else f"[{one.resource.uri}: no text]"
