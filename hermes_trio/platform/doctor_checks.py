"""Contract between `hermes-trio doctor` and the package of an adapter: checks that a platform makes itself.

The package of an adapter may register a `Check` in the entry point group `hermes_trio.checks`, under the name
of the adapter. `hermes-trio doctor <name>` calls it with the configuration of the platform, and so does the
end of `hermes-trio setup <name>`. It may send requests to the platform, but changes nothing there: a gateway
may be running at the same time.
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
    """Result of one step of a check, with the remedy."""

    level: Level
    text: str
    """A sentence without the full stop at its end."""
    remedy: str = ""


Check = Callable[[PlatformConfig], Awaitable[Sequence[Finding]]]
"""Return the results in the order of the steps. Raises `ConfigInvalid` for values that the adapter
refuses."""
