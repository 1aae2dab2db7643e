"""A platform in a package of its own: people write lines to a port of this machine, and read the answers
there.

Each connection is a chat. A line that was not stored is lost with its connection; a real platform sends it
again.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import trio

from hermes_trio import ConfigInvalid, MessageEvent, PlatformConfig, SessionSource
from hermes_trio.platform import BaseLink, ChatGone, Link, Outgoing, Traits

TRAITS = Traits(limit=1000)


def from_config(platform: PlatformConfig) -> "LineAdapter":
    """Return the adapter for `platforms.line` of a configuration, which names the port."""
    port = platform.options.get("port")
    if not isinstance(port, int):
        raise ConfigInvalid("platforms.line.port", "the port is missing", "Write port: <number>.")
    return LineAdapter(port)


class LineAdapter:
    """The adapter."""

    name, account, traits = "line", "main", TRAITS

    def __init__(self, port: int) -> None:
        self._port = port

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Link]:
        """Listen during the block."""
        async with trio.open_nursery() as nursery:
            link = LineLink()
            await nursery.start(partial(trio.serve_tcp, link.talk, self._port, host="127.0.0.1"))
            yield link
            nursery.cancel_scope.cancel(reason="the gateway is left")


class LineLink(BaseLink):
    """The open connections."""

    def __init__(self) -> None:
        super().__init__(TRAITS)
        self._lines, self._received = trio.open_memory_channel[MessageEvent](0)
        self._streams: dict[str, trio.SocketStream] = {}

    async def talk(self, stream: trio.SocketStream) -> None:
        """Hand on the lines of one person until the connection is closed."""
        chat = str(stream.socket.getpeername()[1])
        self._streams[chat] = stream
        rest = b""
        try:
            async for data in stream:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    source = SessionSource(platform="line", chat_id=chat, user_id=chat)
                    await self._lines.send(MessageEvent(source, line.decode("utf-8", "replace")))
        except trio.BrokenResourceError:
            return
        finally:
            del self._streams[chat]

    def receive(self) -> AsyncIterator[MessageEvent]:
        """Return the lines of all people. The next one is asked for when the one before is stored."""
        return self._received

    async def send(self, message: Outgoing) -> str | None:
        """Write an answer to its person."""
        try:
            await self._streams[message.chat_id].send_all(f"{message.text}\n".encode())
        except (KeyError, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ChatGone("The connection is closed.") from error
        return None
