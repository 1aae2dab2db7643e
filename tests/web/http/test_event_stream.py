"""The end of a stream of events is one piece, because each piece costs a call of the system and a step."""

from __future__ import annotations

from typing import Any

import trio

from hermes_trio.web.http.event_stream import EventStream, Write


async def test_the_last_event_is_sent_with_the_end_of_the_response() -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        await trio.sleep_forever()

    async def send(message: Any) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(message)

    async def writer(write: Write) -> bytes:
        await write(b"data: 1\n\n")
        return b"data: [DONE]\n\n"

    await EventStream(writer)({"type": "http"}, receive, send)
    start, first, last = sent
    assert start["type"] == "http.response.start"
    assert (first["body"], first["more_body"]) == (b"data: 1\n\n", True)
    assert last["body"] == b"data: [DONE]\n\n"
    assert not last.get("more_body")
