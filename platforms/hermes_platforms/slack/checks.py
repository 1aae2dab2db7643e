"""Checks of `hermes-trio doctor slack`: the steps from the tokens to the first answer. Nothing is changed at
Slack, and no connection is opened: Slack would deliver events on it."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_trio import PlatformConfig
from hermes_trio.platform import Finding

from . import app_token_of, from_config
from .api import BASE_URL, Denied, NoAnswer, NotReached, open_api
from .manifest import SCOPES, link

WITHIN = 15.0
SETUP = "hermes-trio setup slack"
APPS = "https://api.slack.com/apps"


async def check(platform: PlatformConfig) -> list[Finding]:
    """Check the steps in order, and stop at the first one without which the later ones cannot work."""
    from_config(platform)  # raises the mistakes of the configuration
    base_url = platform.base_url or BASE_URL
    async with open_api(platform.token or "", base_url) as api:
        try:
            me = await api.call("auth.test", within=WITHIN)
        except (Denied, NotReached, NoAnswer) as error:
            return [_unknown_to_slack(error, base_url)]
        scopes = api.scopes
    name = str(me.get("user", ""))
    return [
        Finding("ok", f"Slack knows the token: the bot is {name} in {me.get('team', 'the workspace')}"),
        *_scopes(scopes),
        await _socket_mode(app_token_of(platform), base_url),
        *_who_may(platform, name),
    ]


def _unknown_to_slack(error: Denied | NotReached | NoAnswer, base_url: str) -> Finding:
    if isinstance(error, Denied):
        remedy = f"At {APPS}, on the page Install App, copy the Bot User OAuth Token. Then run `{SETUP}`."
        return Finding("problem", f"Slack does not accept the token of the bot ({error})", remedy)
    remedy = f"See that {base_url} can be reached from here; HTTPS_PROXY names a proxy to go through."
    return Finding("problem", f"Slack cannot be reached ({error})", remedy)


def _scopes(scopes: frozenset[str]) -> Iterator[Finding]:
    missing = [one for one in SCOPES if one not in scopes]
    if scopes and missing:
        remedy = (
            f"At {APPS}, on the page OAuth & Permissions, add them and install the app again; or make a new "
            f"app with all of them: {link()}"
        )
        yield Finding("warning", f"the app may not do all it is asked for: {', '.join(missing)}", remedy)
    elif scopes:
        yield Finding("ok", "the app has all scopes that it uses")


async def _socket_mode(app_token: str, base_url: str) -> Finding:
    """Ask for the address of a connection, which opens none."""
    async with open_api(app_token, base_url) as api:
        try:
            await api.call("apps.connections.open", within=WITHIN)
        except Denied as no:
            remedy = (
                f"At {APPS}, switch on Socket Mode on its page, and generate an app-level token with the "
                f"scope connections:write on the page Basic Information. Then run `{SETUP}`."
            )
            return Finding("problem", f"Slack offers no connection to this app ({no})", remedy)
        except (NotReached, NoAnswer) as error:
            return Finding("problem", f"Slack cannot be reached ({error})", "Try again in a minute.")
    return Finding("ok", "Slack offers connections by Socket Mode")


def _who_may(platform: PlatformConfig, name: str) -> Iterator[Finding]:
    if platform.allow_from == "all":
        text = "everybody in the workspace may talk to the bot"
        yield Finding("warning", text, f"Run `{SETUP} --allow IDS`.")
    elif platform.allow_from:
        count = len(platform.allow_from)
        yield Finding("ok", f"{count} people may talk to the bot: {', '.join(platform.allow_from)}")
    else:
        text = "a person who writes to the bot gets a code; `hermes-trio pairing approve CODE` gives access"
        yield Finding("ok", text)
    remedy = f"for the first answer, run `hermes-trio run` and write to {name}, or invite it: /invite @{name}"
    yield Finding("ok", remedy)
