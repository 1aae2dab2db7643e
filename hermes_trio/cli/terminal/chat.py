"""A chat: typed messages go to the gateway, and everything of the session is shown.

Three tasks live as long as the chat: one reads what is typed, one follows the events of the gateway, and one
draws the line about the state. A gateway that ends is waited for, and messages are sent when it is back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import trio

from ...base.errors import GatewayError
from ...base.plural import counted
from ...base.world import World
from .conversation import Conversation, Part
from .gateway_api import LONG_TIMEOUT, ApiRefused, Event, GatewayApi, Unreachable, session_path
from .screen import Screen
from .welcome import welcome

PREFIX = "terminal-"
"""Beginning of the ids of sessions that a terminal has begun."""
PAGE = 1000
LISTED = 20
RETRY_EVERY = 1.0
NO_TURNS = "gateway_draining"
OWN_COMMANDS = {
    "new": "begins a new session",
    "sessions": "lists the sessions; /open NUMBER continues one of them",
    "open": "continues a session of the list",
    "page": "prints a log-in link for the page in the browser",
    "quit": "leaves, as Ctrl-D does",
}
"""The commands of the terminal itself, and their help."""


class Keyboard(Protocol):
    """The source of a person's messages."""

    async def read(self) -> str | None:
        """Return the next message unchanged, or None after the last one."""


def new_session_id(world: World) -> str:
    """Return the id of a new session of a terminal."""
    return PREFIX + world.new_id()[:12]


async def last_session_id(api: GatewayApi) -> str | None:
    """Return the session that a terminal has used last."""
    listed = (await api.get("/api/sessions", limit=100))["sessions"]
    return next((one["id"] for one in listed if one["id"].startswith(PREFIX) and not one["ended_at"]), None)


@dataclass(slots=True)
class Chat:
    """A chat at one terminal."""

    api: GatewayApi
    screen: Screen
    keyboard: Keyboard
    session: Conversation
    address: Callable[[], str | None]
    is_own_gateway: bool
    world: World
    notices: tuple[str, ...] = ()
    gateway: Event = field(default_factory=dict)
    """The last state of the gateway; empty before the first one."""
    is_connected: bool = False
    _own: set[str] = field(default_factory=set)
    """The runs of messages that were typed here."""
    _listed: dict[str, str] = field(default_factory=dict)
    """The ids of the listed sessions by their numbers."""
    _stream: trio.CancelScope = field(default_factory=trio.CancelScope)
    _changed: trio.Event = field(default_factory=trio.Event)
    _posting: trio.Lock = field(default_factory=trio.Lock)
    """Held during a request with a message, so that its run is not taken for another one's."""

    async def run(self) -> None:
        """Talk until the person leaves."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow)
            nursery.start_soon(self._show_state)
            await self._obey_keyboard()
            nursery.cancel_scope.cancel(reason="the person has left")

    async def stop(self) -> bool:
        """Stop the running turn, and drop waiting messages. Return False if there was none."""
        try:
            told = await self.api.post(session_path(self.session.session_id, "/stop"), {})
        except (ApiRefused, Unreachable):
            return False
        if told["dropped"]:
            dropped = counted(told["dropped"], "waiting message")
            self._tell(Part("note", f"({dropped} dropped: the Up key brings back what was typed)"))
        return bool(told["stopped"] or told["dropped"])

    # --- what is typed ---

    async def _obey_keyboard(self) -> None:
        while (text := await self.keyboard.read()) is not None:
            if not text.strip():
                self.screen.show(Part("end"))
                continue
            try:
                if await self._obey(text):
                    return
            except GatewayError as error:
                self._tell(Part("problem", str(error)))

    async def _obey(self, text: str) -> bool:
        """Do what a typed text asks for. Return True to leave."""
        name, _, rest = text[1:].strip().partition(" ")
        if text.startswith("/") and name.lower() in OWN_COMMANDS:
            return await self._obey_own(name.lower(), rest.strip())
        if text.startswith("/") and await self._obey_command(text):
            return False
        if self.session.ask is not None and await self._answer(text):
            return False
        await self._post(text, "queue")
        return False

    async def _obey_own(self, name: str, rest: str) -> bool:
        match name:
            case "quit":
                return True
            case "new":
                self._open(Conversation(new_session_id(self.world)))
                self._tell(Part("note", "A new session begins with your next message."))
            case "sessions":
                await self._list()
            case "open":
                chosen = self._listed.get(rest, rest)
                found = await self.api.get(session_path(chosen)) if chosen else None
                if found is None:
                    self._tell(Part("note", "/sessions lists the sessions, and /open NUMBER continues one."))
                else:
                    self._open(Conversation(found["id"], found["title"] or ""))
            case "page":
                self._tell(Part("note", (await self.api.post("/api/admin/link", {}))["link"]))
        return False

    async def _list(self) -> None:
        listed = (await self.api.get("/api/sessions", limit=LISTED))["sessions"]
        self._listed = {str(number): one["id"] for number, one in enumerate(listed, 1)}
        lines = [
            f"{'*' if one['id'] == self.session.session_id else ' '}{number:3}  "
            f"{one['title'] or one['key']}{'  (running)' if one['state'] == 'running' else ''}"
            for number, one in enumerate(listed, 1)
        ]
        self._tell(Part("note", "\n".join(lines) or "There are no sessions yet."))

    async def _obey_command(self, text: str) -> bool:
        """Carry out a chat command. Return False if the text is none."""
        path = session_path(self.session.session_id, "/commands")
        told = await self.api.post(path, {"text": text}, within=LONG_TIMEOUT)
        replies = list(told["replies"])
        if told["command"] == "help":
            replies += [f"/{name} {help_}" for name, help_ in OWN_COMMANDS.items()]
        if replies:
            self._tell(Part("note", "\n".join(replies)))
        if rest := told["rest"]:
            if told["command"] == "background":
                await self._post_to(new_session_id(self.world), rest, "queue")
                self._tell(Part("note", "It runs in a session of its own; /sessions lists it."))
            else:
                await self._post(rest, "steer" if told["command"] == "steer" else "queue")
        return told["command"] is not None

    async def _answer(self, text: str) -> bool:
        """Answer the open question. Return False if the text is meant as a message."""
        ask = self.session.ask
        assert ask is not None  # noqa: S101 - the caller has looked
        try:
            path = session_path(self.session.session_id, "/answers")
            await self.api.post(path, {"id": ask.id, "answer": text[:10_000]})
        except ApiRefused as error:
            if error.code != "asked_no_more":
                return not ask.is_approval
            self.session.ask = None
            self._tell(Part("note", "The question is closed. Send the text again if it is a message."))
        return True

    async def _post(self, text: str, mode: str) -> None:
        if not self.session.title:
            self.session.title = " ".join(text.split())[:60]
        await self._post_to(self.session.session_id, text, mode)

    async def _post_to(self, session_id: str, text: str, mode: str) -> None:
        """Send a message until the gateway has stored it, once."""
        body = {"text": text, "mode": mode, "idempotency_key": self.world.new_id()}
        is_told = False
        while True:
            try:
                async with self._posting:
                    told = await self.api.post(session_path(session_id, "/messages"), body)
                    self._own.add(told["run_id"])
                if told["status"] == "queued" and self.session.run_id:
                    self._tell(Part("note", "(waits for its turn)"))
                return
            except ApiRefused as error:
                if error.code != NO_TURNS:
                    raise
                problem = str(error)
            except Unreachable as error:
                problem = str(error)
            if not is_told:
                self._tell(Part("note", f"{problem} Your message is kept here, and sent again."))
                is_told = True
            await trio.sleep(RETRY_EVERY)

    # --- what happens ---

    def _open(self, session: Conversation) -> None:
        """Show another session: the stream is opened again, from the start of its running turn."""
        self.session = session
        self._stream.cancel(reason="another session is shown")

    async def _follow(self) -> None:
        """Show the events of the session, and connect again whenever the stream ends."""
        cursor = ""
        while True:
            with trio.CancelScope() as self._stream:
                try:
                    async with self.api.events(cursor) as events:
                        cursor = await self._show(events, cursor)
                except* (ApiRefused, Unreachable):
                    pass
            self.is_connected = False
            self._wake()
            if self._stream.cancelled_caught:
                cursor = ""
            else:
                await trio.sleep(RETRY_EVERY)

    async def _show(self, events: trio.MemoryReceiveChannel[Event], cursor: str) -> str:
        """Show events to the end of the stream, and return the position. Without a position the stored
        messages come first, then the events that they do not contain."""
        first: list[Event] | None = None if cursor else []
        async for event in events:
            if event["event"] == "gateway.changed":
                await self._connected(event)
                for earlier in first or ():
                    await self._happened(earlier)
                first = None
            elif first is not None:
                first.append(event)
            else:
                await self._happened(event)
            if "seq" in event:
                cursor = f"{event['run_id']}:{event['seq']}"
        return cursor

    async def _connected(self, event: Event) -> None:
        """Take the state of the gateway. With the first one after `_open` the session is read."""
        is_first = not self.gateway
        self.gateway, self.is_connected = event, True
        if is_first:
            for part in welcome(event, self.address() or "", self.is_own_gateway, self.notices):
                self.screen.show(part)
        if not self.session.is_read:
            await self._read()
        self._wake()

    async def _read(self) -> None:
        """Show the end of the stored messages of the session."""
        rows = list[Mapping[str, Any]]()
        try:
            found = await self.api.get(session_path(self.session.session_id))
            rows = await self._stored_messages("")
        except ApiRefused as error:
            if error.status != 404:  # a new session
                raise
        else:
            self.session.title = found["title"] or ""
            count = counted(len([row for row in rows if row["role"] == "user"]), "message")
            self.screen.show(
                Part(
                    "note",
                    f"Continues {self.session.title or found['key']!r} ({count}); /new begins another.",
                )
            )
        self.session.is_read = True
        for part in self.session.take_rows(rows):
            self.screen.show(part)
        self.screen.show(Part("end"))

    async def _stored_messages(self, after: str | None) -> list[Mapping[str, Any]]:
        """Return the stored messages after this one; all of them after none."""
        rows, path = list[Mapping[str, Any]](), session_path(self.session.session_id, "/messages")
        while after is not None:
            page = await self.api.get(path, limit=PAGE, **({"after": after} if after else {}))
            rows, after = rows + page["messages"], page["next"]
        return rows

    async def _happened(self, event: Event) -> None:
        if event.get("session_id") != self.session.session_id:
            return
        if event["event"] == "gap":
            self.screen.show(Part("note", "(Events were missed: /open shows the session again.)"))
        if "seq" not in event:
            return
        if self.session.is_new(event):
            async with self._posting:
                await self._show_people(event["run_id"])
        for part in self.session.take(event):
            self.screen.show(part)
        self._wake()

    async def _show_people(self, run_id: str) -> None:
        """Show the messages of a run that begins, unless they were typed here."""
        if run_id in self._own:
            return
        try:
            rows = await self._stored_messages(self.session.last_row)
        except (ApiRefused, Unreachable):
            return
        for row in rows:
            self.session.last_row = row["id"]
            if row["role"] == "user" and row["run_id"] == run_id:
                self.screen.show(Part("person", row["content"]))

    # --- the line about the state ---

    def _tell(self, part: Part) -> None:
        self.screen.show(part)
        if not self.session.run_id:
            self.screen.show(Part("end"))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def _show_state(self) -> None:
        """Draw the line about the state: when it changes, and each second while something runs."""
        began = ("", 0.0)
        while True:
            if self.session.run_id != began[0]:
                began = (self.session.run_id, trio.current_time())
            self.screen.show_state(self._state(trio.current_time() - began[1]))
            with trio.move_on_after(1.0 if self.session.run_id else math.inf):
                await self._changed.wait()

    def _state(self, seconds: float) -> str:
        if not self.is_connected:
            waits = "waits for the gateway" if self.gateway else "connects"
        elif not self.gateway.get("ready"):
            waits = "the gateway takes no turns now"
        else:
            waits = self.session.waits_for() or "ready"
        model = (self.gateway.get("model") or {}).get("name", "")
        time = f"{seconds:.0f} s" if self.session.run_id and self.is_connected else ""
        return " · ".join(filter(None, (model, self.session.title[:30] or "new session", time, waits)))
