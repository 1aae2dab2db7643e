"""One connection of an adapter to the IRC server for tests."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping

import trio

from hermes_trio.platform import (
    ChatGone,
    CredentialsRefused,
    FloodWait,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
)
from hermes_trio.testing import ConnectionCutter

from ..wire import LONGEST_LINE, Line, LineBuffer
from .irc_state import IrcState

HOST = "irc.simulated"


class IrcClient:
    """The side of the server. It takes lines in order; what becomes of a message is a task of its own, so a
    message that hangs delays no other chat."""

    def __init__(self, state: IrcState, stream: trio.abc.Stream, cutter: ConnectionCutter) -> None:
        self.scope = trio.CancelScope()
        self.nick, self.is_registered = "", False
        self._state, self._stream, self._cutter = state, stream, cutter
        self._caps: set[str] = set()
        self._negotiates, self._user, self._sasl, self._password = False, "", "", ""
        self._account = ""
        self._in_channels: set[str] = set()
        self._out, self._to_write = trio.open_memory_channel[str](math.inf)
        self._underway: dict[str, set[trio.Event]] = {}
        self._last_target = ""
        self._asked = trio.Event()
        self._awaited: dict[str, trio.Event] = {}
        self._tokens, self._tokens_at = 0.0, 0.0

    async def converse(self) -> None:
        """Serve until the connection ends."""
        buffer = LineBuffer()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                while data := await self._cutter.receive_some(self._stream, 1 << 14):  # type: ignore[arg-type]
                    for line in buffer.feed(data):
                        await self._take(line, nursery)
                nursery.cancel_scope.cancel(reason="the client closed the connection")
        finally:
            self._state.nicks.discard(self.nick.lower())

    def put(self, *lines: str) -> None:
        """Hand over lines to be written."""
        for line in lines:
            self._out.send_nowait(line)

    def end(self, why: str) -> None:
        """End the connection with a reason."""
        self.put(f"ERROR :Closing link: ({why})", "")

    async def _write(self) -> None:
        async for line in self._to_write:
            if not line:
                self.scope.cancel(reason="ended by the server")
                return
            if not self._state.silent:
                await self._cutter.send_all(self._stream, line.encode() + b"\r\n")  # type: ignore[arg-type]

    def _say(self, number: str, *params: str) -> None:
        *middle, last = params
        self.put(" ".join([f":{HOST}", number, self.nick or "*", *middle, f":{last}"]))

    # --- what a client sends ---

    async def _take(self, line: Line, nursery: trio.Nursery) -> None:
        self._state.read.append(" ".join([line.command, *line.params]))
        self._state.changed.set()
        if self._floods():
            self.end("Excess Flood")
            return
        match line.command:
            case "CAP":
                self._cap(line)
            case "PASS":
                self._password = line.param(0)
            case "AUTHENTICATE":
                await self._authenticate(line.param(0))
            case "NICK":
                self._take_nick(line.param(0))
            case "USER":
                self._user = line.param(0)
            case "QUIT":
                self.end("Quit")
            case "PONG":
                self._awaited.pop(line.param(-1), trio.Event()).set()
        if not self.is_registered:
            if self.nick and self._user and not self._negotiates:
                await self._welcome(nursery)
            return
        match line.command:
            case "PING":
                nursery.start_soon(self._pong, line.param(-1), set(self._underway.get(self._last_target, ())))
            case "PRIVMSG" | "NOTICE":
                self._last_target = line.param(0)
                done = trio.Event()
                self._underway.setdefault(self._last_target, set()).add(done)
                nursery.start_soon(self._deliver, line, done)
            case "JOIN":
                self._join(line.param(0))
            case "WHO":
                self._who(line.param(0), line.param(1).rpartition(",")[2])

    def _floods(self) -> bool:
        """Count a line, and return True if there are too many."""
        now = trio.current_time()
        self._tokens = max(self._tokens - (now - self._tokens_at), 0.0) + 1
        self._tokens_at = now
        return self._tokens > self._state.most_at_once

    def _cap(self, line: Line) -> None:
        what = line.param(0).upper()
        if not self._state.caps:
            self._say("421", "CAP", "Unknown command")
        elif what == "LS":
            self._negotiates = True
            first, *others = self._state.caps
            self.put(f":{HOST} CAP * LS * :{first}", f":{HOST} CAP * LS :{' '.join(others)}")
        elif what == "REQ":
            wanted = line.param(-1).split()
            is_known = set(wanted) <= set(self._state.caps)
            self._caps |= set(wanted) if is_known else set()
            self.put(f":{HOST} CAP * {'ACK' if is_known else 'NAK'} :{line.param(-1)}")
        elif what == "END":
            self._negotiates = False

    async def _authenticate(self, data: str) -> None:
        if data == "PLAIN":
            self.put("AUTHENTICATE +")
            return
        try:
            _, login, password = base64.b64decode(data).decode().split("\0")
        except (binascii.Error, ValueError):
            login, password = "", ""
        try:
            await self._state.connecting()
        except PlatformError as error:
            if not isinstance(error, CredentialsRefused):
                self.end(str(error))
                return
            password = ""
        if password != self._state.password:
            self._say("904", "SASL authentication failed")
            return
        self._account = login
        self._say("900", f"{self.nick}!{self._user}@{HOST}", login, "You are now logged in")
        self._say("903", "SASL authentication successful")

    def _take_nick(self, nick: str) -> None:
        others = self._state.nicks - {self.nick.lower()} | {one.lower() for one in self._state.taken}
        if nick.lower() in others:
            self._say("433", nick, "Nickname is already in use")
            return
        if self.is_registered:
            self.put(f":{self._mask} NICK :{nick}")
        self._state.nicks.discard(self.nick.lower())
        self._state.nicks.add(nick.lower())
        self.nick = nick

    @property
    def _mask(self) -> str:
        return f"{self.nick}!{self._user}@{HOST}"

    async def _welcome(self, nursery: trio.Nursery) -> None:
        if not self._account:  # else it was asked at the login
            try:
                await self._state.connecting()
            except PlatformError as error:
                if isinstance(error, CredentialsRefused):
                    self._say("464", "Password incorrect")
                self.end(str(error))
                return
        self.is_registered = True
        self._say("001", f"Welcome {self._mask}")
        self._say("005", *self._state.features, "are supported by this server")
        self._say("422", "There is no message of the day")
        self._state.changed.set()
        nursery.start_soon(self._bring)

    def _join(self, channel: str) -> None:
        self._in_channels.add(channel.lower())
        self.put(f":{self._mask} JOIN :{channel}")
        self._state.changed.set()

    def _who(self, nick: str, token: str) -> None:
        account = "0" if nick in self._state.strangers else nick
        self._say("354", token, *_user_and_host(nick), nick, account)
        self._say("315", nick, "End of WHO list")
        self._asked.set()

    # --- messages ---

    async def _bring(self) -> None:
        """Send the messages of people, each followed by a PING whose answer accepts it."""
        while True:
            waiting = await self._state.first_waiting()
            event, source = waiting.event, waiting.event.source
            nick = source.user_id or source.chat_id
            tags = {"msgid": event.message_id or ""} if "message-tags" in self._caps else {}
            if "account-tag" in self._caps and nick not in self._state.strangers:
                tags["account"] = nick
            target = self.nick if source.chat_type == "dm" else source.chat_id
            called = "" if source.chat_type == "dm" else f"{self.nick}: "
            user, host = _user_and_host(nick)
            self.put(f"{_tags(tags)}:{nick}!{user}@{host} PRIVMSG {target} :{called}{event.text}")
            if "account-tag" not in self._caps:
                await self._asked.wait()  # it asks who has written that
            await self._is_read(f"said-{waiting.number}")
            self._asked = trio.Event()
            self._state.accept(waiting)

    async def _is_read(self, token: str) -> None:
        """Wait until the client has read everything until now."""
        self._awaited[token] = read = trio.Event()
        self.put(f":{HOST} PING :{token}")
        await read.wait()

    async def _deliver(self, line: Line, done: trio.Event) -> None:
        target, text = line.param(0), line.param(-1)
        label = line.tags.get("label", "")
        shown = f":{self._mask} {line.command} {target} :{text}"
        text = shown.encode()[: LONGEST_LINE - 2].decode(errors="ignore").partition(f" {target} :")[2]
        message = Outgoing(chat_id=target, text=text, key=f"line {id(line)}", silent=line.command == "NOTICE")
        try:
            message_id = await self._state.send(message)
        except OutcomeUnknown:
            self.scope.cancel(reason="the answer is lost")
        except PlatformError as error:
            self.put(_tags({"label": label} if label else {}) + _number_of(error, self.nick, target))
        else:
            if "echo-message" in self._caps:
                tags = {"msgid": message_id, **({"label": label} if label else {})}
                self.put(f"{_tags(tags)}:{self._mask} {line.command} {target} :{text}")
        done.set()
        self._underway[target].discard(done)

    async def _pong(self, token: str, underway: set[trio.Event]) -> None:
        for done in underway:
            await done.wait()
        self.put(f":{HOST} PONG {HOST} :{token}")


def _tags(tags: Mapping[str, str]) -> str:
    return f"@{';'.join(f'{key}={value}' for key, value in tags.items())} " if tags else ""


def _user_and_host(nick: str) -> tuple[str, str]:
    return f"u{nick.strip('-')}"[:10], "people.simulated"


def _number_of(error: PlatformError, nick: str, target: str) -> str:
    match error:
        case ChatGone():
            return f":{HOST} 401 {nick} {target} :No such nick or channel"
        case FloodWait():
            return f":{HOST} 439 {nick} {target} :Please wait {error.seconds:g} seconds"
        case NotSent():
            return f":{HOST} 263 {nick} PRIVMSG :Please wait a while and try again"
    return f":{HOST} 404 {nick} {target} :Cannot send to channel"
