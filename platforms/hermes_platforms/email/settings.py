"""The settings of a mailbox, from the configuration."""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

import trio

CONNECT_WITHIN = 20.0
ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}(?:@[A-Za-z0-9.-]{1,255})?")
"""Addresses that need no quoting. One without a domain is of the server itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailSettings:
    """Settings of one mailbox: its servers, its address, and whom it hears."""

    address: str
    password: str = field(repr=False)
    imap_host: str
    smtp_host: str
    imap_port: int = 993
    smtp_port: int = 465
    smtp_starttls: bool = False
    """Encryption is asked for, and required, instead of used from the first byte."""
    tls: bool = True
    tls_ca: str | None = None
    """File with the certificate that signed those of the servers; None for the usual ones."""
    allow_from: Collection[str] | Literal["all"] = "all"
    """Addresses of people whose mail is read."""
    groups: Collection[str] = ()
    """Addresses of groups whose mail comes to this mailbox, and that are answered."""
    require_mention: bool = True
    authserv_id: str = ""
    """Name of our own server in its authentication results; empty for any name at the top."""
    trust_from: bool = False
    """Believe every sender address, without authentication results."""

    @property
    def domain(self) -> str:
        """The domain of our address."""
        return self.address.rpartition("@")[2]

    def context(self) -> ssl.SSLContext:
        """Return the TLS settings of a connection."""
        context = ssl.create_default_context(cafile=self.tls_ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


async def open_stream(settings: EmailSettings, host: str, port: int, *, tls: bool) -> trio.abc.Stream:
    """Connect. Raises OSError, also if it takes too long or the certificate is wrong."""
    try:
        with trio.fail_after(CONNECT_WITHIN):
            stream = await trio.open_tcp_stream(host, port)
            return await encrypted(settings, stream, host) if tls else stream
    except trio.TooSlowError:
        raise OSError(f"no connection within {CONNECT_WITHIN:g} seconds") from None
    except trio.BrokenResourceError as error:
        raise OSError(str(error.__cause__ or error)) from error


async def encrypted(settings: EmailSettings, stream: trio.abc.Stream, host: str) -> trio.abc.Stream:
    """Encrypt a connection. Raises `trio.BrokenResourceError`."""
    secure = trio.SSLStream(stream, settings.context(), server_hostname=host, https_compatible=True)
    try:
        await secure.do_handshake()
    except BaseException:  # also a cancellation: nobody else knows the socket
        await trio.aclose_forcefully(stream)
        raise
    return secure
