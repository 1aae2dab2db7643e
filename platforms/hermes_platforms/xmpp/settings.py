"""The settings of an XMPP account, from the configuration."""

from __future__ import annotations

import re
import ssl
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

RESOURCE = "hermes"
ADDRESS = re.compile(r"(?:[^\s@/<>\"&':]{1,1000}@)?[^\s@/<>\"&':]{1,1000}")
"""An address of a person, a room or a server, without the device."""
NICK = re.compile(r"[^\s/@][^\n\r/@]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class XmppSettings:
    """Settings of one account: who we are, how its server is reached, and whom we hear."""

    address: str
    password: str = field(repr=False)
    host: str = ""
    """Name of the server; empty to ask the name service for that of the address."""
    port: int = 5222
    tls: bool = True
    tls_ca: str | None = None
    """File with the certificate that signed that of the server; None for the usual ones."""
    rooms: tuple[str, ...] = ()
    nick: str = "hermes"
    """Our name in rooms."""
    require_mention: bool = True
    allow_from: Collection[str] | Literal["all"] = ()
    """People who may see when we are there."""

    def context(self) -> ssl.SSLContext:
        """Return the TLS settings of a connection. It reads the certificates of the machine, which takes a
        moment."""
        context = ssl.create_default_context(cafile=self.tls_ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context
