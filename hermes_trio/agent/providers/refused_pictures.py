"""Refusals of pictures: how they are recognised in what a server says, and the request without pictures."""

from __future__ import annotations

import re

from .earlier_messages import decoded
from .endpoint import Body

_WORDS = re.compile(r"\b(?:images?|image_url|vision|multi-?modal|mmproj|pictures?)\b")
_INSTEAD = (
    "[The person sent a picture here. You were not given it, because your server refuses pictures. Say that "
    "you have not seen it.]"
)


def speaks_of_pictures(said: str) -> bool:
    """Return True if a refusal, in lower case, is about pictures."""
    return _WORDS.search(said) is not None


def without_pictures(body: Body, kind: str) -> Body | None:
    """Return the request with a note in place of each part of this kind; None if it has none."""
    messages, found = [], False
    for message in map(decoded, body["messages"]):
        content = message.get("content")
        if isinstance(content, list) and any(part.get("type") == kind for part in content):
            found = True
            note = {"type": "text", "text": _INSTEAD}
            content = [note if part.get("type") == kind else part for part in content]
        messages.append({**message, "content": content} if "content" in message else message)
    return {**body, "messages": messages} if found else None
