"""Checks of `hermes-trio doctor telegram`: the steps from a token to the first answer. Nothing is changed at
Telegram, and no message is consumed: without a new offset an update stays for the gateway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hermes_trio import PlatformConfig
from hermes_trio.platform import Finding, MessageEvent, sole_use

from . import from_config, webhook_of
from .api import BASE_URL, Api, Denied, NoAnswer, NotReached, open_api
from .parsing import KINDS, Bot, parse

WITHIN = 15.0
SETUP = "hermes-trio setup telegram"


async def check(platform: PlatformConfig) -> list[Finding]:
    """Check the steps in order, and stop at the first one without which the later ones cannot work."""
    from_config(platform)  # raises the mistakes of the configuration
    assert platform.token is not None  # noqa: S101 - without one it is refused above
    found: list[Finding] = []
    async with open_api(platform.token, platform.base_url or BASE_URL) as api:
        try:
            me = await api.call("getMe", {}, within=WITHIN)
            info = await api.call("getWebhookInfo", {}, within=WITHIN)
        except (Denied, NotReached, NoAnswer) as error:
            return [_unknown_to_telegram(error, platform)]
        name = str(me.get("username", ""))
        found.append(Finding("ok", f"Telegram knows the token: the bot is @{name}, https://t.me/{name}"))
        found += _groups(me, platform)
        found += _webhook(info, platform)
        found += await _waiting(api, Bot(int(me["id"]), name, require_mention=False), platform, info)
    return [*found, *_who_may(platform, name)]


def _unknown_to_telegram(error: Denied | NotReached | NoAnswer, platform: PlatformConfig) -> Finding:
    if isinstance(error, Denied) and error.refuses_token:
        remedy = f"@BotFather shows it after /mybots, API Token. Then run `{SETUP}`."
        return Finding("problem", "Telegram does not know this token", remedy)
    where = platform.base_url or BASE_URL
    remedy = f"See that {where} can be reached from here; HTTPS_PROXY names a proxy to go through."
    return Finding("problem", f"Telegram cannot be reached ({error})", remedy)


def _groups(me: Mapping[str, Any], platform: PlatformConfig) -> Iterator[Finding]:
    if not me.get("can_join_groups", True):
        yield Finding("ok", "the bot cannot be added to groups; /setjoingroups at @BotFather changes that")
    elif platform.require_mention:
        yield Finding("ok", "in groups the bot answers messages that mention it or reply to it")
    elif me.get("can_read_all_group_messages"):
        yield Finding("ok", "in groups the bot answers every message")
    else:
        remedy = "Send @BotFather /setprivacy, Disable; then take the bot out of the group and add it again."
        yield Finding("warning", "Telegram sends the bot only the group messages that mention it", remedy)


def _webhook(info: Mapping[str, Any], platform: PlatformConfig) -> Iterator[Finding]:
    hook, now = webhook_of(platform.options), str(info.get("url", ""))
    if hook is None and now:
        text = f"a webhook is set to {now}; the next start of a gateway removes it and polls instead"
        yield Finding("warning", text)
    elif hook is not None and now != hook.url:
        yield Finding("ok", f"the next start of a gateway sets the webhook to {hook.url}")
    elif hook is not None:
        yield Finding("ok", f"the webhook is set to {hook.url}")
        if trouble := info.get("last_error_message"):
            remedy = f"The proxy must forward POST {hook.path} to {hook.host}:{hook.port}."
            yield Finding("warning", f"the last request to the webhook failed: {trouble}", remedy)


async def _waiting(
    api: Api, bot: Bot, platform: PlatformConfig, info: Mapping[str, Any]
) -> Iterable[Finding]:
    """Check which program reads the updates, and list the people whose messages wait."""
    if info.get("url"):
        count = int(info.get("pending_update_count", 0))
        return [Finding("ok", f"{count} updates wait for the webhook")]
    with sole_use(bot.platform, platform.token or "") as alone:
        if not alone:
            return [Finding("ok", "a process on this machine receives the bot's messages")]
        try:
            updates = await api.call("getUpdates", {"timeout": 0, "allowed_updates": KINDS}, within=WITHIN)
        except Denied as no:
            if no.code != 409:
                return [Finding("warning", f"the waiting updates cannot be read ({no})")]
            remedy = f"Stop it, or revoke the token with /revoke at @BotFather and run `{SETUP}`."
            return [Finding("problem", "another program receives the bot's messages", remedy)]
        except (NotReached, NoAnswer) as error:
            return [Finding("warning", f"the waiting updates cannot be read ({error})")]
    events = [event for one in updates if isinstance(event := parse(one, bot), MessageEvent)]
    if not events:
        return [Finding("ok", "no message waits")]
    people = {event.source.user_id: event.source.user_name for event in events}
    return [_person(platform, user_id or "", name or "somebody") for user_id, name in people.items()]


def _person(platform: PlatformConfig, user_id: str, name: str) -> Finding:
    if platform.allow_from == "all" or user_id in platform.allow_from:
        return Finding("ok", f"{name} ({user_id}) has written, and is answered when the gateway runs")
    if platform.allow_from:
        everybody = ",".join([*platform.allow_from, user_id])
        remedy = f"If that is you: `{SETUP} --allow {everybody}`."
        return Finding("warning", f"{name} ({user_id}) has written and has no access", remedy)
    return Finding("ok", f"{name} ({user_id}) has written, and gets a pairing code when the gateway runs")


def _who_may(platform: PlatformConfig, name: str) -> Iterator[Finding]:
    if platform.allow_from == "all":
        yield Finding("warning", "everybody on Telegram may talk to the bot", f"Run `{SETUP} --allow IDS`.")
    elif platform.allow_from:
        yield Finding(
            "ok", f"{len(platform.allow_from)} people may talk to the bot: {', '.join(platform.allow_from)}"
        )
    else:
        text = "a person who writes to the bot gets a code; `hermes-trio pairing approve CODE` gives access"
        yield Finding("ok", text)
    yield Finding("ok", f"for the first answer, run `hermes-trio run` and write to https://t.me/{name}")
