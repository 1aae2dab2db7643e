"""The wire between a gateway and the loopback platform: JSON objects, one a line, over TCP on 127.0.0.1.

    gateway    {"type": "hello", "id": 1, "account": "main"}        first, and once
    platform   {"type": "answer", "id": 1, "value": null}           to each call, in any order
    gateway    {"type": "send", "id": 2, "message": {"chat_id": "42", "text": "Hi.", "key": "k", ...}}
               edit, delete, typing and find carry the arguments of those calls
    platform   {"type": "failure", "id": 2, "error": "FloodWait", "text": "...", "seconds": 5}
    platform   {"type": "said", "number": 7, "event": {...}}        and no other before this is accepted
    gateway    {"type": "accept", "number": 7}                      it is stored; has no answer

A line is at most a megabyte. Whatever else comes ends the connection: nothing can be known of a peer that
does not keep to this. A message that was not accepted comes again, first, on the next connection.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
import trio

from ..base.messages import MessageEvent
from ..platform.contract import (
    ChatGone,
    CredentialsRefused,
    FloodWait,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Preformatted,
    Refused,
)

LONGEST_LINE = 1 << 20
_READ_AT_ONCE = 1 << 16


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    id: int
    account: str


class Send(msgspec.Struct, frozen=True, tag="send"):
    id: int
    message: Outgoing


class Edit(msgspec.Struct, frozen=True, tag="edit"):
    id: int
    chat_id: str
    message_id: str
    text: str
    preformatted: Preformatted = ()


class Delete(msgspec.Struct, frozen=True, tag="delete"):
    id: int
    chat_id: str
    message_id: str


class Typing(msgspec.Struct, frozen=True, tag="typing"):
    id: int
    chat_id: str
    thread_id: str | None = None


class Find(msgspec.Struct, frozen=True, tag="find"):
    id: int
    chat_id: str
    key: str


class Accept(msgspec.Struct, frozen=True, tag="accept"):
    number: int


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    id: int
    value: str | None = None


class Failure(msgspec.Struct, frozen=True, tag="failure"):
    id: int
    error: str
    text: str
    seconds: float = 0.0


class Said(msgspec.Struct, frozen=True, tag="said"):
    number: int
    event: MessageEvent


CallFrame = Send | Edit | Delete | Typing | Find
FromGateway = Hello | CallFrame | Accept
FromPlatform = Answer | Failure | Said

decode_from_gateway: Callable[[bytes], FromGateway] = msgspec.json.Decoder(FromGateway).decode
decode_from_platform: Callable[[bytes], FromPlatform] = msgspec.json.Decoder(FromPlatform).decode

_Frame = TypeVar("_Frame")

_ERRORS: dict[str, Callable[[str], PlatformError]] = {
    kind.__name__: kind for kind in (LinkLost, NotSent, OutcomeUnknown, Refused, ChatGone)
}


class WireError(Exception):
    """The peer said what is not on this wire."""


def encode(frame: FromGateway | FromPlatform) -> bytes:
    """A line; `Refused` for what cannot be one."""
    try:
        line = msgspec.json.encode(frame) + b"\n"
    except UnicodeEncodeError as error:
        raise Refused("The text has half a character in it.") from error
    if len(line) > LONGEST_LINE:
        raise Refused(f"A frame of {len(line)} bytes; the longest is {LONGEST_LINE}.")
    return line


def failure(number: int, error: PlatformError) -> Failure:
    """This error as a frame."""
    seconds = error.seconds if isinstance(error, FloodWait) else 0.0
    return Failure(number, type(error).__name__, str(error), seconds)


def error_of(frame: Failure, platform: str) -> PlatformError:
    """The error that the frame was made of."""
    if frame.error == "FloodWait":
        return FloodWait(frame.seconds)
    if frame.error == "CredentialsRefused":
        return CredentialsRefused(platform)
    return _ERRORS.get(frame.error, PlatformError)(frame.text)


class Reader(Generic[_Frame]):
    """Frames out of a stream of bytes. A cancelled read loses nothing."""

    def __init__(
        self, receive_some: Callable[[int], Awaitable[bytes | bytearray]], decode: Callable[[bytes], _Frame]
    ) -> None:
        self._receive_some, self._decode = receive_some, decode
        self._data = bytearray()
        self._searched = 0

    async def read(self) -> _Frame | None:
        """The next frame; None when the connection has ended, be it within a line. `WireError` for what
        is none."""
        while (end := self._data.find(b"\n", self._searched)) < 0:
            self._searched = len(self._data)
            if self._searched > LONGEST_LINE:
                raise WireError(f"A line of more than {LONGEST_LINE} bytes.")
            more = await self._receive_some(_READ_AT_ONCE)
            if not more:
                return None
            self._data += more
        line = bytes(self._data[:end])
        del self._data[: end + 1]
        self._searched = 0
        try:
            return self._decode(line)
        except (ValueError, RecursionError) as error:
            raise WireError(f"{line[:60]!r} is no frame: {error}") from error


@dataclass(slots=True)
class Scissors:
    """What cuts a connection: how many more bytes go through."""

    sent: float = math.inf
    received: float = math.inf

    async def receive_some(self, stream: trio.SocketStream, most: int) -> bytes | bytearray:
        if self.received <= 0:
            self._cut()
        data = await stream.receive_some(int(min(most, self.received)))
        self.received -= len(data)
        return data

    async def send_all(self, stream: trio.SocketStream, data: bytes) -> None:
        part = data[: int(min(len(data), self.sent))]
        self.sent -= len(part)
        await stream.send_all(part)
        if len(part) < len(data):
            self._cut()

    def _cut(self) -> None:
        self.sent = self.received = math.inf
        raise trio.BrokenResourceError("cut by the test")


@asynccontextmanager
async def background(task: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Have `task` run while inside. What the caller's block raises comes out as it was raised: it is one
    task's trouble, and a group around it would tell of a nursery that the caller has never seen."""
    alone: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task)
            try:
                yield
            finally:
                nursery.cancel_scope.cancel(reason="the block is left")
    except BaseExceptionGroup as group:
        if len(group.exceptions) > 1:
            raise
        alone = group.exceptions[0]
    if alone is not None:  # here and not above: there it would get the group as its context
        raise alone
