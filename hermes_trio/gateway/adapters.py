"""Finding the adapters of the platforms that the configuration names.

An adapter belongs to whoever installs it: the entry point group `hermes_trio.platforms` holds, under the
name of the platform, a function from the platform's configuration to its adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib.metadata import entry_points

from ..config import GatewayConfig, PlatformConfig
from ..errors import ConfigInvalid
from ..platform import Adapter

GROUP = "hermes_trio.platforms"

MakeAdapter = Callable[[PlatformConfig], Adapter]


def find_adapters(config: GatewayConfig) -> Sequence[Adapter]:
    """The adapters of all platforms that are enabled. `ConfigInvalid` for one that nobody has
    installed, or whose own keys its adapter refuses."""
    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    adapters = []
    for name, platform in config.platforms.items():
        if not platform.enabled:
            continue
        if name not in found:
            near = get_close_matches(name, found, 1)
            remedy = f"Did you mean {near[0]}?" if near else "Install its package, or remove it."
            raise ConfigInvalid(f"platforms.{name}", "no such platform is installed", remedy)
        make: MakeAdapter = found[name].load()
        adapters.append(make(platform))
    return adapters
