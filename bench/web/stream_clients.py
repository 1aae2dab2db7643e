"""Many clients that read streams of words, in a process of its own with one selector: cheap enough to read a
thousand streams beside the server that is measured."""

from __future__ import annotations

import multiprocessing
import re
import selectors
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import NamedTuple

from .gateway import WITHIN, completion_request

SAMPLED = 20
"""The number of clients that note how long each word was on its way."""
_WORD = re.compile(rb"~(\d+\.\d\d\d) ")


class Counted(NamedTuple):
    """The words that the clients have read since they were asked the last time."""

    at: float
    cpu: float
    """Seconds of CPU that their process has used since it began."""
    open: int
    words: int
    delays: list[float]
    """Milliseconds from the model to the client, of each word of some streams."""


@dataclass(frozen=True, slots=True)
class StreamClients:
    """The process of the clients."""

    pipe: Connection

    def counted(self) -> Counted:
        """Return what they have read since the last call."""
        self.pipe.send("count")
        if not self.pipe.poll(WITHIN):
            raise TimeoutError("the clients of the benchmark take too long")
        counted: Counted = self.pipe.recv()
        return counted


@contextmanager
def stream_clients(port: int, count: int, text: str) -> Iterator[StreamClients]:
    """Let as many clients ask this port for a stream, each in a session of its own, during the block."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_read_streams, args=(there, port, count, text))
    process.start()
    try:
        yield StreamClients(here)
    finally:
        process.terminate()
        process.join()


def _read_streams(pipe: Connection, port: int, count: int, text: str) -> None:
    readers = _Readers()
    for number in range(count):
        stream = socket.create_connection(("127.0.0.1", port))
        stream.sendall(completion_request(f"stream-{number}", f"{text} {number}"))
        readers.add(stream, sampled=number < SAMPLED)
        readers.read(0)
    readers.selector.register(pipe, selectors.EVENT_READ)
    while True:
        if readers.read(None):
            pipe.recv()
            pipe.send(readers.counted())


class _Readers:
    """The sockets of the clients, and what was read."""

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self._open: dict[int, tuple[socket.socket, bool]] = {}
        self._words, self._delays = 0, list[float]()

    def add(self, stream: socket.socket, *, sampled: bool) -> None:
        stream.setblocking(False)
        self._open[stream.fileno()] = stream, sampled
        self.selector.register(stream, selectors.EVENT_READ)

    def read(self, timeout: float | None) -> bool:
        """Read from every socket that has data; return whether the pipe has a question."""
        is_asked = False
        for key, _ in self.selector.select(timeout):
            if isinstance(key.fileobj, socket.socket):
                self._read(key.fd)
            else:
                is_asked = True
        return is_asked

    def _read(self, fd: int) -> None:
        stream, sampled = self._open[fd]
        try:
            data = stream.recv(65536)
        except BlockingIOError:
            return
        except ConnectionError:
            data = b""
        if not data:
            self.selector.unregister(stream)
            stream.close()
            del self._open[fd]
            return
        words = data.count(b"~")
        self._words += words
        if sampled and words:
            now = time.monotonic()
            self._delays += [(now - float(written)) * 1000 for written in _WORD.findall(data)]

    def counted(self) -> Counted:
        words, self._words = self._words, 0
        delays, self._delays = self._delays, []
        now, cpu = time.monotonic(), time.process_time()
        return Counted(now, cpu, len(self._open), words, delays)
