"""IRC: direct chats and channels on one network.

adapter        connects to a server
irc_link       sends and receives
connection     one live connection: its tasks, and what the server says
receipts       what becomes of the lines that we send
pace           how fast we may speak
registration   capabilities, login and nick                      pure
formatting     Markdown to lines with formatting                 pure
splitting      lines that fit                                    pure
parsing        a line to an event, and who has sent it           pure
wire           lines to bytes and back                           pure
settings       the settings of one connection
setup          questions of `hermes-trio setup irc`
checks         checks of `hermes-trio doctor irc`
trial          a trial without a server
testing        an IRC server for tests
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.platform import install_command

from ..options import is_this_machine
from .settings import CHANNEL, NICK, IrcSettings

if TYPE_CHECKING:
    from .adapter import IrcAdapter

_T = TypeVar("_T")
TLS_PORT, PLAIN_PORT = 6697, 6667


def from_config(platform: PlatformConfig) -> IrcAdapter:
    """Return the adapter for `platforms.irc` of a configuration."""
    settings = settings_of(platform)
    try:
        from .adapter import IrcAdapter
    except ModuleNotFoundError as error:
        if error.name != "markdown_it":
            raise
        remedy = f"Run `{install_command('irc')}`."
        raise ConfigInvalid("platforms.irc", "it needs markdown-it-py", remedy) from error
    return IrcAdapter(settings)


def settings_of(platform: PlatformConfig) -> IrcSettings:
    """Return the settings of a configuration. Raises `ConfigInvalid` for values that cannot work."""
    options = platform.options
    host, tls = _option(options, "server", ""), _option(options, "tls", True)
    if not host or any(one.isspace() or one in "/@" for one in host):
        raise _invalid("server", "it is no name of a server", "Write it like irc.example.org.")
    port = _option(options, "port", TLS_PORT if tls else PLAIN_PORT)
    if not 0 < port < 65536:
        raise _invalid(
            "port", "it is no port", f"Leave it out for {TLS_PORT} with TLS, {PLAIN_PORT} without."
        )
    nick = _option(options, "nick", "hermes")
    if not NICK.fullmatch(nick):
        raise _invalid(
            "nick", f"{nick[:40]!r} is no nick", "Use up to 30 letters, digits and -, a letter first."
        )
    password = _password(options, "password")
    if password and not tls and not is_this_machine(host):
        remedy = "Remove tls: false, or the password."
        raise _invalid("tls", "the password of the account would be sent in clear text", remedy)
    line_seconds = float(_option(options, "line_seconds", 1.0))
    if not 0 <= line_seconds <= 10:
        raise _invalid("line_seconds", "it is not between 0 and 10", "Leave it out for 1 second.")
    listed = () if platform.allow_from == "all" else platform.allow_from
    return IrcSettings(
        host=host,
        port=port,
        tls=tls,
        tls_ca=_option(options, "tls_ca", "") or None,
        nick=nick,
        account=_option(options, "account", ""),
        password=password,
        server_password=_password(options, "server_password"),
        channels=_channels(options.get("channels")),
        require_mention=platform.require_mention,
        known=(*platform.allow_admin_from, *listed),
        codes=_option(options, "formatting", True),
        line_seconds=line_seconds,
    )


def _option(options: Mapping[str, object], key: str, default: _T) -> _T:
    """Return the value of an option, which has the type of its default."""
    value = options.get(key)
    if value is None:
        return default
    if type(value) is type(default):
        return value
    if isinstance(default, float) and type(value) is int:
        return cast(_T, float(value))
    what = {bool: "true or false", int: "a number", float: "a number", str: "a text"}[type(default)]
    raise _invalid(key, f"it is not {what}", f"Write {what}, or leave it out.")


def _password(options: Mapping[str, object], key: str) -> str | None:
    """Return a password. `setup` stores the word none for a network that has no accounts."""
    password = _option(options, key, "")
    return password if password not in ("", "none") else None


def _channels(value: object) -> tuple[str, ...]:
    """Return the channels of a list, or of a text with commas between them."""
    channels = [one.strip() for one in value.split(",")] if isinstance(value, str) else value or ()
    if isinstance(channels, list | tuple) and all(_is_channel(one) for one in channels):
        return tuple(channels)
    raise _invalid("channels", "it is no list of channels", 'Write one such as ["#ours", "#closed key"].')


def _is_channel(value: object) -> bool:
    name, _, key = value.partition(" ") if isinstance(value, str) else ("", "", "")
    return CHANNEL.fullmatch(name) is not None and not any(one.isspace() or one == "," for one in key)


def _invalid(key: str, problem: str, remedy: str) -> ConfigInvalid:
    return ConfigInvalid(f"platforms.irc.{key}", problem, remedy)
