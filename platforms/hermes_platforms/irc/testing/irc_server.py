"""An IRC server on this machine, as an adapter sees it.

    async with open_irc_server() as server:
        ...                                          # an IrcAdapter(server.settings)
        await server.says("hello")                   # returns once the adapter has read it
        await server.until(lambda: server.chat("42").last == "Hello!")
        server.fails("send", ChatGone("gone"))       # the next message is refused with its number
        server.loses_answer()                        # the next message is shown, and the connection ends
        server.writes(":kim!k@h NICK :kimmy")        # a line as it is
        server.cuts_after(sent=10)                   # in the middle of the next line
        server.kill("Excess Flood")

It behaves like a real server wherever an adapter could depend on it: it takes lines in order, knows a label
or not, has one connection of a nick, cuts a line of more than 512 bytes. A message of a person counts as
accepted when the adapter has answered the PING after it: no server of IRC learns more.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio
import trio.testing

from hermes_trio.testing import ConnectionCutter, in_background

from .irc_client import IrcClient
from .irc_state import MODERN, IrcState


@asynccontextmanager
async def open_irc_server(
    name: str = "irc", *, account: str = "main", caps: tuple[str, ...] = MODERN
) -> AsyncIterator[IrcServer]:
    """Run the server while inside."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    server = IrcServer(name, account, listener.socket.getsockname()[1], caps)
    async with in_background(partial(trio.serve_listeners, server.serve, [listener])):
        yield server


class IrcServer(IrcState):
    """A server with one network, which serves connections."""

    def __init__(self, name: str, account: str, port: int, caps: tuple[str, ...]) -> None:
        super().__init__(name, account, port, caps)
        self.clients: list[IrcClient] = []
        self._cutter = ConnectionCutter()

    @property
    def connected(self) -> bool:
        """True while an adapter is registered."""
        return any(one.is_registered for one in self.clients)

    def drop(self) -> None:
        """Close every connection now."""
        for client in self.clients:
            client.scope.cancel(reason="dropped by the test")

    def kill(self, why: str) -> None:
        """End every connection as a server does."""
        for client in self.clients:
            client.end(why)

    def writes(self, *lines: str) -> None:
        """Send lines to the adapter as they are."""
        for client in self.clients:
            client.put(*lines)

    def cuts_after(self, *, sent: float = math.inf, received: float = math.inf) -> None:
        """Close the connection after this many more bytes were sent to the adapter, or received from it."""
        self._cutter.sent, self._cutter.received = sent, received

    async def open(self, nursery: trio.Nursery) -> trio.abc.Stream:
        """Return the side of a client of a new connection in memory."""
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(self.serve, ours)
        return theirs

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until it ends."""
        client = IrcClient(self, stream, self._cutter)
        self.clients.append(client)
        try:
            with client.scope:
                async with stream:
                    await client.converse()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            self.clients.remove(client)
            self.note("disconnect")
