"""Streams of words, each at its own rate, all written by one task: a thousand of them cost a part of a core.

The words begin when a measurement says so, so that a thousand requests are answered first. A word is `~` and
the time of the monotonic clock at which it was written. No other text of a stream has a `~`, so a reader
counts words by counting these, wherever the stream is cut into pieces.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import trio

TICK = 0.01
_MOST_PENDING = 65536
_GOLDEN = 0.618
"""Multiples of this, without their whole parts, spread the streams over the time between two words."""


@dataclass(slots=True)
class _WordStream:
    fd: int
    period: float
    seconds: float
    pending: bytes = b""
    """Bytes that the socket did not take. If they are too many, words are left out."""
    until: float = 0.0
    ended: trio.Event = field(default_factory=trio.Event)


class WordWriter:
    """Writes words to any number of streams."""

    def __init__(self, encode: Callable[[str], bytes]) -> None:
        """`encode` returns the bytes on the wire for a word."""
        self._encode = encode
        self._waiting: list[_WordStream] = []
        self._due: list[tuple[float, int, _WordStream]] = []
        self._numbers = count()
        self._has_streams = trio.Event()

    async def write(self, stream: trio.SocketStream, *, rate: float, seconds: float) -> None:
        """Wait for `begin`, then write words to the stream until these seconds have passed or its reader has
        gone."""
        one = _WordStream(stream.socket.fileno(), 1 / rate, seconds)
        self._waiting.append(one)
        await one.ended.wait()
        await stream.send_all(one.pending)

    def begin(self) -> None:
        """Begin all streams that wait."""
        now = time.monotonic()
        for one in self._waiting:
            number, one.until = next(self._numbers), now + one.seconds
            heapq.heappush(self._due, (now + number * _GOLDEN % 1 * one.period, number, one))
        self._waiting = []
        self._has_streams.set()

    async def run(self) -> None:
        """Write the words of all streams when they are due."""
        while True:
            await self._has_streams.wait()
            self._has_streams = trio.Event()
            while self._due:
                self._write_due(time.monotonic())
                await trio.sleep(TICK)

    def _write_due(self, now: float) -> None:
        data = self._encode(f"~{now:.3f} ")
        while self._due and self._due[0][0] <= now:
            due, number, one = self._due[0]
            if due < one.until and _put(one, data):
                heapq.heapreplace(self._due, (due + one.period, number, one))
            else:
                heapq.heappop(self._due)
                one.ended.set()


def _put(one: _WordStream, data: bytes) -> bool:
    """Write to the socket what it takes at once; return False if its reader has gone."""
    if len(one.pending) < _MOST_PENDING:
        one.pending += data
    try:
        one.pending = one.pending[os.write(one.fd, one.pending) :]
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True
