"""Registration at a server: capabilities, login by SASL, nick, and what the server says of itself.

A pure conversation: a generator that yields the lines to send, is sent each line of the server, and returns a
`Welcome`. It raises `CredentialsRefused` for what no retry can heal, and `LinkLost` for the rest.

| the server says | meaning |
|---|---|
| SASL refuses the password, or there is no such way to log in | final |
| the server's own password is wrong | final |
| it never accepts this nick | final |
| it offers no SASL now | services may be away: try again later |
| the nick is in use | another nick, until ours is free |
| anything else, and the end of the connection | try again later |
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hermes_trio.platform import CredentialsRefused, LinkLost

from .settings import IrcSettings
from .wire import Line, encode

WANTED = (
    "account-tag",
    "batch",
    "echo-message",
    "labeled-response",
    "message-tags",
    "server-time",
)
CAPS_VERSION = "302"
MOST_NICKS = 20
_SASL_PART = 400
_SASL_REFUSED = ("902", "904", "905", "906", "908")
_NICK_TAKEN = ("433", "436", "437")


@dataclass(frozen=True, slots=True)
class Welcome:
    """The facts that the server tells at the registration."""

    nick: str
    caps: frozenset[str] = frozenset()
    features: Mapping[str, str] = field(default_factory=dict)
    """Its tokens of ISUPPORT."""
    account: str = ""
    """Our account, if we are logged in."""

    @property
    def labels(self) -> bool:
        """True if the server answers each line of ours with its label."""
        return {"labeled-response", "echo-message", "message-tags", "batch"} <= self.caps


Conversation = Generator[Sequence[bytes], Line, Welcome]


def register(settings: IrcSettings, platform: str = "irc") -> Conversation:
    """Register with the server."""
    first = [encode("CAP", "LS", CAPS_VERSION)]
    if settings.server_password:
        first.append(encode("PASS", settings.server_password))
    state = _Registration(settings, platform)
    lines: Sequence[bytes] = [
        *first,
        encode("NICK", settings.nick),
        encode("USER", settings.nick.lower(), "0", "*", "hermes-trio"),
    ]
    while not state.is_done:
        lines = list(state.answers((yield lines)))
    return Welcome(state.nick, frozenset(state.caps), state.features, state.account)


class _Registration:
    """State of one registration."""

    def __init__(self, settings: IrcSettings, platform: str) -> None:
        self._settings, self._platform = settings, platform
        self._offered: dict[str, str] = {}
        self._nicks = 0
        self.nick, self.account = settings.nick, ""
        self.caps: set[str] = set()
        self.features: dict[str, str] = {}
        self.is_done = False

    def answers(self, line: Line) -> Iterator[bytes]:
        """Yield what to send after a line."""
        match line.command:
            case "PING":
                yield encode("PONG", line.param(-1))
            case "CAP":
                yield from self._cap(line)
            case "AUTHENTICATE":
                yield from self._authenticate()
            case "900":
                self.account = line.param(2)
            case "903" | "907":
                yield encode("CAP", "END")
            case code if code in _SASL_REFUSED:
                raise CredentialsRefused(self._platform, "password")
            case "464":
                raise CredentialsRefused(self._platform, "server_password")
            case "432":
                raise CredentialsRefused(self._platform, "nick")
            case code if code in _NICK_TAKEN:
                yield encode("NICK", self._next_nick())
            case "001":
                self.nick = line.param(0) or self.nick
            case "005":
                self.features |= dict(_feature(token) for token in line.params[1:-1])
            case "376" | "422":
                self._check_login()
                self.is_done = True
            case "ERROR" | "465":
                raise LinkLost(f"The IRC server refused the connection: {line.param(-1)[:200]}")

    def _cap(self, line: Line) -> Iterator[bytes]:
        what, names = line.param(1).upper(), line.param(-1).split()
        if what == "LS":
            self._offered |= dict(_feature(name) for name in names)
            if line.param(2) == "*" and len(line.params) > 3:
                return
            wanted = [name for name in WANTED if name in self._offered]
            if self._settings.password:
                self._check_sasl()
                wanted.append("sasl")
            yield encode("CAP", "REQ", " ".join(wanted)) if wanted else encode("CAP", "END")
        elif what == "ACK":
            self.caps |= {name for name in names if not name.startswith("-")}
            yield encode("AUTHENTICATE", "PLAIN") if "sasl" in self.caps else encode("CAP", "END")
        elif what == "NAK":
            if self._settings.password:
                raise LinkLost("The IRC server refused the capability sasl.")
            yield encode("CAP", "END")

    def _check_sasl(self) -> None:
        mechanisms = self._offered.get("sasl")
        if mechanisms is None:
            raise LinkLost("The IRC server offers no login (SASL) now; its services may be away.")
        if mechanisms and "PLAIN" not in mechanisms.upper().split(","):
            raise CredentialsRefused(self._platform, "password")

    def _check_login(self) -> None:
        """Raise an error if the server let us in without our account: it knows no capabilities at all."""
        if self._settings.password and "sasl" not in self.caps:
            raise LinkLost("The IRC server has no login (SASL). Remove platforms.irc.password to do without.")

    def _authenticate(self) -> Iterator[bytes]:
        login, password = self._settings.login, self._settings.password or ""
        text = base64.b64encode(f"{login}\0{login}\0{password}".encode()).decode()
        parts = [text[at : at + _SASL_PART] for at in range(0, len(text), _SASL_PART)]
        if len(parts[-1]) == _SASL_PART:  # a full part says that another one follows
            parts.append("+")
        yield from (encode("AUTHENTICATE", part) for part in parts)

    def _next_nick(self) -> str:
        self._nicks += 1
        if self._nicks > MOST_NICKS:
            raise LinkLost("The IRC server says of every nick that it is in use.")
        mark = "_" if self._nicks == 1 else f"_{self._nicks}"
        self.nick = self._settings.nick[: 30 - len(mark)] + mark
        return self.nick


def _feature(token: str) -> tuple[str, str]:
    name, _, value = token.partition("=")
    return name, value
