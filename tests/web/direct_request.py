"""Requests that reach the application of a gateway without a socket, so that many arrive in one moment."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import trio

from hermes_trio.web.app import Web
from hermes_trio.web.http.connection import Message

from .conftest import KEY


async def complete_directly(web: Web, session: str, text: str, on_data: Callable[[bytes], object]) -> None:
    """Complete a chat in this session as a stream. `on_data` is called with each piece of the response; the
    first one is empty, for its head."""
    asked = {"model": "x", "stream": True, "messages": [{"role": "user", "content": text}]}
    left = [{"type": "http.request", "body": msgspec.json.encode(asked), "more_body": False}]

    async def receive() -> Message:
        if not left:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return left.pop()

    async def send(message: Message) -> None:
        on_data(message.get("body", b""))
        await trio.lowlevel.checkpoint()

    await web.opened.application(_completion_in(session), receive, send)


def _completion_in(session: str) -> Message:
    """Return the scope of a request for a completion in this session."""
    return {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "headers": [
            (b"authorization", f"Bearer {KEY}".encode()),
            (b"content-type", b"application/json"),
            (b"x-hermes-session-id", session.encode()),
        ],
        "query_string": b"",
        "client": None,
    }
