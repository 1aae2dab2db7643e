"""The settings of an IRC connection, from the configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

NICK = re.compile(r"[A-Za-z\[\]\\`_^{|}][A-Za-z0-9\[\]\\`_^{|}-]{0,29}")
CHANNEL = re.compile(r"[#&+!][^\x00-\x20,\x07]{1,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class IrcSettings:
    """Settings of one connection: the server, who we are there, and whom we hear."""

    host: str
    port: int = 6697
    tls: bool = True
    tls_ca: str | None = None
    """File with the certificate that signed that of the server; None for the usual ones."""
    nick: str = "hermes"
    account: str = ""
    """Name of our account at the services of the network; the nick if it is empty."""
    password: str | None = field(default=None, repr=False)
    """Password of the account, for SASL."""
    server_password: str | None = field(default=None, repr=False)
    channels: tuple[str, ...] = ()
    require_mention: bool = True
    known: tuple[str, ...] = ()
    """Accounts and masks of the lists of people. A person of a mask has the mask as id."""
    codes: bool = True
    """Bold and italic text is shown as such."""
    line_seconds: float = 1.0
    """Seconds between two lines, after a few at once."""

    @property
    def identity(self) -> str:
        """Name of the connection's owner: a network has one connection of it."""
        return f"{self.host.lower()}:{self.port}/{(self.account or self.nick).lower()}"

    @property
    def login(self) -> str:
        return self.account or self.nick
