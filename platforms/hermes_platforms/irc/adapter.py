"""Adapter for IRC: it connects to a server, with or without TLS, and registers there.

On IRC a connection is the account: a second one with the same nick would be another person. So one process on
a machine has it.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import trio

from hermes_trio.platform import LinkLost, Log, Traits, sole_use

from .connection import Inbox, IrcConnection
from .irc_link import TRAITS, IrcLink
from .parsing import Me
from .registration import Welcome, register
from .settings import IrcSettings
from .wire import LineBuffer

REACH_WITHIN = 30.0
REGISTER_WITHIN = 60.0

OpenStream = Callable[[IrcSettings], Awaitable[trio.abc.Stream]]

log = Log(__name__)


class IrcAdapter:
    """An adapter for one nick on one network."""

    def __init__(
        self,
        settings: IrcSettings,
        *,
        open_stream: OpenStream | None = None,
        name: str = "irc",
        account: str = "main",
    ) -> None:
        self.name, self.account, self.settings = name, account, settings
        self.traits: Traits = TRAITS
        self._open_stream = open_stream or open_tcp
        self._inbox = Inbox()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[IrcLink]:
        """As `Adapter.connect`."""
        with sole_use(self.name, self.settings.identity) as alone:
            if not alone:
                raise LinkLost("Another process on this machine has this connection. Stop it first.")
            async with reached(self.settings, self._open_stream) as stream:
                buffer = LineBuffer()
                welcome = await registered(stream, self.settings, buffer, self.name)
                if welcome.nick.lower() != self.settings.nick.lower():
                    log.warning("nick in use; connected with another", platform=self.name, nick=welcome.nick)
                me = Me(welcome.nick, self.name, self.account, self.settings.require_mention)
                connection = IrcConnection(stream, buffer, self.settings, welcome, me, self._inbox)
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(connection.run)
                        yield IrcLink(connection)
                        nursery.cancel_scope.cancel(reason="the link is left")
                finally:
                    await connection.say_goodbye()  # noqa: ASYNC102 - shielded, and for a second at most
                    connection.lost("the link was left")


@asynccontextmanager
async def reached(
    settings: IrcSettings, open_stream: OpenStream | None = None
) -> AsyncIterator[trio.abc.Stream]:
    """Open a connection to the server for the block. Raises `LinkLost`."""
    try:
        with trio.fail_after(REACH_WITHIN):
            stream = await (open_stream or open_tcp)(settings)
    except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
        why = _certificate_trouble(error) or str(error) or type(error).__name__
        raise LinkLost(f"{settings.host}:{settings.port} cannot be reached: {why}.") from error
    try:
        yield stream
    finally:
        await trio.aclose_forcefully(stream)


async def registered(
    stream: trio.abc.Stream, settings: IrcSettings, buffer: LineBuffer, platform: str
) -> Welcome:
    """Register on a new connection. Lines that came after the registration stay in the buffer. Raises
    `CredentialsRefused` or `LinkLost`."""
    conversation = register(settings, platform)
    try:
        with trio.fail_after(REGISTER_WITHIN):
            await stream.send_all(b"".join(next(conversation)))
            while data := await stream.receive_some(1 << 14):
                for line in buffer.feed(data):
                    try:
                        answers = conversation.send(line)
                    except StopIteration as done:
                        welcome: Welcome = done.value
                        return welcome
                    await stream.send_all(b"".join(answers))
    except trio.TooSlowError as error:
        raise LinkLost("The IRC server did not complete the registration.") from error
    except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
        why = _certificate_trouble(error) or "the connection broke"
        raise LinkLost(f"The IRC server ended the registration: {why}.") from error
    raise LinkLost("The IRC server closed the connection during the registration.")


async def open_tcp(settings: IrcSettings) -> trio.abc.Stream:
    """Open a connection over TCP, with TLS unless the settings say otherwise."""
    stream = await trio.open_tcp_stream(settings.host, settings.port)
    if not settings.tls:
        return stream
    secure = trio.SSLStream(stream, _context(settings), server_hostname=settings.host, https_compatible=True)
    try:
        await secure.do_handshake()
    except BaseException:  # also a cancellation: nobody else knows the socket
        await trio.aclose_forcefully(stream)
        raise
    return secure


def _context(settings: IrcSettings) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=settings.tls_ca)


def _certificate_trouble(error: BaseException) -> str:
    """Return what is wrong with the certificate of the server, if that is the cause."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({cause.verify_message}); platforms.irc.tls_ca names another"
    return str(cause) if isinstance(cause, ssl.SSLError) else ""
