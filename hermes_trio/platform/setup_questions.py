"""What a platform asks of a newcomer: the contract between `hermes-trio setup` and an adapter's package.

A package that brings an adapter puts, under the adapter's name, a sequence of questions into the entry
point group `hermes_trio.setup`. That is all: asking, checking, asking again, and writing the answers where
they belong is done here. Who may talk is asked of every platform, and by no package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

GROUP = "hermes_trio.setup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing to be decided for a platform."""

    key: str
    """Where the answer goes, below `platforms.<name>`."""
    ask: str
    """What is asked, without a question mark at the end: `Token of the bot`."""
    help: str = ""
    """Where a newcomer finds the answer."""
    variable: str | None = None
    """For a secret: the variable in `.env` that holds it. Such an answer is never shown."""
    default: str = ""
    """What an empty answer means; empty if there has to be one."""
    check: Callable[[str], str] = str.strip
    """Returns the answer as it is stored; raises ValueError with a sentence that says what to do."""
