"""Checks of `hermes-trio doctor xmpp`: the steps from the address to the first answer. It logs in for a
moment as another device of the account, is not seen by anybody and says nothing, so it may run beside a
gateway."""

from __future__ import annotations

from collections.abc import Iterator
from secrets import token_hex

from hermes_trio import PlatformConfig
from hermes_trio.platform import CredentialsRefused, Finding, LinkLost

from . import from_config, settings_of
from .settings import RESOURCE, XmppSettings

SETUP = "hermes-trio setup xmpp"


async def check(platform: PlatformConfig) -> list[Finding]:
    """Check the steps in order, and stop at the first one without which the later ones cannot work."""
    from_config(platform)  # raises the mistakes of the configuration
    settings = settings_of(platform)
    try:
        return [*_way(settings), *await _server(settings), *_who_may(platform, settings)]
    except CredentialsRefused:
        text = f"the server does not accept the password of {settings.address}"
        return [Finding("problem", text, f"Try it with another XMPP program, then run `{SETUP}`.")]
    except LinkLost as error:
        where = settings.host or f"the server of {settings.address}"
        remedy = f"See that {where} can be reached from here; platforms.xmpp.server names another."
        return [Finding("problem", str(error).rstrip("."), remedy)]


async def _server(settings: XmppSettings) -> list[Finding]:
    from .history import History
    from .library import XmppStream, is_error, open_asyncio_loop
    from .stanzas import disco

    findings: list[Finding] = []
    async with open_asyncio_loop("xmpp") as loop:
        resource = f"{RESOURCE}-{token_hex(2)}"
        stream = XmppStream(settings, settings.context(), loop, "xmpp", resource=resource)
        try:
            await stream.open("", 0)
            findings.append(Finding("ok", f"the server lets {settings.address} in"))
            if await History(stream, settings.address, "xmpp").is_there():
                findings.append(Finding("ok", "the server has an archive: nothing is lost or sent twice"))
            else:
                text = "the server has no archive: an answer that may have been sent is repeated with a mark"
                findings.append(Finding("warning", text, "On Prosody, enable the module mam."))
            for room in settings.rooms:
                answer = await stream.ask(disco(room))
                if is_error(answer):
                    remedy = "See that the room exists and is open to the bot."
                    findings.append(Finding("problem", f"the room {room} cannot be looked at", remedy))
                else:
                    findings.append(Finding("ok", f"the room {room} is there"))
        finally:
            await stream.close()  # noqa: ASYNC102 - shielded, and for a second at most
    return findings


def _way(settings: XmppSettings) -> Iterator[Finding]:
    if settings.tls:
        yield Finding("ok", "the connection to the server is encrypted")
    else:
        yield Finding("warning", "the connection is not encrypted; it does not leave this machine")


def _who_may(platform: PlatformConfig, settings: XmppSettings) -> Iterator[Finding]:
    listed = () if platform.allow_from == "all" else platform.allow_from
    everybody = (*platform.allow_admin_from, *listed)
    for one in everybody:
        if "/" in one:
            text = f"{one} is whoever has this name in the room, and a name can be taken"
            yield Finding("problem", text, "List the address of the person, in a room that shows addresses.")
    if platform.allow_from == "all":
        yield Finding(
            "warning", "everybody on the network may talk to the bot", f"Run `{SETUP} --allow IDS`."
        )
    elif not everybody:
        text = "a person who writes to the bot gets a code; `hermes-trio pairing approve CODE` gives access"
        yield Finding("ok", text)
    yield Finding("ok", f"for the first answer, run `hermes-trio run` and write to {settings.address}")
