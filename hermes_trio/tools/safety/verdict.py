"""What a command may do that somebody has to allow or nobody can, and what has been found of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field

from .command_line import UNKNOWN, UNSET
from .judged_paths import Places

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
    aliases: dict[str, str] = field(default_factory=dict)
    """Links that were made on the way, and where they lead."""
    finds: str = ""
    """The command that is looked at gets what another one has found, and this stands for it there."""

    def refuse(self, why: str) -> None:
        self.refused = self.refused or why

    def ask(self, kind: str) -> None:
        self.kinds[kind] = None

    def resolved(self, target: str) -> str:
        return self.places.resolved(target, self.cwd)

    def written(self, target: str) -> None:
        """Note that the file of this path is written."""
        for path in self._names(target):
            if self.places.is_raw(path):
                self.refuse("it writes over a disk")
            elif self.places.is_protected(path):
                self.ask(PROTECTED)
                if self.places.is_gateways(path):
                    self.ask(GATEWAY)

    def filled(self, target: str) -> None:
        """Note that files with names that are not known here are put into this directory."""
        self.written(target)
        if any(self.places.holds_protected(path) for path in self._names(target)):
            self.ask(PROTECTED)

    def linked(self, source: str, target: str) -> None:
        """Note that this becomes another name of that one."""
        start = self.places.absolute(target, self.cwd).rpartition("/")[0]
        self.aliases[self.resolved(target)] = self.places.absolute(source, start)

    def _names(self, target: str) -> set[str]:
        """The names that the file of a path has: as it stands there, and as the kernel finds it."""
        path, resolved = self.places.absolute(target, self.cwd), self.resolved(target)
        names = {resolved}
        for alias, source in self.aliases.items():
            if resolved == alias or resolved.startswith(f"{alias}/"):
                path = source + resolved[len(alias) :]
                names.add(self.resolved(path))
        if path.startswith("/") and not set(path) & {UNKNOWN, UNSET}:
            names.add(self.places.real(path))
        return names

    def deleted(self, target: str) -> None:
        if self.places.is_ground(self.resolved(target)):
            self.refuse("it deletes what the system, the login or the gateway stands on")
