"""Checks of `hermes-trio doctor matrix`: the steps from a token to the first answer. Nothing is changed, no
invitation is accepted, and no message counts as read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hermes_trio import PlatformConfig
from hermes_trio.platform import Finding

from ..http_calls import NoAnswer, NotReached
from . import from_config
from .calls import CLIENT, UNKNOWN_TOKEN, Denied, open_calls

WITHIN = 15.0
SETUP = "hermes-trio setup matrix"


async def check(platform: PlatformConfig) -> list[Finding]:
    """Check the steps in order, and stop at the first one without which the later ones cannot work."""
    from_config(platform)  # raises the mistakes of the configuration
    assert platform.token is not None and platform.base_url is not None  # noqa: S101, PT018 - checked above
    async with open_calls(platform.token, platform.base_url, "matrix") as calls:
        try:
            me = await calls.ask("GET", f"{CLIENT}/account/whoami", within=WITHIN)
            rooms = await calls.ask("GET", f"{CLIENT}/joined_rooms", within=WITHIN)
            sync = await calls.ask("GET", f"{CLIENT}/sync", params={"timeout": "0"}, within=WITHIN)
        except (Denied, NotReached, NoAnswer) as error:
            return [_unknown(error, platform)]
    user_id = str(me.get("user_id"))
    return [
        Finding("ok", f"the home server knows the token: the account is {user_id}"),
        *_rooms(rooms, sync, platform),
        *_who_may(platform, user_id),
    ]


def _unknown(error: Denied | NotReached | NoAnswer, platform: PlatformConfig) -> Finding:
    if isinstance(error, Denied) and error.code in UNKNOWN_TOKEN:
        return Finding("problem", "the home server does not know this token", f"Run `{SETUP}`.")
    remedy = f"See that {platform.base_url} can be reached from here, and is the home server of the account."
    return Finding("problem", f"the home server cannot be reached ({error})", remedy)


def _rooms(rooms: Any, sync: Any, platform: PlatformConfig) -> Iterator[Finding]:
    joined = rooms.get("joined_rooms") if isinstance(rooms, dict) else None
    count = len(joined) if isinstance(joined, list) else 0
    yield Finding("ok", f"the account is in {count} rooms")
    found = sync.get("rooms") if isinstance(sync, dict) else None
    found = found if isinstance(found, dict) else {}
    encrypted = sum(_is_encrypted(room) for room in (found.get("join") or {}).values())
    if encrypted:
        remedy = "Make rooms without encryption for the bot: it cannot be switched off again."
        yield Finding("warning", f"{encrypted} rooms are encrypted, and cannot be read", remedy)
    waiting = len(found.get("invite") or {})
    if waiting:
        allowed = "people who may talk" if platform.allow_from != "all" else "anybody"
        yield Finding(
            "ok", f"invitations that wait: {waiting}; those of {allowed} are accepted by the gateway"
        )


def _is_encrypted(room: Any) -> bool:
    events = [
        *((room.get("state") or {}).get("events") or []),
        *((room.get("timeline") or {}).get("events") or []),
    ]
    return any(isinstance(one, dict) and one.get("type") == "m.room.encryption" for one in events)


def _who_may(platform: PlatformConfig, user_id: str) -> Iterator[Finding]:
    if platform.allow_from == "all":
        yield Finding("warning", "everybody on Matrix may talk to the bot", f"Run `{SETUP} --allow IDS`.")
    elif platform.allow_from:
        count = len(platform.allow_from)
        yield Finding("ok", f"{count} people may talk to the bot: {', '.join(platform.allow_from)}")
    else:
        remedy = f"Run `{SETUP} --allow @you:example.org`."
        yield Finding("warning", "nobody may invite the bot: the list of people is empty", remedy)
    yield Finding("ok", f"for the first answer, run `hermes-trio run` and start a chat with {user_id}")
