"""A connection to an XMPP server for tests, and the session that outlives it."""

from __future__ import annotations

import base64
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast
from xml.etree.ElementTree import Element, SubElement, XMLPullParser, fromstring, tostring

import trio
import trio.testing

from hermes_trio.platform import (
    ChatGone,
    CredentialsRefused,
    FloodWait,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
)
from hermes_trio.testing import WaitingEvent

from ..archive import ARCHIVE
from ..stanzas import CLIENT, ERRORS, IQ, MESSAGE, PRESENCE

if TYPE_CHECKING:
    from .xmpp_server import XmppServer

SM, SASL = "{urn:xmpp:sm:3}", "{urn:ietf:params:xml:ns:xmpp-sasl}"
BIND = "{urn:ietf:params:xml:ns:xmpp-bind}"
_MAM, _PAGES = f"{{{ARCHIVE}}}", "{http://jabber.org/protocol/rsm}"
_DISCO = "{http://jabber.org/protocol/disco#info}"
HEADER = (
    "<stream:stream from='home.test' id='s1' version='1.0' xml:lang='en' xmlns='jabber:client' "
    "xmlns:stream='http://etherx.jabber.org/streams'>"
)
LOGIN = f"<mechanisms xmlns='{SASL[1:-1]}'><mechanism>PLAIN</mechanism></mechanisms>"
ACKS = f"<sm xmlns='{SM[1:-1]}'/>"
_numbers = itertools.count(1)


@dataclass(slots=True, eq=False)
class Session:
    """What the server knows of a session: the stanzas that the client has not acknowledged."""

    id: str = field(default_factory=lambda: f"session-{next(_numbers)}")
    taken: int = 0
    """Number of stanzas that the client has sent."""
    sent: int = 0
    unacknowledged: deque[tuple[int, Element, WaitingEvent | None]] = field(default_factory=deque)
    delivered: set[int] = field(default_factory=set)
    is_present: bool = False


class HungUp(Exception):
    """The client has ended the stream."""


class XmppClient:
    """One connection."""

    def __init__(self, server: XmppServer, stream: trio.SocketStream) -> None:
        self._server, self._stream = server, stream
        self._session: Session | None = None
        self._is_in = False
        self._last: trio.Event | None = None
        """Set when the message that came last is done."""
        self._parser: XMLPullParser[Element]
        self._to_write = deque[bytes]()
        self._more = trio.Event()

    async def serve(self) -> None:
        """Serve the connection until it ends."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._write)
                await self._read(nursery)
        except* HungUp:
            self._server.forget()
            with trio.move_on_after(1):
                await self._stream.send_all(b"</stream:stream>")

    # --- the wire ---

    def put(self, data: str | Element) -> None:
        """Write something after what was written before."""
        self._to_write.append(data.encode() if isinstance(data, str) else tostring(data))
        self._more.set()

    async def _write(self) -> None:
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self._to_write:
                await self._stream.send_all(self._to_write.popleft())

    async def _read(self, nursery: trio.Nursery) -> None:
        self._restart()
        depth = 0
        while data := await self._stream.receive_some(1 << 16):
            parser = self._parser
            parser.feed(data)
            for event, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
                depth += 1 if event == "start" else -1
                if event == "start" and depth == 1:
                    self.put(f"{HEADER}<stream:features>{self._features()}</stream:features>")
                elif event == "end" and depth == 0:
                    raise HungUp
                elif event == "end" and depth == 1:
                    await self._take(element, nursery)
            if self._parser is not parser:
                depth = 0
        nursery.cancel_scope.cancel(reason="the client has gone")

    def _features(self) -> str:
        if not self._is_in:
            return LOGIN
        return f"<bind xmlns='{BIND[1:-1]}'/>{ACKS if self._server.has_acks else ''}"

    def _restart(self) -> None:
        self._parser = XMLPullParser(("start", "end"))

    # --- stanzas of the client ---

    async def _take(self, element: Element, nursery: trio.Nursery) -> None:
        server, session = self._server, self._session
        afterwards = server.asking(element.tag)
        if session is not None and element.tag in (MESSAGE, PRESENCE, IQ):
            session.taken += 1
        match element.tag.removeprefix(SM):
            case "resume":
                self._resume(element, nursery)
            case "enable":
                self._session = server.session = Session()
                self.put(f"<enabled xmlns='{SM[1:-1]}' id='{self._session.id}' resume='true'/>")
            case "r" if session is not None:
                nursery.start_soon(self._acknowledge, self._last, session.taken)
            case "a" if session is not None:
                self._acknowledged(session, int(element.get("h", "0")))
        match element.tag:
            case tag if tag == f"{SASL}auth":
                await self._log_in(element)
            case tag if tag == IQ:
                self._answer(element)
            case tag if tag == PRESENCE:
                self._take_presence(element, nursery)
            case tag if tag == MESSAGE and element.find(f"{CLIENT}body") is None:
                chat = element.get("to", "")
                nursery.start_soon(server.typing, chat, None)
            case tag if tag == MESSAGE:
                self._last = done = trio.Event()
                nursery.start_soon(self._deliver, element, done)
        if afterwards is not None:
            await trio.testing.wait_all_tasks_blocked()
            afterwards()

    async def _log_in(self, element: Element) -> None:
        server = self._server
        name, password = base64.b64decode(element.text or "").decode().split("\0")[1:]
        condition = ""
        try:
            await server.connecting()
            if not server.lets_in or (f"{name}@home.test", password) != (server.address, server.password):
                condition = "not-authorized"
        except CredentialsRefused:
            condition = "not-authorized"
        except PlatformError:
            condition = "temporary-auth-failure"
        self._is_in = not condition
        if self._is_in:
            self._restart()
        answer = f"failure xmlns='{SASL[1:-1]}'><{condition}/></failure" if condition else "success"
        self.put(f"<{answer}>" if condition else f"<success xmlns='{SASL[1:-1]}'/>")

    async def _deliver(self, element: Element, done: trio.Event) -> None:
        """Show a message. An error of it comes before its acknowledgement."""
        chat, key = element.get("to", ""), element.get("id", "")
        message = Outgoing(chat_id=chat, text=element.findtext(f"{CLIENT}body") or "", key=key)
        error: PlatformError | None = None
        try:
            await self._server.show(message, element)
        except PlatformError as refused:
            error = refused
        if error is not None:
            self._send(_bounced(chat, key, error))
        done.set()

    async def _acknowledge(self, last: trio.Event | None, number: int) -> None:
        """Acknowledge what was taken, when the last message of it is done."""
        if last is not None:
            await last.wait()
        self.put(f"<a xmlns='{SM[1:-1]}' h='{number}'/>")

    def _take_presence(self, element: Element, nursery: trio.Nursery) -> None:
        if (kind := element.get("type", "")).startswith(("subscribed", "unsubscribed")):
            self._server.answered[element.get("to", "")] = kind
            self._server.changed.set()
        to, nick = element.get("to", "").partition("/")[::2]
        if nick:
            self._send(_joined(to, nick))
        elif not to and self._session is not None and not self._session.is_present:
            self._session.is_present = True
            self._server.to_session = self._send
            nursery.start_soon(self._bring, self._session)

    def _answer(self, element: Element) -> None:
        answer = Element(IQ, {"type": "result", "id": element.get("id", "")})
        if element.find(f"{BIND}bind") is not None:
            bound = SubElement(answer, f"{BIND}bind")
            SubElement(bound, f"{BIND}jid").text = f"{self._server.address}/hermes"
        elif element.find(f"{_DISCO}query") is not None and self._server.archives:
            SubElement(SubElement(answer, f"{_DISCO}query"), f"{_DISCO}feature", var=ARCHIVE)
        elif (query := element.find(f"{_MAM}query")) is not None:
            self._bring_archived(query, answer)
        self._send(answer)

    def _bring_archived(self, query: Element, answer: Element) -> None:
        pages = query.find(f"{_PAGES}set")
        assert pages is not None  # noqa: S101 - the client pages
        most, before = int(pages.findtext(f"{_PAGES}max") or 100), pages.findtext(f"{_PAGES}before")
        after = pages.findtext(f"{_PAGES}after")
        values = [one.text for one in query.iter("{jabber:x:data}value")]
        found = [one for one in self._server.archive if len(values) < 2 or one.chat_id == values[1]]
        ids = [one.id for one in found]
        if after in ids:
            found = found[ids.index(after) + 1 :]
        if before in ids:
            found = found[: ids.index(before)]
        page = found[-most:] if before is not None else found[:most]
        for one in page:
            carrier = Element(MESSAGE, {"from": self._server.address})
            result = SubElement(carrier, f"{_MAM}result", queryid=query.get("queryid", ""), id=one.id)
            SubElement(result, "{urn:xmpp:forward:0}forwarded").append(fromstring(one.data))  # noqa: S314 - ours
            self._send(carrier)
        end = SubElement(answer, f"{_MAM}fin", complete="true" if len(page) == len(found) else "false")
        if page:
            pages = SubElement(end, f"{_PAGES}set")
            SubElement(pages, f"{_PAGES}first").text = page[0].id
            SubElement(pages, f"{_PAGES}last").text = page[-1].id

    # --- stanzas for the client ---

    def _resume(self, element: Element, nursery: trio.Nursery) -> None:
        session = self._server.session
        if session is None or session.id != element.get("previd"):
            self.put(f"<failed xmlns='{SM[1:-1]}'><item-not-found xmlns='{ERRORS[1:-1]}'/></failed>")
            return
        self._session = session
        self._server.resumed += 1
        self._acknowledged(session, int(element.get("h", "0")))
        self.put(f"<resumed xmlns='{SM[1:-1]}' previd='{session.id}' h='{session.taken}'/>")
        for _, stanza, _ in session.unacknowledged:
            self.put(stanza)
        nursery.start_soon(self._bring, session)

    async def _bring(self, session: Session) -> None:
        """Deliver the messages of people."""
        while True:
            for waiting in list(self._server.waiting):
                if waiting.number not in session.delivered:
                    session.delivered.add(waiting.number)
                    *before, stanza = self._server.stanzas_of(waiting)
                    for one in before:
                        self._send(one)
                    self._send(stanza, waiting)
                    self.put(f"<r xmlns='{SM[1:-1]}'/>")
            await self._server.changed.wait()

    def _send(self, stanza: Element, waiting: WaitingEvent | None = None) -> None:
        if self._session is not None:
            self._session.sent += 1
            self._session.unacknowledged.append((self._session.sent, stanza, waiting))
        self.put(stanza)

    def _acknowledged(self, session: Session, number: int) -> None:
        while session.unacknowledged and session.unacknowledged[0][0] <= number:
            _, _, waiting = session.unacknowledged.popleft()
            if waiting is not None:
                self._server.accept(waiting)


def _joined(room: str, nick: str) -> Element:
    muc = "{http://jabber.org/protocol/muc#user}"
    stanza = Element(PRESENCE, {"from": f"{room}/{nick}"})
    about = SubElement(stanza, f"{muc}x")
    SubElement(about, f"{muc}item", role="participant")
    SubElement(about, f"{muc}status", code="110")
    return stanza


def _bounced(chat: str, key: str, error: PlatformError) -> Element:
    """Return a message that comes back with an error."""
    match error:
        case FloodWait(seconds=seconds):
            kind, condition, text = "wait", "policy-violation", f"Wait {seconds:g} seconds"
        case NotSent():
            kind, condition, text = "wait", "internal-server-error", str(error)
        case ChatGone():
            kind, condition, text = "cancel", "item-not-found", str(error)
        case OutcomeUnknown():
            kind, condition, text = "wait", "remote-server-timeout", str(error)
        case _:
            kind, condition, text = "auth", "forbidden", str(error)
    stanza = Element(MESSAGE, {"from": chat, "type": "error", "id": key})
    about = SubElement(stanza, f"{CLIENT}error", type=kind)
    SubElement(about, f"{ERRORS}{condition}")
    SubElement(about, f"{ERRORS}text").text = text
    return stanza
