"""A mail server on this machine: one mailbox over IMAP, and submission by SMTP, with people whom a test
drives.

async with open_mail_server() as server:
    ...                                    # an adapter with server.settings
    await server.says("hello")             # returns once the mail is marked as read
    server.drop()                          # the connections break
    server.put(data)                       # a mail as it is
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import trio

from hermes_trio.testing import in_background

from .imap_session import ImapSession
from .mail_state import MailState
from .smtp_session import SmtpSession


@asynccontextmanager
async def open_mail_server(name: str = "email", *, account: str = "main") -> AsyncIterator[MailServer]:
    """Run the server while inside."""
    server = MailServer(name, account)
    listeners = [(await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] for _ in range(2)]
    server.imap_port, server.smtp_port = (one.socket.getsockname()[1] for one in listeners)
    async with in_background(partial(server.listen, listeners)):
        yield server


class MailServer(MailState):
    """A mail server that listens on two ports."""

    def __init__(self, name: str, account: str) -> None:
        super().__init__(name, account)
        self._connections: set[trio.CancelScope] = set()

    def drop(self) -> None:
        """Close every connection now."""
        for one in self._connections:
            one.cancel(reason="dropped by the test")

    async def listen(self, listeners: list[trio.SocketListener]) -> None:
        """Serve both ports."""
        imap, smtp = listeners
        async with trio.open_nursery() as nursery, imap, smtp:
            nursery.start_soon(self._accept, imap, lambda stream: ImapSession(self, stream).serve(), nursery)
            nursery.start_soon(self._accept, smtp, lambda stream: SmtpSession(self, stream).serve(), nursery)
            await trio.sleep_forever()

    async def _accept(
        self,
        listener: trio.SocketListener,
        serve: Callable[[trio.SocketStream], Awaitable[None]],
        nursery: trio.Nursery,
    ) -> None:
        while True:
            stream = await listener.accept()
            nursery.start_soon(self._serve, stream, serve)

    async def _serve(
        self, stream: trio.SocketStream, serve: Callable[[trio.SocketStream], Awaitable[None]]
    ) -> None:
        with trio.CancelScope() as scope:
            self._connections.add(scope)
            try:
                async with stream:
                    await serve(stream)
            except* trio.BrokenResourceError:
                pass
            finally:
                self._connections.discard(scope)
