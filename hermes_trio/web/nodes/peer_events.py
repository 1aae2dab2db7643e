"""The events of the other gateways, for one client that listens to the events of all sessions.

Each client has a stream of its own from each other gateway, open for as long as the client listens. They are
open before the events that it has missed are read from the journals, so what both have is found twice, and
nothing is in neither. When a stream ends, or a gateway comes or goes, events may be missing: then the client
is cut off, connects again with its cursor, and gets exactly what it has missed from the journals. That is all
there is to a lost gateway here.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import h11
import msgspec
import trio

from ...log import Log
from ...state.tables.lives import Peer
from ..http.connection import PIECE
from .forwarding import CONNECT_WITHIN, Forwarding

MOST_UNREAD = 4096
"""Events after which a client that reads too slowly is cut off."""
AGAIN_AFTER = 10.0
"""Seconds after which a client is cut off if a gateway that lives could not be reached."""
NOT_PASSED_ON = ("gateway.changed", "gateway.ending", "gap", "cut")
"""Events about the other gateway, or about our connection to it."""
_FAILED = (
    OSError,
    trio.TooSlowError,
    trio.BrokenResourceError,
    h11.RemoteProtocolError,
    msgspec.DecodeError,
)

log = Log(__name__)


class PeerEvent(msgspec.Struct, frozen=True):
    """One event of another gateway. `data` has its fields, as they are sent."""

    event: str
    session_id: str = ""
    run_id: str = ""
    seq: int = 0
    """0 for an event of no run."""
    data: bytes = b""


class PeerEvents:
    """The events of the other gateways, since `follow` has started."""

    def __init__(self, forwarding: Forwarding, wake: Callable[[], None]) -> None:
        """`wake` is called after each change."""
        self.cut = False
        """True if events may be missing after the unread ones."""
        self._forwarding, self._wake = forwarding, wake
        self._unread: list[PeerEvent] = []

    def take(self) -> list[PeerEvent]:
        """Return and remove the unread events, without waiting."""
        unread, self._unread = self._unread, []
        return unread

    async def follow(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Listen to the other gateways, until cancelled. It has started when it listens to each that can be
        reached."""
        peers = self._forwarding.peers
        known = peers.with_door
        async with trio.open_nursery() as nursery:
            async with trio.open_nursery() as opening:
                for peer in known.values():
                    opening.start_soon(nursery.start, self._listen, peer)
            task_status.started()
            while peers.with_door == known:
                await peers.changed.wait()
            self._cut()

    async def _listen(self, peer: Peer, task_status: trio.TaskStatus[None]) -> None:
        http = h11.Connection(h11.CLIENT)
        try:
            with trio.fail_after(CONNECT_WITHIN):
                stream = await self._opened(http, peer)
        except _FAILED as error:
            log.warning("events of another gateway not heard", node=peer.node, error=str(error))
            task_status.started()
            await trio.sleep(AGAIN_AFTER)
            self._cut()
            return
        task_status.started()
        try:
            async with stream:
                await self._hear_all(http, stream)
        except _FAILED as error:
            log.info("events of another gateway ended", node=peer.node, error=str(error))
        self._cut()

    async def _opened(self, http: h11.Connection, peer: Peer) -> trio.abc.Stream:
        """Ask a gateway for its events, and return the stream of its answer, after the head. Raises what is
        in `_FAILED`."""
        stream = await self._forwarding.peers.connect(peer)
        try:
            path = urlsplit(peer.address or "").path.rstrip("/") + "/api/events"
            head = h11.Request(method="GET", target=path, headers=self._forwarding.headers_to(peer))
            await stream.send_all(http.send(head) + http.send(h11.EndOfMessage()))
            while (event := http.next_event()) is h11.NEED_DATA:
                http.receive_data(bytes(await stream.receive_some(PIECE)))
            if not isinstance(event, h11.Response) or event.status_code != 200:
                raise ConnectionRefusedError(f"it answers {getattr(event, 'status_code', 'nothing')}")
        except BaseException:  # also a cancellation: nobody else knows the connection yet
            await trio.aclose_forcefully(stream)
            raise
        return stream

    async def _hear_all(self, http: h11.Connection, stream: trio.abc.Stream) -> None:
        """Hear the events of an answer, each when it is whole, up to its end."""
        unread = b""
        while True:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(bytes(await stream.receive_some(PIECE)))
            elif isinstance(event, h11.Data):
                *whole, unread = (unread + bytes(event.data)).split(b"\n\n")
                for frame in whole:
                    self._hear(frame)
            else:
                return

    def _hear(self, frame: bytes) -> None:
        data = frame.partition(b"data: ")[2]
        if not data:
            return  # a comment, which says that the connection lives
        event = msgspec.structs.replace(_decode(data), data=data)
        if event.event in NOT_PASSED_ON:
            return
        if len(self._unread) < MOST_UNREAD:
            self._unread.append(event)
            self._wake()
        else:
            self._cut()

    def _cut(self) -> None:
        self.cut = True
        self._wake()


_decode = msgspec.json.Decoder(PeerEvent).decode
