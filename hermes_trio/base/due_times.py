"""When a job is due. Pure functions of its rule and of a time.

| Written | Meaning |
|---|---|
| `in 20m`, `in 2 hours` | once, after this time |
| `2026-11-21 09:00`, `09:00` | once, at this time in the zone; a time of day is its next one |
| `every 30m`, `every 2 hours` | again and again, counted from the order |
| `daily 09:00` | each day |
| `0 9 * * 1-5` | a line of cron in the zone: minute, hour, day of the month, month, weekday |

A line of cron follows the clock on the wall, as cron does. A time that a change of the clock leaves out comes
directly after the change, and a time that comes twice is due once; lines that are due each hour or oftener
follow the time that passes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from .errors import GatewayError

SHORTEST = 60.0
"""The shortest time between two messages of a job, in seconds."""
LONGEST = 10 * 366 * 86400.0

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_UNIT = r"(s|m|h|d|w)(?:ec(?:ond)?s?|in(?:ute)?s?|(?:ou)?rs?|ays?|eeks?)?"
_IN = re.compile(rf"in (\d{{1,9}}) ?{_UNIT}")
_EVERY = re.compile(rf"every (?:(\d{{1,9}}) ?)?{_UNIT}")
_DAILY = re.compile(r"(?:daily|every day)(?: at)? (\d{1,2}):(\d{2})")
_CLOCK = re.compile(r"(?:at )?(\d{1,2}):(\d{2})")
_REMEDY = (
    "Write `in 20m`, `09:00`, `2026-11-21 09:00`, `every 2h`, `daily 09:00`, or a line of cron such as "
    "`0 9 * * 1-5`."
)


class BadTime(GatewayError):
    """A time that cannot be read, or that never comes."""


class Once(msgspec.Struct, frozen=True, tag="once"):
    """One moment."""

    at: float


class Every(msgspec.Struct, frozen=True, tag="every"):
    """The same time between all messages."""

    seconds: float
    start: float


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """A line of cron, in a zone."""

    line: str
    zone: str = ""
    """The IANA name of the zone; empty for that of the machine."""


Rule = Once | Every | Cron


def zone_named(name: str, default: tzinfo | None = None) -> tzinfo:
    """Return the time zone of this name; without a name `default`, or that of this machine. Raises
    `BadTime`."""
    if not name:
        return default if default is not None else _machine_zone()
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadTime(f"{name[:60]!r} is no time zone. Write one like Europe/Berlin.") from error


def _machine_zone() -> tzinfo:
    """Return the zone of this machine with its changes of the clock, if the system tells it."""
    if name := os.environ.get("TZ", "").lstrip(":"):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return UTC
    try:
        with open("/etc/localtime", "rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError):
        # Windows: the offset of a winter's day, which changes with no clock. A job may name its zone.
        return datetime.fromtimestamp(86_400).astimezone().tzinfo or UTC


def parse(text: str, now: datetime, zone: str = "") -> Rule:
    """Return the rule that a person or a model has written. `now` is in the zone of the rule. Raises
    `BadTime`."""
    text = " ".join(text.strip().removeprefix("cron ").split())
    low = text.lower()
    if found := _IN.fullmatch(low):
        return Once(now.timestamp() + _seconds(found[1], found[2]))
    if found := _DAILY.fullmatch(low):
        return _cron(f"{int(found[2])} {int(found[1])} * * *", now, zone)
    if found := _EVERY.fullmatch(low):
        seconds = _seconds(found[1] or "1", found[2])
        if seconds < SHORTEST:
            raise BadTime(f"A message comes at most each {SHORTEST:g} seconds. {_REMEDY}")
        return Every(seconds, now.timestamp())
    if found := _CLOCK.fullmatch(low):
        return Once(_next_clock(int(found[1]), int(found[2]), now))
    if len(text.split(" ")) == 5 and "-" not in text.split(" ")[0][:5]:
        return _cron(text, now, zone)
    try:
        moment = datetime.fromisoformat(low.removeprefix("at ").upper())
    except ValueError:
        raise BadTime(f"{text[:60]!r} is no time that can be read. {_REMEDY}") from None
    at = (moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)).timestamp()
    if not now.timestamp() < at < now.timestamp() + LONGEST:
        raise BadTime(f"{text[:60]} is over, or too far away. {_REMEDY}")
    return Once(at)


def next_after(rule: Rule, at: float, default: tzinfo | None = None) -> float | None:
    """Return the next due time after this time; None if there is none. `default` is the zone of rules that
    name none."""
    match rule:
        case Once(moment):
            return moment if moment > at else None
        case Every(seconds, start):
            return start + max(1, int((at - start) // seconds) + 1) * seconds
        case Cron():
            return next(_times(rule, at, default), None)


def passed(rule: Rule, since: float, until: float, most: int, default: tzinfo | None = None) -> list[float]:
    """Return the due times from `since` to `until`, in order: the latest `most` of them."""
    match rule:
        case Once(moment):
            return [moment] if since <= moment <= until else []
        case Every(seconds, start):
            last = int((until - start) // seconds)
            first = max(1, -int((start - since) // seconds), last - most + 1)
            return [start + count * seconds for count in range(first, last + 1)]
        case Cron():
            # Backwards, so that a long absence costs no more than a short one.
            back = takewhile(lambda at: at >= since, _times(rule, until + 1, default, is_backwards=True))
            return sorted(islice(back, most))


def described(rule: Rule, zone: tzinfo) -> str:
    """Return the rule as people read it."""
    match rule:
        case Once(at):
            return f"once, {shown(at, zone)}"
        case Every(seconds):
            unit = next(name for name in ("d", "h", "m", "s") if seconds % _UNITS[name] == 0)
            return f"every {int(seconds // _UNITS[unit])}{unit}"
        case Cron(line, name):
            return f"{line} ({name})" if name else line


def shown(at: float, zone: tzinfo) -> str:
    """Return a time as people of this zone read it."""
    return f"{datetime.fromtimestamp(at, zone):%Y-%m-%d %H:%M %Z}".rstrip()


def _seconds(count: str, unit: str) -> float:
    seconds = float(int(count) * _UNITS[unit])
    if not 0 < seconds < LONGEST:
        raise BadTime(f"That is no time that can be waited for. {_REMEDY}")
    return seconds


def _next_clock(hour: int, minute: int, now: datetime) -> float:
    if hour > 23 or minute > 59:
        raise BadTime(f"{hour}:{minute:02} is no time of day. {_REMEDY}")
    today = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    return (today if today > now else today + timedelta(days=1)).timestamp()


def _cron(line: str, now: datetime, zone: str) -> Cron:
    rule = Cron(line, zone)
    try:
        first = next_after(rule, now.timestamp(), now.tzinfo)
    except BadTime as error:
        raise BadTime(f"{error} {_REMEDY}") from error
    if first is None:
        raise BadTime(f"The line {line[:60]!r} never comes. {_REMEDY}")
    return rule


def _times(rule: Cron, at: float, default: tzinfo | None, *, is_backwards: bool = False) -> Iterator[float]:
    from cronsim import CronSim, CronSimError  # imported here: most gateways have no line of cron

    moment = datetime.fromtimestamp(at, zone_named(rule.zone, default))
    try:
        times = CronSim(rule.line, moment, reverse=is_backwards)
    except CronSimError as error:
        raise BadTime(f"{rule.line[:60]!r} is no line of cron: {error}.") from error
    return (one.timestamp() for one in times)
