"""An IMAP connection: commands one after another, literals, and IDLE."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import trio

from .settings import EmailSettings, open_stream

ANSWER_WITHIN = 60.0
IDLE_FOR = 300.0
"""Seconds after which IDLE is begun anew, which shows that the connection is still there."""
LARGEST_LINE = 1 << 20
LARGEST = 40 << 20
"""Bytes of a message that is read."""

_LITERAL = re.compile(rb"\{(\d+)\}\r\n\Z")
_EXISTS = re.compile(rb"\* \d+ EXISTS", re.IGNORECASE)
_UID, _SIZE = re.compile(rb"\bUID (\d+)"), re.compile(rb"\bRFC822\.SIZE (\d+)")


class ImapLost(Exception):
    """The connection has ended, or what came is no IMAP."""


class ImapRefused(Exception):
    """The server refuses a command."""


class LoginRefused(ImapRefused):
    """The server refuses the address or the password."""


@dataclass(frozen=True, slots=True)
class Response:
    """One response: its text, and the literals that stand in it as `{length}`."""

    text: bytes
    literals: tuple[bytes, ...] = ()


class ImapConnection:
    """A connection. A call that is cancelled leaves it unusable, except for the wait in `idle`."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._data = bytearray()
        self._tags = 0
        self.has_news = False
        """The server has told of new mail since this was last set to False."""

    async def login(self, address: str, password: str) -> None:
        """Authenticate. Raises `LoginRefused` or `ImapLost`."""
        with _answered():
            greeting = await self._response()
            if not greeting.text.upper().startswith(b"* OK"):
                raise ImapLost(f"the server greets with {_shown(greeting.text)}")
            tag = await self._send("AUTHENTICATE PLAIN")
            if (asked := await self._response()).text.startswith(b"+"):
                secret = base64.b64encode(f"\0{address}\0{password}".encode())
                await self._write(secret + b"\r\n")
                asked = await self._response()
            while not asked.text.startswith(tag):
                asked = await self._response()
        status = asked.text.removeprefix(tag).strip().upper()
        if not status.startswith(b"OK"):
            if b"UNAVAILABLE" in status or b"[INUSE]" in status:
                raise ImapLost(_shown(asked.text))
            raise LoginRefused(_shown(asked.text))

    async def select(self, mailbox: str = "INBOX", *, to_read: bool = False) -> str:
        """Select a mailbox, and return the validity of its numbers."""
        responses = await self.command(f"{'EXAMINE' if to_read else 'SELECT'} {mailbox}")
        for one in responses:
            if (found := re.search(rb"\[UIDVALIDITY (\d+)\]", one.text)) is not None:
                return found[1].decode()
        raise ImapLost("the mailbox has no UIDVALIDITY")

    async def search(self, criteria: str) -> list[int]:
        """Return the numbers of messages, in their order."""
        found: list[int] = []
        for one in await self.command(f"UID SEARCH {criteria}"):
            if one.text.upper().startswith(b"* SEARCH"):
                found += [int(number) for number in one.text.split()[2:] if number.isdigit()]
        return sorted(found)

    async def size(self, uid: int) -> int | None:
        """Return the size of a message; None if it is gone."""
        for one in await self.command(f"UID FETCH {uid} (UID RFC822.SIZE)"):
            if (size := _SIZE.search(one.text)) and _is(one, uid):
                return int(size[1])
        return None

    async def fetch(self, uid: int, part: str = "") -> bytes | None:
        """Return a message, or its part HEADER, without marking it as read; None if it is gone."""
        for one in await self.command(f"UID FETCH {uid} (UID BODY.PEEK[{part}])"):
            if one.literals and _is(one, uid):
                return one.literals[0]
        return None

    async def mark_read(self, uids: Iterable[int]) -> None:
        """Mark messages as read."""
        await self.command(f"UID STORE {','.join(map(str, uids))} +FLAGS.SILENT (\\Seen)")

    async def idle(self, waiting: trio.CancelScope) -> None:
        """Wait for new mail, until the scope is cancelled, or for some minutes."""
        tag = await self._send("IDLE")
        with _answered():
            while not (first := await self._response()).text.startswith(b"+"):
                if first.text.startswith(tag):
                    raise ImapRefused(f"the server has no IDLE: {_shown(first.text)}")
        waiting.deadline = min(waiting.deadline, trio.current_time() + IDLE_FOR)
        with waiting:
            while not self.has_news:
                await self._response()
        await self._write(b"DONE\r\n")
        await self._until(tag)

    async def command(self, text: str) -> list[Response]:
        """Make a command and return what comes before its end. Raises `ImapRefused` or `ImapLost`."""
        return await self._until(await self._send(text))

    async def _until(self, tag: bytes) -> list[Response]:
        responses: list[Response] = []
        with _answered():
            while not (response := await self._response()).text.startswith(tag):
                if response.text.upper().startswith(b"* BYE"):
                    raise ImapLost(_shown(response.text))
                responses.append(response)
        if not response.text.removeprefix(tag).strip().upper().startswith(b"OK"):
            raise ImapRefused(_shown(response.text))
        return responses

    async def _send(self, text: str) -> bytes:
        self._tags += 1
        tag = f"h{self._tags}".encode()
        await self._write(tag + b" " + text.encode() + b"\r\n")
        return tag + b" "

    async def _write(self, data: bytes) -> None:
        try:
            await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ImapLost(f"the connection broke: {error.__cause__ or error}") from error

    async def _response(self) -> Response:
        """Read a response. A cancelled read loses nothing."""
        text, literals, at = b"", list[bytes](), 0
        while True:
            while (end := self._data.find(b"\r\n", at)) < 0:
                if len(self._data) - at > LARGEST_LINE:
                    raise ImapLost("the server sends a line without an end")
                await self._receive()
            line = bytes(self._data[at : end + 2])
            text, at = text + line, end + 2
            if (literal := _LITERAL.search(line)) is None:
                del self._data[:at]
                self.has_news = self.has_news or _EXISTS.match(text) is not None
                return Response(text, tuple(literals))
            length = int(literal[1])
            if length > LARGEST:
                raise ImapLost(f"the server sends {length} bytes at once")
            while len(self._data) < at + length:
                await self._receive()
            literals.append(bytes(self._data[at : at + length]))
            at += length

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive_some(1 << 16)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ImapLost(f"the connection broke: {error.__cause__ or error}") from error
        if not data:
            raise ImapLost("the server has closed the connection")
        self._data += data


@contextmanager
def _answered() -> Iterator[None]:
    """Wait for an answer within the block. Too long a wait is a lost connection."""
    with trio.move_on_after(ANSWER_WITHIN) as waiting:
        yield
    if waiting.cancelled_caught:
        raise ImapLost(f"no answer within {ANSWER_WITHIN:g} seconds")


def _is(response: Response, uid: int) -> bool:
    found = _UID.search(response.text)
    return found is not None and int(found[1]) == uid


def _shown(line: bytes) -> str:
    return line.decode("ascii", "replace").strip()[:200]


@asynccontextmanager
async def open_imap(settings: EmailSettings) -> AsyncIterator[ImapConnection]:
    """Be logged in while inside. Raises `LoginRefused`, `ImapLost` or OSError."""
    stream = await open_stream(settings, settings.imap_host, settings.imap_port, tls=settings.tls)
    try:
        connection = ImapConnection(stream)
        await connection.login(settings.address, settings.password)
        yield connection
    finally:
        await trio.aclose_forcefully(stream)
