"""Checks of `hermes-trio doctor irc`: the steps from a server's name to the first answer. It connects for a
moment under another nick, joins no channel and says nothing, so it may run beside a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from secrets import token_hex

from hermes_trio import PlatformConfig
from hermes_trio.platform import CredentialsRefused, Finding, LinkLost

from . import from_config, settings_of
from .adapter import reached, registered
from .parsing import is_mask
from .registration import Welcome
from .settings import IrcSettings
from .wire import LineBuffer

SETUP = "hermes-trio setup irc"


async def check(platform: PlatformConfig) -> list[Finding]:
    """Check the steps in order, and stop at the first one without which the later ones cannot work."""
    from_config(platform)  # raises the mistakes of the configuration
    settings = settings_of(platform)
    visitor = replace(settings, account=settings.login, nick=f"{settings.nick[:20]}-{token_hex(2)}")
    try:
        async with reached(settings) as stream:
            welcome = await registered(stream, visitor, LineBuffer(), "irc")
    except CredentialsRefused as error:
        return [*_way(settings), _refusal(error, settings)]
    except LinkLost as error:
        remedy = f"See that {settings.host}, port {settings.port}, can be reached from here."
        return [*_way(settings), Finding("problem", str(error).rstrip("."), remedy)]
    server = Finding("ok", f"{settings.host} lets us in")
    return [*_way(settings), server, *_abilities(settings, welcome), *_who_may(platform, welcome)]


def _way(settings: IrcSettings) -> Iterator[Finding]:
    if settings.tls:
        yield Finding("ok", f"the connection to {settings.host} is encrypted")
    else:
        text = "everybody between here and the server can read and change what is said"
        yield Finding("warning", text, "Remove tls: false if the server has TLS, usually on port 6697.")


def _refusal(error: CredentialsRefused, settings: IrcSettings) -> Finding:
    match error.variable:
        case "nick":
            return Finding(
                "problem", f"the server does not accept nicks such as {settings.nick}", f"Run `{SETUP}`."
            )
        case "password":
            text = f"the server does not accept the password of the account {settings.login}"
            return Finding("problem", text, f"Try it with another IRC client, then run `{SETUP}`.")
    return Finding("problem", "the server wants another password to let anybody in", "Set server_password.")


def _abilities(settings: IrcSettings, welcome: Welcome) -> Iterator[Finding]:
    if welcome.account:
        yield Finding("ok", f"we are logged in as {welcome.account}")
    else:
        text = f"we are not logged in: anybody may take the nick {settings.nick} while we are away"
        yield Finding("warning", text, "Register the nick if the network has services, then set a password.")
    if welcome.labels:
        yield Finding("ok", "the server confirms each message")
    else:
        yield Finding("ok", "the server confirms no message; a PING after it shows that it was taken")
    yield Finding("warning", "what people write while there is no connection is lost: IRC keeps nothing")


def _who_may(platform: PlatformConfig, welcome: Welcome) -> Iterator[Finding]:
    names = "account-tag" in welcome.caps or "WHOX" in welcome.features
    listed = () if platform.allow_from == "all" else platform.allow_from
    everybody = (*platform.allow_admin_from, *listed)
    if accounts := [one for one in everybody if not is_mask(one)]:
        if names:
            yield Finding("ok", f"known by their accounts: {', '.join(accounts)}")
        else:
            text = f"the server does not say who is logged in, so nobody is {', '.join(accounts)}"
            yield Finding("problem", text, "List masks such as *!kim@shell.example.org.")
    for mask in filter(is_mask, everybody):
        user_and_host = mask.rpartition("!")[2]
        if user_and_host in ("*@*", "*", "") or "@" not in mask or mask.endswith("@*"):
            text = f"{mask} fits everybody who takes that nick or name, and these can be taken"
            yield Finding("problem", text, "Name the host, or list the account.")
        else:
            yield Finding("warning", f"everybody with the mask {mask} has access; an account is safer")
    if platform.allow_from == "all":
        yield Finding(
            "warning", "everybody on the network may talk to the bot", f"Run `{SETUP} --allow IDS`."
        )
    elif not everybody:
        text = "a person who writes to the bot gets a code; `hermes-trio pairing approve CODE` gives access"
        yield Finding("ok", text)
    yield Finding("ok", "for the first answer, run `hermes-trio run` and write to the bot from an IRC client")
