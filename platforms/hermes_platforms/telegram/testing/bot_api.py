"""A Bot API server on this machine: Telegram, as an adapter sees it, with people that a test moves.

    async with open_bot_api() as telegram:
        ...                                            # an adapter with telegram.token and telegram.base_url
        await telegram.says("hello")                   # returns when getUpdates has confirmed it
        await telegram.until(lambda: telegram.chat("42").last == "Hello!")
        telegram.fails("send", bad("message thread not found"))
        telegram.loses_answer()                        # the next send is done, and its answer never comes
        telegram.answers("getUpdates", ApiError(502, "Bad Gateway"))
        telegram.cuts_after(sent=10)                   # in the middle of the next answer
        async with telegram.away():                    # nobody listens there

It speaks HTTP on 127.0.0.1 and keeps to what the real one does where an adapter could trip over it: an
update is confirmed by the next offset and by nothing else, a second poll ends the first, markup is judged by
the server's own rules, a text counts in UTF-16 units. The clock is the real one.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from hermes_trio.platform import CredentialsRefused, MessageEvent, PlatformError, SessionSource, Traits
from hermes_trio.testing import ConnectionCutter, Stage, WaitingEvent, in_background

from .bot_api_entities import Entity
from .bot_api_http import BadRequest, HttpRequest, RequestReader, response
from .bot_api_methods import METHODS, ApiError, bad, said
from .bot_api_updates import sent_message, update_of
from .bot_api_webhook import bring

TRAITS = Traits(
    limit=4096, counting="utf-16", edits=True, deletes=True, typing=True, threads=True, buttons=True
)


@dataclass(frozen=True, slots=True)
class ApiCall:
    """What an adapter asked for."""

    method: str
    params: Mapping[str, Any]


@asynccontextmanager
async def open_bot_api(name: str = "telegram", *, account: str = "main") -> AsyncIterator[BotApi]:
    """The server, while inside."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    api = BotApi(name, account, listener.socket.getsockname()[1])
    async with in_background(partial(api.listen, listener)), in_background(partial(bring, api)):
        yield api


class BotApi(Stage):
    """Telegram behind a port."""

    def __init__(self, name: str, account: str, port: int) -> None:
        super().__init__(name, account, TRAITS)
        self.port = port
        self.bot_id, self.username = 123456, "hermes_bot"
        self.token = f"{self.bot_id}:AAsimulated-token-of-nobody-000000000"
        self.asked: list[ApiCall] = []
        """What was asked, in order."""
        self.entities: dict[str, list[Entity]] = {}
        """What looks different in a message, by its id."""
        self.webhook, self.webhook_secret = "", ""
        self.brought_in_vain = 0
        """How often an update was brought and not taken."""
        self.hides_sizes = False
        """Whether it tells how large a file is."""
        self.hears_all = False
        """Whether it is told what is said in groups without its name."""
        self.commands: dict[str, str] = {}
        """The menu."""
        self.pressed: list[str] = []
        """The presses that were answered."""
        self.lost_threads: set[tuple[str, str]] = set()
        self.lost_messages: set[str] = set()
        self.lost_files: set[str] = set()
        """What can be asked for, and is not there any more."""
        self.raw: dict[int, object] = {}
        """The updates that wait and were told, by their numbers."""
        self.open = 0
        """How many connections there are."""
        self._keys = itertools.count(1)
        self.lets_in = True
        self._cutter = ConnectionCutter()
        self._at_request: _AtRequest | None = None
        self._answers: dict[str, deque[ApiError | bytes]] = {}
        self._poll = trio.CancelScope()
        self.bringing = trio.CancelScope()
        """What is being brought to the webhook."""
        self._listening = trio.CancelScope()
        self._listens, self._back = trio.Event(), trio.Event()
        self._back.set()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def waiting(self) -> Sequence[WaitingEvent]:
        """What people have said and no offset has confirmed."""
        return self._waiting

    # --- what a test does ---

    def sends(self, update: Mapping[str, object]) -> trio.Event:
        """Deliver this update as it is, but for its number. What is returned is set once it is confirmed."""
        delivery = WaitingEvent(next(self._numbers), MessageEvent(SessionSource(self.name, "")))
        self.raw[delivery.number] = {"update_id": delivery.number, **update}
        self._waiting.append(delivery)
        self.changed.set()
        return delivery.accepted

    def answers(self, method: str, *answers: ApiError | bytes) -> None:
        """What is answered to the next calls of this method, which do nothing; bytes are no JSON."""
        self._answers.setdefault(method.lower(), deque()).extend(answers)

    def refuses(self) -> None:
        """From now on it does not know the token."""
        self.lets_in = False
        self._poll.cancel(reason="the token is revoked")

    def drop(self) -> None:
        """Every connection is closed now."""
        self._listening.cancel(reason="dropped by the test")
        self.bringing.cancel(reason="dropped by the test")

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Nobody listens while inside."""
        await self._listens.wait()
        self._back, self._listens = trio.Event(), trio.Event()
        self.drop()
        await self.until(lambda: self.open == 0)
        try:
            yield
        finally:
            self._back.set()
        await self._listens.wait()

    def cuts_after(self, *, sent: float = math.inf, received: float = math.inf) -> None:
        """The connection is closed when so many more bytes were sent to the adapter, or received from it."""
        self._cutter.sent, self._cutter.received = sent, received

    def at_request(self, number: int, act: Callable[[], object], *, done: bool) -> None:
        """Do this when the n-th request has come from now on: before anything is done about it, or once it
        is `done` and before it is answered."""
        self._at_request = _AtRequest(len(self.asked) + number, act, done)

    # --- what the methods ask for ---

    def update(self, delivery: WaitingEvent) -> object:
        """The update that this is, the same each time it is told."""
        if delivery.number not in self.raw:
            self.raw[delivery.number] = update_of(delivery.number, delivery.event, int(self.now()))
        return self.raw[delivery.number]

    def message(self, chat_id: str, message_id: str) -> dict[str, Any]:
        """A message of the bot's, as it is told."""
        chat = self.chat(chat_id)
        shown = chat.messages[chat.position(message_id)]
        bot = {"id": self.bot_id, "is_bot": True, "first_name": "Hermes", "username": self.username}
        return sent_message(shown, chat_id, bot, self.entities.get(message_id, ()), int(self.now()))

    def not_taken(self) -> None:
        """An update was brought to the webhook, and not taken."""
        self.brought_in_vain += 1
        self.changed.set()

    def accept(self, delivery: WaitingEvent) -> None:
        super().accept(delivery)
        self.raw.pop(delivery.number, None)

    def now(self) -> float:
        return time.time()

    def new_key(self) -> str:
        return f"sent-{next(self._keys)}"

    def set_webhook(self, url: str, secret: str) -> None:
        """From now on updates are brought there; nowhere if it is empty."""
        self.webhook, self.webhook_secret = url, secret
        self.changed.set()

    def new_poll(self) -> trio.CancelScope:
        """The scope of a poll. There is one at a time: a second ends the first."""
        self._poll.cancel(reason="another poll")
        self._poll = trio.CancelScope()
        return self._poll

    # --- connections ---

    async def listen(self, listener: trio.SocketListener) -> None:
        """Take connections, except while away."""
        while True:
            self._listens.set()
            with trio.CancelScope() as self._listening:
                await trio.serve_listeners(self.serve, [listener])
            await self._back.wait()
            [listener] = await trio.open_tcp_listeners(self.port, host="127.0.0.1")

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection, from its first byte to its last."""
        self.open += 1
        try:
            async with stream:
                await self._converse(stream)
        except* (trio.BrokenResourceError, _HangUp, BadRequest):
            pass
        finally:
            self.open -= 1
            self.changed.set()

    async def _converse(self, stream: trio.SocketStream) -> None:
        reader = RequestReader(partial(self._cutter.receive_some, stream))
        while request := await reader.read():
            async with trio.open_nursery() as nursery:
                # Who hangs up during a long poll is seen at once.
                nursery.start_soon(_until_hang_up, reader)
                answer = await self._answer(request)
                nursery.cancel_scope.cancel(reason="answered")
            await self._cutter.send_all(stream, answer)

    async def _answer(self, request: HttpRequest) -> bytes:
        try:
            return await self._result(request)
        except PlatformError as error:
            answer = said(error)
            if answer is None:
                raise _HangUp from error
            return response(answer.code, answer.body)
        except KeyError as error:
            return response(400, bad(f"parameter {error} is required").body)

    async def _result(self, request: HttpRequest) -> bytes:
        head, _, name = request.path.removeprefix("/").partition("/")
        if head == "file":
            file_id = name.rpartition("/")[2]
            if file_id not in self.files or file_id in self.lost_files:
                raise ApiError(404, "Not Found")
            return response(200, self.files[file_id])
        self.asked.append(ApiCall(name, request.params))
        self.changed.set()
        acts = self._at_request if self._at_request and self._at_request.number == len(self.asked) else None
        if acts is not None and not acts.done:
            acts.act()
            raise _HangUp
        if not self.lets_in or head != f"bot{self.token}":
            raise CredentialsRefused(self.name) if head.startswith("bot") else ApiError(404, "Not Found")
        if prepared := self._answers.get(name.lower()):
            answer = prepared.popleft()
            if isinstance(answer, bytes):
                return response(502, answer)
            raise answer
        if name.lower() not in METHODS:
            raise ApiError(404, "Not Found: method not found")
        result = await METHODS[name.lower()](self, request)
        if acts is not None:
            acts.act()
        return response(200, {"ok": True, "result": result})


@dataclass(frozen=True, slots=True)
class _AtRequest:
    number: int
    act: Callable[[], object]
    done: bool


class _HangUp(Exception):
    """The connection is over."""


async def _until_hang_up(reader: RequestReader) -> None:
    while await reader.more():
        pass
    raise _HangUp
