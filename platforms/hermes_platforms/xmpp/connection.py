"""A live connection: what people say until it is stored, what becomes of our messages, and our rooms.

A stanza is acknowledged once everything up to it is stored, and the number is kept in the memory before. So
a session that is resumed, also by the next process, begins with the first message that is not stored. A
session that has ended is continued from the archive of the server, if it has one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from xml.etree.ElementTree import Element

import trio
import trio.lowlevel

from hermes_trio.platform import LinkLost, Log, Memory, MessageEvent, NotSent, OutcomeUnknown, PlatformError

from .history import History
from .library import XmppStream
from .parsing import Account, archive_id, event_of, occupant_of
from .place import Place
from .settings import XmppSettings
from .stanzas import MESSAGE, NotInRoom, bare, condition_of, error_of, joining, presence

QUIET = 90.0
"""Seconds of silence after which the server is asked for a sign of life, and after as many more is lost."""
JOIN_AGAIN_AFTER = 60.0

log = Log(__name__)


@dataclass(slots=True)
class Receipt:
    """The receipt of a message that was sent: known once the server has taken or refused it."""

    is_room: bool
    known: trio.Event = field(default_factory=trio.Event)
    error: PlatformError | None = None


@dataclass(slots=True)
class Come:
    """A message of a person that is not stored yet."""

    number: int
    """Number of its stanza in the session."""
    event: MessageEvent
    archived_as: str = ""

    @property
    def name(self) -> tuple[str, str | None]:
        """Name of the message, equal on each of the ways on which it comes."""
        return self.event.source.chat_id, self.event.message_id


def merged(missed: Sequence[Come], held: Sequence[Come]) -> list[Come]:
    """Return the messages of the archive and of the stream, each once. The order of the archive stays, and a
    message of the stream alone is between those that came before and after it. A message that has come both
    ways is acknowledged by its number in the stream."""
    numbers = {one.name: one.number for one in held}
    placed, place = list[tuple[int, Come]](), 0
    for one in missed:
        place = max(place, numbers.get(one.name, 0))
        placed.append((place, replace(one, number=numbers.pop(one.name, one.number))))
    placed += [(one.number, one) for one in held if one.name in numbers]
    return [one for _, one in sorted(placed, key=itemgetter(0))]


class XmppConnection:
    """A connection, from the session's begin or resumption to its loss."""

    def __init__(
        self, stream: XmppStream, settings: XmppSettings, account: Account, place: Place, memory: Memory
    ) -> None:
        self.stream, self.account, self._settings = stream, account, settings
        self._place, self._memory = place, memory
        self.history = History(stream, settings.address, account.platform)
        self.waiting: deque[Come] = deque()
        self._held: list[Come] | None = []
        """Messages that come until older ones are read from the archive; None afterwards."""
        self._missed: set[tuple[str, str | None]] = set()
        """Messages that were read from the archive: the server may deliver them too."""
        self._receipts: dict[str, Receipt] = {}
        self._joined: set[str] = set()
        self._changed, self._to_acknowledge = trio.Event(), trio.Event()
        stream.on_stanza, stream.on_sent = self._take, self._sent
        stream.acks.on_request = lambda: self._to_acknowledge.set()

    # --- life ---

    async def begin(self) -> None:
        """Be present, unless the session is resumed, and read what the archive has and we have not stored."""
        if self.stream.is_resumed:
            self._joined |= set(self._place.rooms)
        else:
            self._place = Place(self.stream.session_id, 0, await self._archive())
            self.stream.put(presence())
            self._join()
        # The archive is asked after the presence, so that nothing falls between it and the stream.
        missed: list[Come] = []
        if self._place.archive is not None:
            for one in await self.history.since(self._place.archive):
                missed += self._come(one.archived.message, one.number, one.archived.id)
                if not missed:  # it is for nobody, such as an answer of ours, and nothing before it waits
                    self._place = replace(self._place, archive=one.archived.id)
        held, self._held = self._held or [], None
        self._missed = {one.name for one in missed}
        self._add(*merged(missed, held))

    async def _archive(self) -> str | None:
        """Return where the archive is read from; None if there is none. The first session begins with the
        present."""
        if not await self.history.is_there():
            return None
        return await self.history.end() if self._place.archive is None else self._place.archive

    async def run(self) -> None:
        """Look after the connection until it is lost."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._acknowledge)
            nursery.start_soon(self._watch)
            nursery.start_soon(self._keep_joined)
            await self.stream.ended.wait()
            self.lost()
            nursery.cancel_scope.cancel(reason="the connection is lost")

    @property
    def has_archive(self) -> bool:
        """The server keeps messages, so one of ours can be found again."""
        return self._place.archive is not None

    def lost(self) -> None:
        """Let every waiting call know that the connection has ended."""
        for receipt in self._receipts.values():
            receipt.error = receipt.error or OutcomeUnknown(f"{self.stream.loss} The message was on its way.")
            receipt.known.set()
        self._change()

    async def _watch(self) -> None:
        """Notice a server that has gone without a word."""
        while True:
            before = self.stream.stanzas_heard
            await trio.sleep(QUIET)
            if self.stream.stanzas_heard == before:
                self.stream.ask_for_ack()
                await trio.sleep(QUIET)
                if self.stream.stanzas_heard == before:
                    self.stream.lose(f"it has been silent for {2 * QUIET:g} seconds")

    async def _keep_joined(self) -> None:
        while True:
            await trio.sleep(JOIN_AGAIN_AFTER)
            self._join()

    def _join(self) -> None:
        for room in self._settings.rooms:
            if room not in self._joined:
                self.stream.put(joining(room, self._settings.nick))

    # --- messages of people ---

    async def changed(self) -> None:
        """Wait for a message of a person, or the end."""
        await self._changed.wait()

    def stored(self) -> None:
        """Note that the first waiting message is stored."""
        come = self.waiting.popleft()
        if come.archived_as:
            self._place = replace(self._place, archive=come.archived_as)
        self._to_acknowledge.set()

    async def _acknowledge(self) -> None:
        """Acknowledge what is stored. The number is kept first: one that is older than what the server knows
        would end the session."""
        while True:
            self._to_acknowledge = trio.Event()
            handled = min((one.number for one in self.waiting), default=self.stream.acks.handled + 1) - 1
            self._place = self._place.at(handled, self._joined)
            await self._memory.keep(self._place.text)
            self.stream.acks.acknowledge(handled)
            await self._to_acknowledge.wait()

    def _take(self, stanza: Element, number: int) -> None:
        """Take a message or a presence."""
        if stanza.tag != MESSAGE:
            self._take_presence(stanza)
        elif stanza.get("type") == "error":
            self._take_error(stanza)
        elif not self.history.take(stanza, number):
            come = self._come(stanza, number, archive_id(stanza, bare(self._settings.address)))
            if self._held is not None:
                self._held += come
            elif come and come[0].name not in self._missed:
                self._add(*come)

    def _come(self, stanza: Element, number: int, archived_as: str) -> list[Come]:
        """Return the message in a stanza, if there is one for us."""
        found = event_of(stanza, self.account, archived_as)
        if isinstance(found, MessageEvent):
            return [Come(number, found, archived_as)]
        if found.why:
            log.info("message left out", platform=self.account.platform, why=found.why)
        return []

    def _add(self, *come: Come) -> None:
        self.waiting.extend(come)
        self._change()

    def _change(self) -> None:
        happened, self._changed = self._changed, trio.Event()
        happened.set()

    # --- presence ---

    def _take_presence(self, stanza: Element) -> None:
        sender, kind = stanza.get("from", ""), stanza.get("type", "")
        room = bare(sender)
        if kind == "subscribe":
            allowed = self._settings.allow_from
            answer = "subscribed" if allowed == "all" or room in allowed else "unsubscribed"
            self.stream.put(presence(room, answer))
        elif kind == "error":
            if self.account.is_room(room):
                condition, _, _ = condition_of(stanza)
                log.warning("room not joined", platform=self.account.platform, room=room, error=condition)
        elif self.account.is_room(room):
            self._take_occupant(stanza)

    def _take_occupant(self, stanza: Element) -> None:
        occupant, person, codes = occupant_of(stanza)
        if person:
            self.account.occupants[occupant] = person
        else:
            self.account.occupants.pop(occupant, None)
        if "110" in codes:  # it is about us
            room = bare(occupant)
            (self._joined.discard if person is None else self._joined.add)(room)
            state = "room left" if person is None else "room joined"
            log.info(state, platform=self.account.platform, room=room)

    # --- our messages ---

    async def say(self, stanza: Element, *, is_room: bool) -> None:
        """Send a message, and return once the server has taken it. Raises as `Link.send` does."""
        await trio.lowlevel.checkpoint()
        if self.stream.loss is not None:
            raise NotSent(f"There is no connection: {self.stream.loss}")
        stanza_id = stanza.get("id", "")
        self._receipts[stanza_id] = receipt = Receipt(is_room)
        try:
            self.stream.put(stanza)
            self.stream.ask_for_ack()
            await receipt.known.wait()
        finally:
            self._receipts.pop(stanza_id, None)
        if receipt.error is not None:
            raise receipt.error

    def show(self, stanza: Element) -> None:
        """Send something that nobody has to get."""
        if self.stream.loss is not None:
            raise LinkLost(str(self.stream.loss))
        self.stream.put(stanza)

    def _sent(self, stanza_id: str) -> None:
        if receipt := self._receipts.get(stanza_id):
            receipt.known.set()

    def _take_error(self, stanza: Element) -> None:
        """Note an error. It comes before the acknowledgement of its message, unless it is of another
        server."""
        receipt = self._receipts.get(stanza.get("id", ""))
        sender = bare(stanza.get("from", ""))
        if receipt is None:
            condition, _, _ = condition_of(stanza)
            log.warning(
                "message came back after it was taken", platform=self.account.platform, error=condition
            )
            return
        receipt.error = error_of(stanza, is_room=receipt.is_room)
        if receipt.is_room and isinstance(receipt.error, NotInRoom):
            self._joined.discard(sender)
            self._join()
        elif receipt.is_room and sender not in self._joined:
            receipt.error = NotSent(f"The room is not joined now: {receipt.error}")
