"""Protocol between a gateway and the loopback platform: JSON objects, one on a line, over TCP on 127.0.0.1.

    gateway    {"type": "hello", "id": 1, "account": "main"}        the first frame, once
    platform   {"type": "answer", "id": 1, "value": null}           to each call, in any order
    gateway    {"type": "send", "id": 2, "message": {"chat_id": "42", "text": "Hi.", "key": "k", ...}}
               edit, delete, typing, draft, react and find carry the arguments of those calls
    platform   {"type": "failure", "id": 2, "error": "FloodWait", "text": "...", "seconds": 5}
    platform   {"type": "said", "number": 7, "event": {...}}        the next one follows after its accept
    gateway    {"type": "accept", "number": 7}                      the event is stored; without an answer

A line has at most a megabyte. Anything else ends the connection, because the state of a peer that breaks the
protocol is unknown. An event that was not accepted is the first one on the next connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from ..base.messages import MessageEvent
from ..platform.contract import (
    ChatGone,
    CredentialsRefused,
    Draft,
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


class ShowDraft(msgspec.Struct, frozen=True, tag="draft"):
    id: int
    draft: Draft


class React(msgspec.Struct, frozen=True, tag="react"):
    id: int
    chat_id: str
    message_id: str


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


CallFrame = Send | Edit | Delete | Typing | ShowDraft | React | Find
FromGateway = Hello | CallFrame | Accept
FromPlatform = Answer | Failure | Said

decode_from_gateway: Callable[[bytes], FromGateway] = msgspec.json.Decoder(FromGateway).decode
decode_from_platform: Callable[[bytes], FromPlatform] = msgspec.json.Decoder(FromPlatform).decode

_Frame = TypeVar("_Frame")

_ERRORS: dict[str, Callable[[str], PlatformError]] = {
    kind.__name__: kind for kind in (LinkLost, NotSent, OutcomeUnknown, Refused, ChatGone)
}


class WireError(Exception):
    """The peer broke the protocol."""


def encode(frame: FromGateway | FromPlatform) -> bytes:
    """Return a frame as a line. Raises `Refused` for a frame that has no valid line."""
    try:
        line = msgspec.json.encode(frame) + b"\n"
    except UnicodeEncodeError as error:
        raise Refused("The text contains half a character (a lone surrogate).") from error
    if len(line) > LONGEST_LINE:
        raise Refused(f"The frame has {len(line)} bytes; the limit is {LONGEST_LINE}.")
    return line


def failure(number: int, error: PlatformError) -> Failure:
    """Return the frame of an error."""
    seconds = error.seconds if isinstance(error, FloodWait) else 0.0
    return Failure(number, type(error).__name__, str(error), seconds)


def error_of(frame: Failure, platform: str) -> PlatformError:
    """Return the error of a frame."""
    if frame.error == "FloodWait":
        return FloodWait(frame.seconds)
    if frame.error == "CredentialsRefused":
        return CredentialsRefused(platform)
    return _ERRORS.get(frame.error, PlatformError)(frame.text)


class Reader(Generic[_Frame]):
    """Reader of frames from a byte stream. A cancelled read loses nothing."""

    def __init__(
        self, receive_some: Callable[[int], Awaitable[bytes | bytearray]], decode: Callable[[bytes], _Frame]
    ) -> None:
        self._receive_some, self._decode = receive_some, decode
        self._data = bytearray()
        self._searched = 0

    async def read(self) -> _Frame | None:
        """Read the next frame; None at the end of the connection, even within a line. Raises `WireError` for
        an invalid line."""
        while (end := self._data.find(b"\n", self._searched)) < 0:
            self._searched = len(self._data)
            if self._searched > LONGEST_LINE:
                raise WireError(f"The line has more than {LONGEST_LINE} bytes.")
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
            raise WireError(f"{line[:60]!r} is no valid frame: {error}") from error
