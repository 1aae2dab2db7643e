"""Checks of configured values that several platforms share. Pure; each raises `ConfigInvalid`."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from urllib.parse import SplitResult, urlsplit

from hermes_trio import ConfigInvalid, PlatformConfig


def switch(name: str, platform: PlatformConfig, key: str, *, default: bool) -> bool:
    """Return the value of an option that is true or false."""
    value = platform.options.get(key, default)
    if not isinstance(value, bool):
        raise ConfigInvalid(f"platforms.{name}.{key}", "it is neither true nor false", "Write true or false.")
    return value


def check_people(
    name: str, platform: PlatformConfig, is_id: Callable[[str], object], problem: str, remedy: str
) -> None:
    """Refuse a value in the lists of people that is no id. `problem` follows the value."""
    listed = () if platform.allow_from == "all" else platform.allow_from
    for key, ids in (("allow_from", listed), ("allow_admin_from", platform.allow_admin_from)):
        for one in ids:
            if not is_id(one):
                raise ConfigInvalid(f"platforms.{name}.{key}", f"{one[:60]!r} {problem}", remedy)


def check_base_url(name: str, platform: PlatformConfig) -> None:
    """Refuse an address of a server that is none."""
    if platform.base_url is not None and address(platform.base_url) is None:
        raise ConfigInvalid(
            f"platforms.{name}.base_url", "it is no address of a server", "Write it like http://host:8081."
        )


def is_this_machine(host: str) -> bool:
    """Return True for a name or an address of this machine: nobody reads what is sent there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def address(url: str) -> SplitResult | None:
    """Split a web address; None for an invalid one."""
    try:
        parts = urlsplit(url)
        is_valid = parts.hostname and parts.port != 0 and re.fullmatch(r"https?://\S+", url)
    except ValueError:
        return None
    return parts if is_valid else None
