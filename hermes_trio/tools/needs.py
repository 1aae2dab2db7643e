"""The grants that a command asks for: `network`, `write PATH` or `everything`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from .safety.verdict import one_command
from .sandbox.views import Grants
from .tool import ToolFailed

FORMS = "Use `network`, `write PATH` with a path that exists, or `everything` to run outside of the sandbox."
NETWORK = "uses the network"
EVERYTHING = "runs outside of the sandbox"


def needed(texts: Iterable[str], cwd: Path) -> Grants:
    """Return the grants that these texts ask for. It looks at the disk; call it in a thread. Raises
    `ToolFailed`."""
    network = everything = False
    writable: list[Path] = []
    for text in texts:
        word, _, rest = text.strip().partition(" ")
        if word == "network" and not rest:
            network = True
        elif word == "everything" and not rest:
            everything = True
        elif word == "write" and rest:
            writable.append(_existing(rest.strip(), cwd))
        else:
            raise ToolFailed(f"{text!r} is nothing that a command can need. {FORMS}")
    return Grants(network or everything, tuple(writable), everything)


def _existing(text: str, cwd: Path) -> Path:
    path = os.path.realpath(cwd / os.path.expanduser(text))
    if not os.path.exists(path):
        raise ToolFailed(
            f"There is no {text} to write to. Name the directory in which it is made, or use write_file."
        )
    return Path(path)


def kinds_of(grants: Grants, command: str) -> Mapping[str, str]:
    """Return what a person is asked to allow, in words, and the name under which a yes is stored. For a
    session or for always it is for this grant; leaving the sandbox is allowed to one command only."""
    if grants.everything:
        return {EVERYTHING: one_command(EVERYTHING, command)}
    kinds = {NETWORK: "grant: network"} if grants.network else {}
    return kinds | {write_kind(path): f"grant: write {path}" for path in grants.writable}


def shown_grants(grants: Grants) -> tuple[str, ...]:
    """Return the grants as a person is shown them, in the words of a command that asks for them."""
    if grants.everything:
        return (f"everything: it {EVERYTHING}",)
    return (*(("network",) if grants.network else ()), *(f"write {path}" for path in grants.writable))


def write_kind(path: Path) -> str:
    """Return the question for writing to a path, in words."""
    return f"writes to {path}, outside of the work directory"
