"""The other gateways that share the store: which of them live, where they are reached, and whose a chat is.

They are read again at each look, as the chats of a gateway are. A life that is over is known to be so after
one look, so whoever waits for its answer does not wait for ever.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Mapping
from functools import cached_property
from urllib.parse import urlsplit

import trio

from ...base.errors import StoreError
from ...base.pulse import Pulse
from ...log import Log
from ...state.db.database import Database
from ...state.db.engine import Db
from ...state.tables import lives
from ...state.tables.lives import Peer

EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared, not listened at

FindOwner = Callable[[Db, str], str | None]
"""Returns the life that owns the chat of a session or of a run, by its name."""

log = Log(__name__)


def address_for_peers(configured: str | None, door: str) -> str | None:
    """Return the address at which other gateways reach the web server of this one: that of the configuration,
    or of its door. None if there is no door."""
    parts = urlsplit(door)
    if configured is not None or parts.hostname is None:
        return configured
    return f"http://{socket.gethostname()}:{parts.port}" if parts.hostname in EVERY_ADDRESS else door


class Peers:
    """The other gateways on the store of this one. A gateway that is alone has none, and never looks."""

    def __init__(self, database: Database, life: str | None, look: float) -> None:
        """`look` are the seconds between two looks. `life` is None in a gateway that is alone."""
        self.known: Mapping[str, Peer] = {}
        """The others that live, by their lives."""
        self.changed = Pulse()
        """Set when `known` has changed."""
        self.look = look
        self._database, self._life = database, life

    @property
    def are_possible(self) -> bool:
        """True if other gateways may share the store of this one."""
        return self._life is not None

    @property
    def with_door(self) -> Mapping[str, Peer]:
        """Those of `known` that have a web server, and have told where."""
        return {life: peer for life, peer in self.known.items() if peer.address is not None}

    async def follow(self) -> None:
        """Look at the others, until cancelled. Returns at once in a gateway that is alone."""
        while self._life is not None:
            try:
                await self.read()
            except StoreError as error:
                log.warning("other gateways not looked at; retrying", error=str(error))
            await trio.sleep(self.look)

    async def read(self) -> None:
        """Look at the others now."""
        if self._life is None:
            return
        found = {peer.life: peer for peer in await self._database.read(lives.peers_of, self._life)}
        if found != self.known:
            self.known = found
            self.changed.set()

    async def tell_address(self, address: str | None) -> None:
        """Tell the others where the web server of this gateway is reached."""
        if self._life is not None and address is not None:
            await self._database.write(lives.note_address, self._life, address)

    async def owner(self, find: FindOwner, name: str) -> Peer | None:
        """Return the gateway that owns the chat of a session or of a run; None if that is this one, or nobody
        that lives."""
        if not self.known:
            return None
        life = await self._database.read(find, name)
        if life in (None, self._life):
            return None
        if life not in self.known:
            await self.read()  # it has begun since the last look, or is over
        return self.known.get(life or "")

    async def connect(self, peer: Peer) -> trio.abc.Stream:
        """Connect to the web server of another gateway. Raises `OSError` and `trio.BrokenResourceError`."""
        parts = urlsplit(peer.address or "")
        if parts.hostname is None:
            raise ConnectionRefusedError("it has no web server")
        if parts.scheme != "https":
            return await trio.open_tcp_stream(parts.hostname, parts.port or 80)
        tcp = await trio.open_tcp_stream(parts.hostname, parts.port or 443)
        secured = trio.SSLStream(tcp, self._tls, server_hostname=parts.hostname)
        try:
            await secured.do_handshake()
        except BaseException:  # also a cancellation: nobody else knows the connection yet
            await trio.aclose_forcefully(secured)
            raise
        return secured

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """The certificates that are trusted. To read them takes 20 ms."""
        return ssl.create_default_context()

    async def lost(self, peer: Peer) -> None:
        """Wait until the life of a gateway is over."""
        while peer.life in self.known:
            await self.changed.wait()
