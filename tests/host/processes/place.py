"""A place where tests run commands."""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from hermes_trio.host.processes.guard import Guard
from hermes_trio.host.processes.process_groups import ChildProcess, running
from tests.host.children.kinds import token

Command = list[str] | str


@dataclass
class Place:
    """The directory, the guard and the end of the gateway for the commands of a test."""

    directory: Path
    guard: Guard
    ending: trio.Event = field(default_factory=trio.Event)

    @property
    def spool(self) -> Path:
        return self.directory / "spools" / "one"

    def run(self, command: Command, **how: object) -> AbstractAsyncContextManager[ChildProcess]:
        options = {
            "cwd": self.directory,
            "env": dict(os.environ),
            "spool": self.spool,
            "guard": self.guard,
            "ending": self.ending,
            **how,
        }
        return running(token(), command, **options)  # type: ignore[arg-type]
