"""What a platform can look at itself: the contract between `hermes-trio doctor` and an adapter's package.

A package that brings an adapter may put, under the adapter's name, a `Check` into the entry point group
`hermes_trio.checks`. It is asked by `hermes-trio doctor <name>` and at the end of `hermes-trio setup <name>`,
with the configuration of the platform, and may ask the platform over the network. It changes nothing there:
a gateway may be running at the same time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..config.schema import PlatformConfig

GROUP = "hermes_trio.checks"

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found, and what to do about it."""

    level: Level
    text: str
    """Without a full stop at the end."""
    remedy: str = ""


Check = Callable[[PlatformConfig], Awaitable[Sequence[Finding]]]
"""Returns what it found, one step after the other. Raises `ConfigInvalid` for what the adapter refuses."""
