"""An IMAP connection of a mail server for tests."""

from __future__ import annotations

import base64
import re
from email.parser import BytesHeaderParser

import trio

from hermes_trio.platform import CredentialsRefused, PlatformError

from .mail_lines import HungUp, LineStream
from .mail_state import MailState, StoredMail

VALIDITY = 7


class ImapSession:
    """One connection."""

    def __init__(self, state: MailState, stream: trio.SocketStream) -> None:
        self._state, self._lines = state, LineStream(stream)
        self._told = 0
        """Number of mails that the client was told of."""

    async def serve(self) -> None:
        """Serve the connection until it ends."""
        try:
            await self._lines.write("* OK [CAPABILITY IMAP4rev1 IDLE AUTH=PLAIN] ready")
            while True:
                tag, _, command = (await self._lines.line()).decode().partition(" ")
                await self._obey(tag, command)
        except* HungUp:
            pass

    async def _obey(self, tag: str, command: str) -> None:
        words = command.upper().split()
        self._state.note_posts()
        match words:
            case ["CAPABILITY"]:
                await self._lines.write("* CAPABILITY IMAP4rev1 IDLE AUTH=PLAIN", f"{tag} OK done")
            case ["AUTHENTICATE", "PLAIN"]:
                await self._lines.write("+ ")
                name, password = base64.b64decode(await self._lines.line()).decode().split("\0")[1:]
                await self._log_in(tag, name, password)
            case ["LOGIN", *_]:
                name, password = (one.strip('"') for one in command.split()[1:])
                await self._log_in(tag, name, password)
            case ["SELECT" | "EXAMINE", _]:
                await self._tell()
                await self._lines.write(f"* OK [UIDVALIDITY {VALIDITY}] valid", f"{tag} OK [READ-WRITE] done")
            case ["UID", "SEARCH", *_]:
                found = " ".join(str(one.uid) for one in self._state.mails if _matches(one, command))
                await self._lines.write(f"* SEARCH {found}".rstrip())
                await self._tell()
                await self._lines.write(f"{tag} OK done")
            case ["UID", "FETCH", number, *_]:
                await self._fetch(int(number), command)
                await self._lines.write(f"{tag} OK done")
            case ["UID", "STORE", numbers, *_]:
                for number in numbers.split(","):
                    self._state.mark_read(int(number))
                await self._lines.write(f"{tag} OK done")
            case ["IDLE"]:
                await self._idle(tag)
            case ["LOGOUT"]:
                await self._lines.write("* BYE", f"{tag} OK done")
                raise HungUp
            case _:
                await self._lines.write(f"{tag} OK done" if words == ["NOOP"] else f"{tag} BAD unknown")

    async def _log_in(self, tag: str, name: str, password: str) -> None:
        state = self._state
        answer = f"{tag} OK logged in"
        try:
            await state.connecting()
            if not state.lets_in or (name, password) != (state.address, state.password):
                raise CredentialsRefused(state.name, "password")
        except CredentialsRefused:
            answer = f"{tag} NO [AUTHENTICATIONFAILED] wrong"
        except PlatformError:
            answer = "* BYE busy"
        await self._lines.write(answer)
        if answer.startswith("*"):
            raise HungUp

    async def _fetch(self, uid: int, command: str) -> None:
        for mail in self._state.mails:
            if mail.uid != uid:
                continue
            if "RFC822.SIZE" in command:
                await self._lines.write(f"* {uid} FETCH (UID {uid} RFC822.SIZE {len(mail.data)})")
                continue
            data = mail.data
            if "[HEADER]" in command:
                data = data.replace(b"\r\n", b"\n").partition(b"\n\n")[0] + b"\r\n\r\n"
            head = f"* {uid} FETCH (UID {uid} BODY[] {{{len(data)}}}".encode()
            await self._lines.write(head + b"\r\n" + data + b")")

    async def _idle(self, tag: str) -> None:
        await self._lines.write("+ idling")
        async with trio.open_nursery() as nursery:

            async def until_done() -> None:
                while (await self._lines.line()).upper() != b"DONE":
                    pass
                nursery.cancel_scope.cancel(reason="the client is done")

            nursery.start_soon(until_done)
            while not nursery.cancel_scope.cancel_called:
                self._state.note_posts()
                if self._told == len(self._state.mails):
                    await self._state.changed.wait()
                else:
                    await self._tell()
        await self._lines.write(f"{tag} OK done")

    async def _tell(self) -> None:
        if self._told != len(self._state.mails):
            self._told = len(self._state.mails)
            await self._lines.write(f"* {self._told} EXISTS")


def _matches(mail: StoredMail, command: str) -> bool:
    criteria = command.partition("SEARCH ")[2]
    if criteria.upper() == "UNSEEN":
        return not mail.is_read
    found = re.fullmatch(r'(?:HEADER )?(\S+) "([^"]*)"', criteria)
    if found is None:
        return criteria.upper() == "ALL"
    headers = BytesHeaderParser().parsebytes(mail.data)
    return found[2] in str(headers.get(found[1], ""))
