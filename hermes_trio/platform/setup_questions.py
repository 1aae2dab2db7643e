"""Contract between `hermes-trio setup` and the package of an adapter: questions about a new platform.

The package of an adapter registers a sequence of questions in the entry point group `hermes_trio.setup`,
under the name of the adapter. `hermes-trio setup` asks them, checks the answers, repeats a question after an
invalid answer, and stores the answers in `config.yaml` and `.env`. It asks for every platform who may talk
there, so no package does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

GROUP = "hermes_trio.setup"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question about the configuration of a platform."""

    key: str
    """Key of the answer, below `platforms.<name>`."""
    ask: str
    """Text of the question, without a question mark: `Token of the bot`."""
    help: str = ""
    """Explanation of where to find the answer."""
    variable: str | None = None
    """For a secret: the variable in `.env` that stores it. Such an answer is never shown."""
    default: str = ""
    """Value for an empty answer; empty if an answer is required."""
    check: Callable[[str], str] = str.strip
    """Return the answer as it is stored. Raises ValueError with a sentence that tells the person what to
    do."""
