"""An SMTP connection of a mail server for tests."""

from __future__ import annotations

import base64

import trio

from hermes_trio.platform import (
    Attachment,
    ChatGone,
    FloodWait,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
)

from ..parsing import parsed
from .mail_lines import HungUp, LineStream
from .mail_state import MailState


def answer_of(error: PlatformError) -> str:
    """Return the answer by which a mail server tells of an error."""
    match error:
        case FloodWait(seconds=seconds):
            return f"450 4.7.1 Greylisted, try again in {seconds:g} seconds"
        case NotSent():
            return "451 4.3.0 Temporary failure"
        case ChatGone():
            return "550 5.1.1 User unknown"
        case OutcomeUnknown():
            raise HungUp
        case _:
            return "554 5.7.1 Rejected"


class SmtpSession:
    """One connection."""

    def __init__(self, state: MailState, stream: trio.SocketStream) -> None:
        self._state, self._stream, self._lines = state, stream, LineStream(stream)
        self._is_in = False
        self._recipients: list[str] = []

    async def serve(self) -> None:
        """Serve the connection until it ends."""
        try:
            await self._lines.write("220 simulated ESMTP")
            while True:
                await self._obey((await self._lines.line()).decode())
        except* HungUp:
            pass

    async def _obey(self, line: str) -> None:
        match line.upper().split():
            case ["EHLO", *_]:
                await self._lines.write("250-simulated", "250 AUTH PLAIN")
            case ["STARTTLS"] if self._state.smtp_tls is not None:
                await self._lines.write("220 go on")
                tls = self._state.smtp_tls
                secure = trio.SSLStream(self._stream, tls, server_side=True, https_compatible=True)
                self._lines = LineStream(secure)
            case ["AUTH", "PLAIN", *_]:
                name, password = base64.b64decode(line.split()[2]).decode().split("\0")[1:]
                state = self._state
                self._is_in = state.lets_in and (name, password) == (state.address, state.password)
                await self._lines.write("235 2.7.0 in" if self._is_in else "535 5.7.8 wrong")
            case ["QUIT"]:
                await self._lines.write("221 bye")
                raise HungUp
            case [verb, *_] if not self._is_in and verb in ("MAIL", "RCPT", "DATA"):
                await self._lines.write("530 5.7.0 log in first")
            case ["MAIL", *_]:
                self._recipients = []
                await self._lines.write("250 sender")
            case ["RCPT", *_]:
                self._recipients.append(line.partition("<")[2].rstrip(">"))
                await self._lines.write("250 recipient")
            case ["DATA"]:
                await self._lines.write("354 go on")
                await self._accept(await self._message())
            case _:
                await self._lines.write("500 unknown")

    async def _message(self) -> bytes:
        lines: list[bytes] = []
        while (line := await self._lines.line()) != b".":
            lines.append(line.removeprefix(b"."))
        return b"\r\n".join(lines)

    async def _accept(self, data: bytes) -> None:
        state, mail = self._state, parsed(data)
        body = mail.get_body(preferencelist=("plain",))
        text = "" if body is None else str(body.get_content()).replace("\r\n", "\n").rstrip("\n")
        [chat] = [one for one in self._recipients if one != state.address]
        files = tuple(Attachment("document", name=one.get_filename()) for one in mail.iter_attachments())
        message = Outgoing(
            chat_id=chat,
            text=text,
            key=str(mail["message-id"]),
            reply_to=mail["in-reply-to"],
            attachments=files,
        )
        failure = await self._sent(message)
        if failure is None or isinstance(failure, OutcomeUnknown):
            self._deliver(data)
        await self._lines.write("250 2.0.0 accepted" if failure is None else answer_of(failure))

    async def _sent(self, message: Outgoing) -> PlatformError | None:
        """Show a message. Raises `HungUp` if the client leaves meanwhile."""
        failure: PlatformError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._lines.line)
            try:
                await self._state.send(message)
            except PlatformError as error:
                failure = error
            nursery.cancel_scope.cancel(reason="answered")
        return failure

    def _deliver(self, data: bytes) -> None:
        self._state.sent.append(data)
        if self._state.address in self._recipients:
            self._state.put(data)
