"""Contract between `hermes-trio setup --simulate` and the package of an adapter: a trial without an account.

The package of an adapter may register a function in the entry point group `hermes_trio.trials`, under the
name of the adapter. It opens a `Trial`: the adapter, connected to a simulator of its platform, in whose chat
the user is the person. `hermes_trio.testing.trial_of` makes one of a simulator.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from .contract import Adapter

GROUP = "hermes_trio.trials"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialMessage:
    """A message of the gateway as the person sees it now, or a draft."""

    id: str
    text: str
    buttons: tuple[str, ...] = ()
    """Labels of its buttons."""
    is_draft: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """An adapter, and the direct chat of one person on its simulated platform."""

    adapter: Adapter
    person: str
    """Id of the person on the platform."""
    say: Callable[[str], object]
    """Send a message as the person."""
    press: Callable[[str], object]
    """Press the newest button with this label. Raises KeyError if there is none."""
    stop: Callable[[], object]
    """Press the stop button of the draft. Raises KeyError if none is shown."""
    shown: Callable[[], Sequence[TrialMessage]]
    """Return the messages of the gateway, oldest first, and then the draft."""
    changed: Callable[[], Awaitable[None]]
    """Wait for a change of the chat."""


OpenTrial = Callable[[], AbstractAsyncContextManager[Trial]]
