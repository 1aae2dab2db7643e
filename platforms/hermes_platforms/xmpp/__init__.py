"""XMPP: direct chats and rooms of one account.

adapter        connects to a server
xmpp_link      sends and receives
connection     one live connection: what is not stored, our rooms, the fate of our messages
history        the archive of the server
library        the library, on a loop of asyncio inside Trio
stanzas        what we send, and the errors that come back            pure
parsing        a stanza to an event                                   pure
archive        questions to the archive, and its answers              pure
place          where we go on reading                                 pure
settings       the settings of an account
setup          questions of `hermes-trio setup xmpp`
checks         checks of `hermes-trio doctor xmpp`
trial          a trial without an account
testing        an XMPP server for tests
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.platform import install_command

from ..options import check_people, is_this_machine, switch
from .adapter import XmppAdapter
from .settings import ADDRESS, NICK, XmppSettings

NEEDED = {"slixmpp": "slixmpp", "trio_asyncio": "trio-asyncio"}


def from_config(platform: PlatformConfig) -> XmppAdapter:
    """Return the adapter for `platforms.xmpp` of a configuration."""
    settings = settings_of(platform)
    for module, package in NEEDED.items():
        if find_spec(module) is None:
            remedy = f"Run `{install_command('xmpp')}`."
            raise ConfigInvalid("platforms.xmpp", f"it needs {package}", remedy)
    return XmppAdapter(settings)


def settings_of(platform: PlatformConfig) -> XmppSettings:
    """Return the settings of a configuration. Raises `ConfigInvalid` for values that cannot work."""
    options = platform.options
    address = _text(options, "address").lower()
    if not is_person(address) or "/" in address:
        raise _invalid("address", "it is no address of XMPP", "Write it like hermes@example.org.")
    password = _text(options, "password")
    if not password:
        raise _invalid("password", "it is missing", "Run `hermes-trio setup xmpp`.")
    host, port = _server(_text(options, "server"))
    tls = switch("xmpp", platform, "tls", default=True)
    if not tls and not is_this_machine(host):
        remedy = "Remove tls: false, or name a server of this machine."
        raise _invalid("tls", "the password and what is said would be sent in clear text", remedy)
    remedy = "Write it in small letters, like ann@example.org."
    check_people("xmpp", platform, lambda one: is_person(one) and one.islower(), "is no address", remedy)
    nick = _text(options, "nick") or "hermes"
    if not NICK.fullmatch(nick):
        raise _invalid("nick", f"{nick[:40]!r} is no name for a room", "Leave it out for hermes.")
    everybody = platform.allow_from == "all"
    return XmppSettings(
        address=address,
        password=password,
        host=host,
        port=port,
        tls=tls,
        tls_ca=_text(options, "tls_ca") or None,
        rooms=_rooms(options.get("rooms")),
        nick=nick,
        require_mention=platform.require_mention,
        allow_from="all" if everybody else frozenset((*platform.allow_from, *platform.allow_admin_from)),
    )


def is_person(text: str) -> bool:
    """Return True for the address of a person or a room, or of a person in a room."""
    address, slash, nick = text.partition("/")
    return "@" in address and ADDRESS.fullmatch(address) is not None and bool(nick) == bool(slash)


def rooms_in(text: str) -> tuple[str, ...]:
    """Return the rooms of a text with commas between them."""
    return tuple(one.strip().lower() for one in text.split(",") if one.strip() not in ("", "none"))


def _rooms(value: object) -> tuple[str, ...]:
    rooms = rooms_in(value) if isinstance(value, str) else value or ()
    if isinstance(rooms, list | tuple) and all(
        isinstance(one, str) and is_person(one) and "/" not in one for one in rooms
    ):
        return tuple(one.lower() for one in rooms)
    raise _invalid("rooms", "it is no list of rooms", "Write one such as [ours@rooms.example.org].")


def _server(text: str) -> tuple[str, int]:
    """Return the name and the port of a server; empty for that of the address."""
    host, _, port = text.partition(":")
    number = int(port) if port.isdecimal() and len(port) < 6 else 0 if port else 5222
    if any(one.isspace() or one in "/@" for one in host) or not 0 < number < 65536 or (port and not host):
        remedy = "Leave it out, or write it like xmpp.example.org, with :port if it is not 5222."
        raise _invalid("server", "it is no name of a server", remedy)
    return host, number


def _text(options: Mapping[str, object], key: str) -> str:
    value = options.get(key)
    return value.strip() if isinstance(value, str) else ""


def _invalid(key: str, problem: str, remedy: str) -> ConfigInvalid:
    return ConfigInvalid(f"platforms.xmpp.{key}", problem, remedy)
