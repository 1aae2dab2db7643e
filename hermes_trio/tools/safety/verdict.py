"""The verdicts on a command, and the kinds of harm.

The text of a kind is stored as the name of an allowance that is given for always: do not change it. Of a kind
that is removed, the text is not used again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

RECURSIVE = "deletes recursively"
FOUND = "deletes or changes whatever is found"
RIGHTS = "gives rights to everybody, or takes files over"
PROTECTED = "changes files of the system, of a login, or secrets"
GATEWAY = "changes the gateway itself: its settings, its data, whom it lets in, or its program"
LATER = "sets up what runs later by itself"
RAW = "writes whole disks or images"
SQL = "drops or empties tables"
SERVICES = "stops services"
KILLS = "ends processes by name"
REMOTE = "runs what comes from elsewhere"
UNSEEN = "runs what only running it would tell"
CODE = "runs a program text that deletes, or that runs commands"
CONTAINERS = "stops or removes containers"
GIT = "throws away work in git"
SUDO = "becomes another user with a password or a shell"
FRESH = "runs what it has just made executable or fetched"
SCHEDULE = "changes what runs by the clock"
INPUT = "is input for a program that may run what it reads"
UNREADABLE = "cannot be read as a shell would read it"

OURSELVES = (
    "it stops, restarts or replaces the gateway that runs you. Ask the person to use /restart, or to do "
    "it outside"
)


def one_command(kind: str, text: str) -> str:
    """Return the name of an allowance for this one text."""
    return f"{kind} (one command, {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]})"


@dataclass(frozen=True, slots=True)
class Free:
    """No rule objects to the command."""


@dataclass(frozen=True, slots=True)
class NeedsYes:
    """A person has to allow the command."""

    kinds: tuple[str, ...]
    """The kinds of harm it may do; a person reads them, and an allowance is stored under them."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """The command never runs."""

    why: str


Verdict = Free | NeedsYes | Blocked
