"""State of the IRC server for tests: what its network knows, and how it behaves."""

from __future__ import annotations

import math

from hermes_trio.platform import Traits
from hermes_trio.testing import Stage

from ..settings import IrcSettings

MODERN = (
    "account-tag",
    "batch",
    "echo-message",
    "labeled-response",
    "message-tags",
    "sasl",
    "server-time",
)
OLD = ()
PASSWORD = "simulated-password-of-nobody"  # noqa: S105 - it opens nothing


class IrcState(Stage):
    """State of one network."""

    def __init__(self, name: str, account: str, port: int, caps: tuple[str, ...]) -> None:
        super().__init__(name, account, Traits(limit=512, counting="bytes"))
        self.port, self.caps = port, caps
        self.password = PASSWORD
        self.features = ["CHANTYPES=#&-", "CASEMAPPING=rfc1459", "WHOX", "BOT=B"]
        self.strangers: set[str] = set()
        """Nicks of people who are not logged in."""
        self.taken: set[str] = set()
        """Nicks of other people."""
        self.read: list[str] = []
        """Lines of the adapter, in order."""
        self.silent = False
        """Answer nothing, not even a PING."""
        self.most_at_once = math.inf
        """Lines that may come at once; one more may come each second. More end the connection."""
        self.nicks: set[str] = set()
        """Nicks of the connections, in small letters."""

    @property
    def settings(self) -> IrcSettings:
        """Settings of an adapter for this server."""
        password = self.password if "sasl" in self.caps else None
        return IrcSettings(
            host="127.0.0.1", port=self.port, tls=False, nick="hermes", password=password, line_seconds=0.0
        )
