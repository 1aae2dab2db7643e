"""Finding the adapters of the platforms that the configuration names.

Adapters come from installed packages: the entry point group `hermes_trio.platforms` holds, under the name of
a platform, a function that makes its adapter from the platform's configuration. This module may touch the
configuration and entry points, and starts nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points

from ...base.errors import ConfigFinding, ConfigInvalid
from ...config.config_values import collect_findings
from ...config.schema import GatewayConfig, PlatformConfig
from ...platform.contract import Adapter

GROUP = "hermes_trio.platforms"

MakeAdapter = Callable[[PlatformConfig], Adapter]


def find_adapters(config: GatewayConfig) -> Sequence[Adapter]:
    """Return the adapters of all enabled platforms. Raises one `ConfigInvalid` with the findings about all of
    them."""
    findings: list[ConfigFinding] = []
    adapters: list[Adapter] = []
    for name, platform in config.platforms.items():
        if platform.enabled:
            with collect_findings(findings):
                adapters.append(make_adapter(name, platform))
    if findings:
        raise ConfigInvalid.of(findings)
    return adapters


def refuse_unnamed(adapters: Sequence[Adapter], config: GatewayConfig) -> None:
    """Raise `ConfigInvalid` for an adapter whose platform the configuration does not name: nobody has access
    there, so each of its messages would be dropped. An adapter with a door of its own checks access
    itself."""
    for adapter in adapters:
        if adapter.name not in config.platforms and not adapter.traits.own_door:
            problem = "an adapter is given for it, but it is not configured, so nobody may talk there"
            key = f"platforms.{adapter.name}"
            raise ConfigInvalid(key, problem, f"Add {key} with its allow_from, or leave the adapter out.")


def make_adapter(name: str, platform: PlatformConfig) -> Adapter:
    """Return the adapter of a platform. Raises `ConfigInvalid` if it is not installed, if a package that it
    needs is not installed, or if it refuses its own configuration keys."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        near = get_close_matches(name, found, 1)
        remedy = f"Did you mean {near[0]}?" if near else "Install its package, or remove it."
        raise ConfigInvalid(f"platforms.{name}", "no such platform is installed", remedy)
    try:
        make: MakeAdapter = found[name].load()
    except ImportError as error:
        problem = f"its package cannot be loaded ({error})"
        remedy = f"Install what it needs: `{sys.executable} -m pip install` and the name of that package."
        raise ConfigInvalid(f"platforms.{name}", problem, remedy) from error
    return make(platform)
