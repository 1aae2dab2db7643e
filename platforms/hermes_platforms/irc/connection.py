"""A live connection to an IRC server: one task reads it, one writes to it, one looks after it.

Nothing is written by the task of a caller, so a call that is cancelled never leaves half a line behind. A
server that is silent for too long is asked for a sign, and is lost without one.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from secrets import token_hex

import trio
import trio.lowlevel

from hermes_trio.platform import LinkLost, Log, NotSent, command_menu

from .pace import Pace
from .parsing import Heard, Me, ctcp_answer, hear
from .receipts import Receipts, all_of
from .registration import Welcome
from .settings import IrcSettings
from .wire import LONGEST_LINE, Line, LineBuffer, encode

QUIET = 90.0
"""Seconds of silence of the server after which it is asked for a sign, and after as many more is lost."""
LOOK_AFTER_EVERY = 60.0
"""Seconds between two attempts to get the nick and the channels that we want."""
ACCOUNT_WITHIN = 20.0
MOST_WAITING = 1000
"""Most messages of people that wait to be stored."""
CTCP_EVERY = 2.0
GOODBYE_WITHIN = 1.0
VERSION = "hermes-trio"
_HIDDEN_MASK = 1 + 10 + 1 + 63
"""Longest user and host of a mask that the server has not shown to us."""
_WHOX_TOKEN = "812"  # noqa: S105 - it marks our requests among those of other programs
_READ_AT_ONCE = 1 << 14

log = Log(__name__)


class Inbox:
    """Messages of people that the gateway has not stored yet, oldest first. It outlives a connection: IRC
    sends nothing twice."""

    def __init__(self) -> None:
        self.waiting: deque[Heard] = deque()
        self._more = trio.Event()

    def add(self, heard: Heard) -> None:
        """Add a message, unless too many wait."""
        if len(self.waiting) >= MOST_WAITING:
            log.warning("message dropped; too many wait to be stored", platform="irc")
            return
        self.waiting.append(heard)
        self.wake()

    def wake(self) -> None:
        """Let the task that waits look again."""
        self._more.set()
        self._more = trio.Event()

    async def changed(self) -> None:
        """Wait for a message, or for the end of the connection."""
        await self._more.wait()


@dataclass(slots=True)
class _Question:
    """A question for the account of a person."""

    nick: str
    known: trio.Event
    account: str = ""
    mask: str = ""


class IrcConnection:
    """A registered connection."""

    def __init__(
        self,
        stream: trio.abc.Stream,
        buffer: LineBuffer,
        settings: IrcSettings,
        welcome: Welcome,
        me: Me,
        inbox: Inbox,
    ) -> None:
        self._stream, self._buffer = stream, buffer
        self.settings, self.welcome, self.inbox = settings, welcome, inbox
        self.loss: str | None = None
        self.me = replace(
            me,
            nick=welcome.nick,
            casemapping=welcome.features.get("CASEMAPPING", "rfc1459"),
            chantypes=welcome.features.get("CHANTYPES", "#&"),
            statusmsg=welcome.features.get("STATUSMSG", ""),
            commands=frozenset(command_menu()),
        )
        self.joined: set[str] = set()
        self._mask = ""
        self.pace = Pace(settings.line_seconds)
        self._receipts = Receipts(self.me.folded)
        self._tokens = map(str, itertools.count(1))
        self._questions: list[_Question] = []
        self._heard = 0
        self._next_ctcp = -math.inf
        self._mid_line = False
        self._lines, self._to_write = trio.open_memory_channel[bytes](math.inf)

    # --- for the link ---

    @property
    def room_for(self) -> int:
        """Bytes of a line without our own mask, which the server puts in front of it."""
        longest = self.welcome.features.get("LINELEN", "")
        length = int(longest) if longest.isdecimal() else LONGEST_LINE
        mask = self._mask or f"{self.me.nick}!{'x' * _HIDDEN_MASK}"
        return length - len(f":{mask} \r\n".encode())

    def transmit(self, *lines: bytes) -> None:
        """Hand over lines to be written."""
        for line in lines:
            self._lines.send_nowait(line)

    async def say(self, command: str, target: str, texts: Sequence[str]) -> str | None:
        """Send some lines to one target at once, and return the id of the last one when the server has taken
        them. Raises `NotSent` if there is no connection, and else the error of the server."""
        if self.loss is not None:
            raise NotSent(f"There is no connection: {self.loss}.")
        if self.welcome.labels:
            tokens = [f"h{next(self._tokens)}" for _ in texts]
            lines = [
                encode(command, target, text, tags={"label": token})
                for token, text in zip(tokens, texts, strict=True)
            ]
        else:
            tokens = [f"hermes-{next(self._tokens)}"]
            lines = [*(encode(command, target, text) for text in texts), encode("PING", tokens[0])]
        receipts = [self._receipts.expect(token, target) for token in tokens]
        try:
            self.transmit(*lines)
            return await all_of(receipts)
        finally:
            for token in tokens:
                self._receipts.forget(token)

    async def account_of(self, heard: Heard) -> str:
        """Return the account of a sender; empty without one. The server is asked if the line does not say,
        and its answer counts only for the same mask: the nick may belong to somebody else by now."""
        if heard.account is not None or "WHOX" not in self.welcome.features:
            return heard.account or ""
        question = _Question(self.me.folded(heard.nick), trio.Event())
        self._questions.append(question)
        try:
            with trio.move_on_after(ACCOUNT_WITHIN):
                self.transmit(encode("WHO", heard.nick, f"%tuhna,{_WHOX_TOKEN}"))
                await question.known.wait()
        finally:
            self._questions.remove(question)
        return question.account if question.mask == heard.mask else ""

    # --- tasks ---

    async def run(self) -> None:
        """Read, write and look after the connection, until it is lost."""
        async with trio.open_nursery() as nursery:
            for task in (self._read, self._write, self._watch, self._look_after):
                nursery.start_soon(self._until_lost, task, nursery.cancel_scope)

    async def _until_lost(self, task: Callable[[], Awaitable[None]], scope: trio.CancelScope) -> None:
        try:
            await task()
        except (trio.BrokenResourceError, trio.ClosedResourceError, LinkLost) as error:
            self.lost(str(error) or "the connection broke")
            scope.cancel(reason="the connection is lost")

    def lost(self, why: str) -> None:
        """Let every waiting call know that the connection has ended."""
        self.loss = self.loss or why.rstrip(".")
        self._receipts.lost(self.loss)
        for question in self._questions:
            question.known.set()
        self.inbox.wake()

    async def say_goodbye(self) -> None:
        """Leave the network, unless half a line was written: it would be shown to somebody."""
        if self._mid_line or self.loss is not None:
            return
        with trio.move_on_after(GOODBYE_WITHIN, shield=True):
            try:
                await self._stream.send_all(encode("QUIT", VERSION))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                log.info("connection ended before goodbye", platform=self.me.platform)

    async def _read(self) -> None:
        data: bytes | bytearray = b""
        while True:
            for line in self._buffer.feed(data):
                self._take(line)
            self._heard += 1
            data = await self._stream.receive_some(_READ_AT_ONCE)
            if not data:
                raise LinkLost("the server closed the connection")

    async def _write(self) -> None:
        async for line in self._to_write:
            self._mid_line = True
            await self._stream.send_all(line)
            self._mid_line = False

    async def _watch(self) -> None:
        """Notice a server that has gone without a word."""
        while True:
            before = self._heard
            await trio.sleep(QUIET)
            if self._heard == before:
                self.transmit(encode("PING", "still-there"))
                await trio.sleep(QUIET)
                if self._heard == before:
                    raise LinkLost(f"the server has been silent for {2 * QUIET:g} seconds")

    async def _look_after(self) -> None:
        """Mark us as a bot where the server can, join our channels, and get back what we have lost."""
        if mode := self.welcome.features.get("BOT"):
            self.transmit(encode("MODE", self.me.nick, f"+{mode}"))
        while True:
            if self.me.folded(self.settings.nick) != self.me.folded(self.me.nick):
                self.transmit(encode("NICK", self.settings.nick))
            for channel in self.settings.channels:
                name, _, key = channel.partition(" ")
                if self.me.folded(name) not in self.joined:
                    await self.pace.until(self.pace.book(1), 1)
                    self.transmit(encode("JOIN", name, *filter(None, [key])))
            await trio.sleep(LOOK_AFTER_EVERY)

    # --- what the server says ---

    def _take(self, line: Line) -> None:
        self._receipts.take(line)
        match line.command:
            case "PING":
                self.transmit(encode("PONG", line.param(-1)))
            case "PRIVMSG":
                self._take_message(line)
            case "354" if line.param(1) == _WHOX_TOKEN:
                self._take_account(*line.params[2:6])
            case "315":
                self._take_account(nick=line.param(1))
            case "ERROR":
                raise LinkLost(f"the server ended the connection: {line.param(-1)[:200]}")
            case _ if self.me.is_me(line.nick):
                self._take_change(line)
            case "KICK" if self.me.is_me(line.param(1)):
                self._left(line, "kicked")
            case "471" | "473" | "474" | "475" | "477" | "489" | "403" | "405":
                log.info("channel not joined; retrying", channel=line.param(1), error=line.param(-1)[:200])

    def _take_message(self, line: Line) -> None:
        if self.me.is_me(line.nick):
            self._mask = line.source
            return
        if (answer := ctcp_answer(line, self.me, VERSION)) is not None:
            if trio.current_time() >= self._next_ctcp:  # others are not answered: that could be a flood
                self._next_ctcp = trio.current_time() + CTCP_EVERY
                self.transmit(encode("NOTICE", line.nick, answer))
            return
        tags_account = "account-tag" in self.welcome.caps
        if (heard := hear(line, self.me, token_hex(8), tags_account=tags_account)) is not None:
            self.inbox.add(heard)

    def _take_account(self, user: str = "", host: str = "", nick: str = "", account: str = "") -> None:
        for question in self._questions:
            if question.nick == self.me.folded(nick) and not question.known.is_set():
                question.account, question.mask = account if account != "0" else "", f"{nick}!{user}@{host}"
                question.known.set()

    def _take_change(self, line: Line) -> None:
        """Note a change of our own nick, mask or channels."""
        if "!" in line.source:
            self._mask = line.source
        match line.command:
            case "NICK":
                self.me = replace(self.me, nick=line.param(0))
                self._mask = self._mask.replace(line.nick, line.param(0), 1)
            case "JOIN":
                self.joined.add(self.me.folded(line.param(0)))
                log.info("channel joined", platform=self.me.platform, channel=line.param(0))
            case "PART":
                self._left(line, "left")
            case "KICK" if self.me.is_me(line.param(1)):
                self._left(line, "kicked")
            case "CHGHOST":
                self._mask = f"{line.nick}!{line.param(0)}@{line.param(1)}"

    def _left(self, line: Line, how: str) -> None:
        self.joined.discard(self.me.folded(line.param(0)))
        log.warning(f"channel {how}", platform=self.me.platform, channel=line.param(0))
