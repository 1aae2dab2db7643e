"""Submission of a message by SMTP, and its outcome as exactly as it is known.

Until the server has been told that the message is whole, it has not accepted it: whatever breaks before that
point had no effect.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

import trio

from ..http_calls import Denied as AnyDenied
from ..http_calls import NoAnswer, NotReached
from .settings import EmailSettings, encrypted, open_stream

WITHIN = 120.0
_SECONDS = re.compile(r"(\d{1,6}) ?s(?:ec(?:ond)?s?)?\b")


class Denied(AnyDenied):
    """The server refused the message, a recipient or us."""

    def __init__(self, code: int, text: str, step: str) -> None:
        super().__init__(f"{code} {text}")
        self.code, self.text, self.step = code, text, step

    @property
    def seconds(self) -> float | None:
        """The wait that a temporary refusal asks for, such as that of greylisting."""
        found = _SECONDS.search(self.text) if 400 <= self.code < 500 else None
        return float(found[1]) if found else None


class Submissions:
    """Submissions of one mailbox, each on a connection of its own."""

    def __init__(self, settings: EmailSettings) -> None:
        self._settings = settings
        self._running: set[trio.CancelScope] = set()
        self.closed = False

    def close(self) -> None:
        """End the submissions in progress, and refuse later ones."""
        self.closed = True
        for one in self._running:
            one.cancel(reason="the link is closed")

    async def submit(self, recipients: Sequence[str], data: bytes) -> None:
        """Submit a message. Raises `NotReached`, `NoAnswer` or `Denied`."""
        await trio.lowlevel.checkpoint()
        if self.closed:
            raise NotReached("the link is closed")
        dialogue = _Dialogue(self._settings)
        with trio.move_on_after(WITHIN) as scope:
            self._running.add(scope)
            try:
                await dialogue.run(recipients, data)
                return
            except (OSError, trio.BrokenResourceError, trio.ClosedResourceError, _Ended) as error:
                raise dialogue.outcome(str(error.__cause__ or error)) from None
            finally:
                self._running.discard(scope)
        raise dialogue.outcome("the link is closed" if self.closed else f"none within {WITHIN:g} seconds")

    async def check(self) -> None:
        """Log in and send nothing. Raises as `submit` does."""
        try:
            with trio.fail_after(WITHIN):
                await _Dialogue(self._settings).run((), b"")
        except (OSError, trio.BrokenResourceError, trio.TooSlowError, _Ended) as error:
            raise NotReached(str(error.__cause__ or error)) from None


class _Ended(Exception):
    """The server has closed the connection, or does not speak SMTP."""


class _Dialogue:
    """One connection."""

    def __init__(self, settings: EmailSettings) -> None:
        self._settings = settings
        self._data = bytearray()
        self._stream: trio.abc.Stream | None = None
        self._is_whole = False

    def outcome(self, why: str) -> NotReached | NoAnswer:
        """Return what is known after the connection has failed."""
        return NoAnswer(why) if self._is_whole else NotReached(why)

    async def run(self, recipients: Sequence[str], data: bytes) -> None:
        """Log in, and submit the message if there are recipients."""
        settings = self._settings
        host, port = settings.smtp_host, settings.smtp_port
        asks_for_tls = settings.tls and settings.smtp_starttls
        stream = await open_stream(settings, host, port, tls=settings.tls and not asks_for_tls)
        try:
            self._stream = stream
            await self._answer("greeting")
            await self._say("EHLO hermes-trio.invalid")
            if asks_for_tls:
                await self._say("STARTTLS")
                self._data.clear()  # nothing from before the encryption counts
                self._stream = stream = await encrypted(settings, stream, host)
                await self._say("EHLO hermes-trio.invalid")
            await self._login()
            if recipients:
                await self._submit(recipients, data)
        finally:
            await trio.aclose_forcefully(stream)

    async def _login(self) -> None:
        secret = f"\0{self._settings.address}\0{self._settings.password}".encode()
        await self._say(f"AUTH PLAIN {base64.b64encode(secret).decode()}", "login")

    async def _submit(self, recipients: Sequence[str], data: bytes) -> None:
        await self._say(f"MAIL FROM:<{self._settings.address}>")
        for one in recipients:
            await self._say(f"RCPT TO:<{one}>", "recipient")
        await self._say("DATA")
        lines = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        dotted = re.sub(rb"(?m)^\.", b"..", lines).rstrip(b"\r\n")
        await self._write(dotted + b"\r\n")
        self._is_whole = True
        await self._write(b".\r\n")
        await self._answer("message")

    async def _say(self, line: str, step: str = "") -> None:
        await self._write(line.encode() + b"\r\n")
        await self._answer(step or line.partition(" ")[0])

    async def _write(self, data: bytes) -> None:
        assert self._stream is not None  # noqa: S101 - opened first
        await self._stream.send_all(data)

    async def _answer(self, step: str) -> None:
        """Read an answer. Raises `Denied` if it is an error."""
        text: list[str] = []
        while True:
            line = await self._line()
            code, rest = line[:3], line[4:]
            if not code.isdigit():
                raise _Ended("the server does not speak SMTP")
            text.append(rest)
            if line[3:4] != "-":
                break
        if int(code) >= 400:
            raise Denied(int(code), " ".join(text)[:200], step)

    async def _line(self) -> str:
        assert self._stream is not None  # noqa: S101 - opened first
        while (end := self._data.find(b"\n")) < 0:
            data = await self._stream.receive_some(4096)
            if not data or len(self._data) > 1 << 16:
                raise _Ended("the server has closed the connection")
            self._data += data
        line = bytes(self._data[:end]).decode("utf-8", "replace").rstrip("\r")
        del self._data[: end + 1]
        return line
