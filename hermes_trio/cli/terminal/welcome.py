"""The first screen: which model answers, how to connect one, where the page is, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ... import __version__
from .conversation import Part

CONNECT = (
    "Connect a model: `hermes-trio setup` asks for one. A key in the environment is used (OPENAI_API_KEY, "
    "ANTHROPIC_API_KEY, OPENROUTER_API_KEY), and so is a model server on this machine, such as Ollama."
)
TRY = "Try: count to 10 · run · ask · danger"
"""Messages to which the demo has something to show."""
KEYS = "/help lists commands, Tab completes, Alt-Enter begins a line, Ctrl-C stops an answer, Ctrl-D leaves."


def welcome(gateway: Mapping[str, Any], address: str, is_own: bool, notices: Sequence[str]) -> Iterator[Part]:
    """Yield the first screen for a gateway that is in this state."""
    model = gateway.get("model") or {}
    where = "" if is_own else ", at the running gateway"
    lines = [f"hermes-trio {__version__}{where}. {model.get('about', '')}".rstrip()]
    if model.get("name") == "demo":
        lines += [CONNECT, TRY]
    lines += [f"Page: {address} (/page prints a link that logs a browser in)", KEYS, *notices]
    if gateway.get("warning") and gateway["warning"] not in " ".join(notices):
        lines.append(f"Warning: {gateway['warning']}")
    yield Part("note", "\n".join(lines))
