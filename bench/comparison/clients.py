"""Clients of the programs that are compared: they ask for answers as streams, over HTTP."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import count

import trio

from ..subjects.subject import Life

IN_A_SESSION = 5
"""Turns after which another session is used, so that no conversation grows without end."""
BEFORE_GIVING_UP = 30.0


async def ask(life: Life, session: str, text: str) -> bool:
    """Ask, and return True once the whole answer has arrived, False if it was cut off."""
    try:
        async with await trio.open_tcp_stream("127.0.0.1", life.port) as stream:
            await stream.send_all(life.subject.request(session, f"Please. [[{text}]]"))
            got = b""
            while b"data: [DONE]" not in got and (more := await stream.receive_some(65536)):
                got += more
    except (OSError, trio.BrokenResourceError):
        return False
    return b"data: [DONE]" in got and f"end of [({text})]".encode() in _words(got)


def _words(stream: bytes) -> bytes:
    """Return the words of a stream of events, in which they may be in pieces."""
    words = []
    for line in stream.split(b"\n"):
        if line.startswith(b"data: {"):
            try:
                choices = json.loads(line[6:].decode()).get("choices") or [{}]
            except ValueError:
                continue
            words.append(choices[0].get("delta", {}).get("content") or "")
    return "".join(words).encode()


async def ask_many(life: Life, name: str, at_once: int, turns: int, seconds: float) -> int:
    """Run so many turns, or as many as the time allows. Return the number of those with a whole answer."""
    left, whole = iter(range(turns)), 0

    async def person(number: int) -> None:
        nonlocal whole
        for turn, _ in zip(count(), left, strict=False):
            session = f"{name}-{number}-{turn // IN_A_SESSION}"
            is_whole = await ask(life, session, f"quick {session} {turn}")
            whole += is_whole

    with trio.move_on_after(seconds):
        async with trio.open_nursery() as people:
            for number in range(at_once):
                people.start_soon(person, number)
    return whole


async def until(is_so: Callable[[], bool], within: float = BEFORE_GIVING_UP) -> float | None:
    """Wait for something in another process. Return its time on the monotonic clock, or None if it does not
    happen in time."""
    with trio.move_on_after(within):
        while not is_so():  # noqa: ASYNC110 - of another process
            await trio.sleep(0.005)
        return time.monotonic()
    return None
