"""The verdicts on a command, the kinds of harm, and the assessment from which a verdict is made.

The text of a kind is stored as the name of an allowance that is given for always: do not change it."""

from __future__ import annotations

import hashlib
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


@dataclass(slots=True)
class Assessment:
    """The kinds of harm found so far in a command line, and the state that its commands have reached."""

    places: Places
    cwd: str | None
    """The directory of the next command; None if only running the line would tell."""
    refused: str | None = None
    kinds: dict[str, None] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    """Files that earlier commands of the line made executable, or fetched."""
    aliases: dict[str, str] = field(default_factory=dict)
    """Links that earlier commands of the line made, and their targets."""
    placeholder: str = ""
    """The text that stands for an item found by `find` or `xargs` in the current command; empty if there is
    none."""

    def refuse(self, why: str) -> None:
        """Forbid the command line. The first reason is kept."""
        self.refused = self.refused or why

    def ask(self, kind: str) -> None:
        """Note that a person has to allow this kind of harm."""
        self.kinds[kind] = None

    def resolve(self, target: str) -> str:
        return self.places.resolve(target, self.cwd)

    def note_write(self, target: str) -> None:
        """Note that the file at this path is written."""
        for path in self._names(target):
            if self.places.is_raw(path):
                self.refuse("it overwrites a disk")
            elif self.places.is_protected(path):
                self.ask(PROTECTED)
                if self.places.is_gateways(path):
                    self.ask(GATEWAY)

    def note_files_into(self, target: str) -> None:
        """Note that files with unknown names are put into this directory."""
        self.note_write(target)
        if any(self.places.holds_protected(path) for path in self._names(target)):
            self.ask(PROTECTED)

    def note_link(self, source: str, target: str) -> None:
        """Note that `target` becomes another name of `source`."""
        start = self.places.absolute(target, self.cwd).rpartition("/")[0]
        self.aliases[self.resolve(target)] = self.places.absolute(source, start)

    def _names(self, target: str) -> set[str]:
        """Return the names of the file at a path: as written, through links of this line, and as the kernel
        finds it."""
        path, resolved = self.places.absolute(target, self.cwd), self.resolve(target)
        names = {resolved}
        for alias, source in self.aliases.items():
            if resolved == alias or resolved.startswith(f"{alias}/"):
                path = source + resolved[len(alias) :]
                names.add(self.resolve(path))
        if path.startswith("/") and not set(path) & {UNKNOWN, UNSET}:
            names.add(self.places.real(path))
        return names

    def note_delete(self, target: str) -> None:
        """Note that everything below this path is deleted."""
        if self.places.is_essential(self.resolve(target)):
            self.refuse("it deletes files that the system, the login or the gateway depends on")
