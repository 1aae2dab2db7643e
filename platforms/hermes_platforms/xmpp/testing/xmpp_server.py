"""An XMPP server on this machine: one account with sessions that can be resumed, an archive, and rooms whose
people a test drives.

    async with open_xmpp_server() as server:
        ...                                    # an adapter with server.settings
        await server.says("hello")             # returns once its stanza is acknowledged
        server.drop()                          # the connection breaks; its session can be resumed
        server.forget()                        # no session can be resumed any more

A chat whose id begins with a minus sign is a room, which shows the addresses of its people. Messages that
were not acknowledged are delivered to the next session, as from offline storage.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from xml.etree.ElementTree import Element, SubElement, tostring

import trio

from hermes_trio.platform import MessageEvent, Outgoing
from hermes_trio.testing import Stage, WaitingEvent, in_background

from ..settings import XmppSettings
from ..stanzas import CLIENT, IDS, MESSAGE, MUC_USER, PRESENCE
from ..xmpp_link import TRAITS
from .xmpp_session import Session, XmppClient


@dataclass(frozen=True, slots=True)
class ArchivedMessage:
    """A message in the archive of the account."""

    id: str
    chat_id: str
    stanza_id: str
    data: bytes


@asynccontextmanager
async def open_xmpp_server(
    name: str = "xmpp", *, account: str = "main", archives: bool = True
) -> AsyncIterator[XmppServer]:
    """Run the server while inside."""
    server = XmppServer(name, account, archives=archives)
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server.port = listener.socket.getsockname()[1]
    async with in_background(partial(trio.serve_listeners, server.serve, [listener])):
        yield server


class XmppServer(Stage):
    """An XMPP server that listens on a port."""

    def __init__(self, name: str, account: str, *, archives: bool) -> None:
        super().__init__(name, account, TRAITS)
        self.address, self.password, self.port = "hermes_bot@home.test", "password-of-nobody", 0
        self.lets_in = True
        """The password is valid."""
        self.archives = archives
        self.archive: list[ArchivedMessage] = []
        self.session: Session | None = None
        """The session that messages go to; it outlives its connection."""
        self.resumed = 0
        """Number of sessions that were resumed."""
        self.answered: dict[str, str] = {}
        """Answers to people who want to see when we are there."""
        self.has_acks = True
        """The server offers stream management."""
        self.to_session: Callable[[Element], None] | None = None
        """Sends a stanza to the session that is connected."""
        self.asked: list[str] = []
        """Tags of the elements that the client has sent, in their order."""
        self._at_request: tuple[int, Callable[[], object], bool] | None = None
        self._message_id = ""
        self._clients: set[trio.CancelScope] = set()
        self._kept: set[int] = set()

    @property
    def base_url(self) -> str:
        """The address of the server."""
        return f"127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """The password."""
        return self.password

    @property
    def waiting(self) -> Sequence[WaitingEvent]:
        """Messages of people that are not acknowledged, oldest first."""
        return self._waiting

    @property
    def settings(self) -> XmppSettings:
        """The settings of the account, for laws: its people have addresses without a local part."""
        return XmppSettings(
            address=self.address,
            password=self.password,
            host="127.0.0.1",
            port=self.port,
            tls=False,
            rooms=("-100",),
            nick="hermes_bot",
            allow_from=("42",),
        )

    # --- for tests ---

    def drop(self) -> None:
        """Close every connection now."""
        for one in self._clients:
            one.cancel(reason="dropped by the test")

    def forget(self) -> None:
        """Forget the session, as a server does after a while."""
        self.session = None

    def at_request(self, number: int, act: Callable[[], object], *, done: bool) -> None:
        """Call `act` in place of an element that the client sends, counted from now, or after its effect."""
        self._at_request = (len(self.asked) + number, act, done)

    def refuses(self) -> None:
        """Make the password invalid from now on."""
        self.lets_in = False

    def ask_for_presence(self, person: str) -> None:
        """Ask to see when the account is there, as a person. A session must be connected."""
        assert self.to_session is not None  # noqa: S101 - the test has connected
        self.to_session(Element(PRESENCE, {"from": person, "type": "subscribe"}))

    # --- for the connections ---

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve a connection."""
        with trio.CancelScope() as scope:
            self._clients.add(scope)
            try:
                async with stream:
                    await XmppClient(self, stream).serve()
            except* trio.BrokenResourceError:
                pass
            finally:
                self._clients.discard(scope)

    def new_message_id(self) -> str:
        """As `Stage.new_message_id`."""
        return self._message_id

    async def show(self, message: Outgoing, stanza: Element) -> None:
        """Show a message, and put it into the archive. Its id is that of its stanza."""
        self.note("send", message.chat_id, text=message.text, key=message.key)

        def work() -> None:
            self._message_id = message.key
            self._chats.show(message, trio.current_time())
            self.keep(message.chat_id, stanza)

        await self._perform("send", message.chat_id, work)

    def asking(self, tag: str) -> Callable[[], object] | None:
        """Count an element that the client has sent. Return what `at_request` wants to be called after its
        effect; raise `trio.BrokenResourceError` if it was called in place of it."""
        self.asked.append(tag)
        if self._at_request is None or self._at_request[0] != len(self.asked):
            return None
        _, act, done = self._at_request
        if not done:
            act()
            raise trio.BrokenResourceError("the client was stopped by the test")
        return act

    def keep(self, chat_id: str, stanza: Element) -> None:
        """Put a message into the archive."""
        kept = ArchivedMessage(
            f"archived-{len(self.archive) + 1}", chat_id, stanza.get("id", ""), tostring(stanza)
        )
        if self.archives and not chat_id.startswith("-"):
            self.archive.append(kept)

    def stanzas_of(self, waiting: WaitingEvent) -> list[Element]:
        """Return the stanzas that bring a message; in a room, after the presence of its person."""
        event = waiting.event
        source = event.source
        if source.chat_type == "dm":
            stanza = _message(event, f"{source.user_id}/phone", "chat")
            if waiting.number not in self._kept:
                self._kept.add(waiting.number)
                self.keep(source.chat_id, stanza)
            for one in self.archive:
                if one.stanza_id == event.message_id:
                    SubElement(stanza, f"{IDS}stanza-id", {"id": one.id, "by": self.address})
            return [stanza]
        occupant = f"{source.chat_id}/{source.user_id}"
        shown = Element(PRESENCE, {"from": occupant})
        SubElement(SubElement(shown, f"{MUC_USER}x"), f"{MUC_USER}item", jid=f"{source.user_id}/phone")
        return [shown, _message(event, occupant, "groupchat")]


def _message(event: MessageEvent, sender: str, kind: str) -> Element:
    stanza = Element(MESSAGE, {"from": sender, "type": kind, "id": str(event.message_id)})
    SubElement(stanza, f"{CLIENT}body").text = event.text
    return stanza
