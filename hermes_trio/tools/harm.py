"""What a command may do that somebody has to allow or nobody can, and what has been found of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from .places import Places

RECURSIVE = "deletes recursively"
FOUND = "deletes or changes whatever is found"
RIGHTS = "gives rights to everybody, or takes files over"
PROTECTED = "changes files of the system, of a login, or secrets"
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


@dataclass(frozen=True, slots=True)
class Free:
    """Nothing is known against it."""


@dataclass(frozen=True, slots=True)
class NeedsYes:
    """Somebody has to allow it."""

    kinds: tuple[str, ...]
    """What it does, each in words that a person reads and that an allowance is kept under."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It is never run."""

    why: str


Verdict = Free | NeedsYes | Refused


@dataclass(slots=True)
class Found:
    """What has been found so far, and where we are by then."""

    places: Places
    cwd: str | None
    """Where the next command runs; None where only running it would tell."""
    refused: str | None = None
    kinds: dict[str, None] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    """Files that were made executable, or fetched, on the way."""
    finds: str = ""
    """The command that is looked at gets what another one has found, and this stands for it there."""

    def refuse(self, why: str) -> None:
        self.refused = self.refused or why

    def ask(self, kind: str) -> None:
        self.kinds[kind] = None

    def resolved(self, target: str) -> str:
        return self.places.resolved(target, self.cwd)

    def written(self, target: str) -> None:
        if self.places.is_raw(self.resolved(target)):
            self.refuse("it writes over a disk")
        elif self.places.is_protected(self.resolved(target)):
            self.ask(PROTECTED)

    def deleted(self, target: str) -> None:
        if self.places.is_ground(self.resolved(target)):
            self.refuse("it deletes what the system, the login or the gateway stands on")
