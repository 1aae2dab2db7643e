"""A `Workplace` for tests of one tool: a home, a working directory, a person whose answer the test sets, and
a real database if the tool needs one."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from hermes_trio.base.world import World
from hermes_trio.config.known_secrets import masking_of
from hermes_trio.config.schema import GatewayConfig
from hermes_trio.host.processes.guard import Guard
from hermes_trio.host.processes.process_groups import ChildProcess, running
from hermes_trio.masking.redaction import Masking
from hermes_trio.state.db.database import Database
from hermes_trio.tools.background_process import BackgroundProcess
from hermes_trio.tools.paths import files_of
from hermes_trio.tools.sandbox.session_sandbox import SandboxKind, SessionSandbox
from hermes_trio.tools.sandbox.views import NOTHING, Grants, Room
from hermes_trio.tools.tool import Approval, Result, Tool


@dataclass
class Desk:
    """A `Workplace` without a turn around it."""

    home: Path
    cwd: Path
    session_id: str = "session-1"
    answer: str | None = None
    """The person's answer to every question."""
    store: Database | None = None
    guard: Guard | None = None
    config: GatewayConfig = field(default_factory=GatewayConfig)
    world: World = field(default_factory=World)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    sent: list[tuple[str, bytes, str]] = field(default_factory=list)
    """The files that were sent: name, content, caption."""
    takes_files: bool = True
    schedule_changes: int = 0
    kind: SandboxKind = SandboxKind.OFF
    """The sandbox of commands."""

    @property
    def sandbox(self) -> SessionSandbox:
        terminal = self.config.terminal
        room = Room(
            home=self.home,
            work=self.cwd,
            scratch=self.home / "scratch" / self.session_id,
            files=files_of(self.home, self.session_id),
            readable=tuple(map(Path, terminal.readable)),
            writable=tuple(map(Path, terminal.writable)),
        )
        return SessionSandbox(self.kind, room)

    @property
    def masking(self) -> Masking:
        return masking_of(self.home, self.config, os.environ)

    @property
    def database(self) -> Database:
        assert self.store is not None, "this test has no database"
        return self.store

    def running(
        self, command: Sequence[str] | str, *, cwd: Path | None = None, grants: Grants = NOTHING
    ) -> AbstractAsyncContextManager[ChildProcess]:
        assert self.guard is not None, "this test starts no processes"
        name = f"desk-{secrets.token_hex(8)}"
        confined = self.sandbox.confine(command, cwd or self.cwd, grants)
        return running(
            name,
            confined.command,
            cwd=confined.cwd,
            env={**os.environ, **confined.variables},
            spool=self.home / "spools" / name,
            guard=self.guard,
            ending=trio.Event(),
        )

    async def start_background(
        self,
        command: Sequence[str] | str,
        *,
        cwd: Path | None = None,
        grants: Grants = NOTHING,
        notify: bool = False,
        watch: Sequence[str] = (),
    ) -> BackgroundProcess:
        raise NotImplementedError("this test starts no processes")

    def background(self) -> list[BackgroundProcess]:
        return []

    def schedule_changed(self) -> None:
        self.schedule_changes += 1

    async def send_file(self, name: str, data: bytes, text: str = "") -> bool:
        await trio.lowlevel.checkpoint()
        self.sent.append((name, data, text))
        return self.takes_files

    def end_background(self, background: BackgroundProcess) -> None:
        raise NotImplementedError("this test starts no processes")

    async def ask(self, text: str, choices: Sequence[str] = (), *, within: float | None = None) -> str | None:
        self.asked.append((text, tuple(choices)))
        return self.answer

    async def may(self, what: Approval | str) -> str | None:
        return self.answer

    def active(self) -> None:
        pass

    async def use(self, tool: Tool, **arguments: Any) -> Result:
        """Call a tool as a model does: its arguments are JSON."""
        return await tool.run(tool.read(json.dumps(arguments)), self)


def desk_in(tmp_path: Path) -> Desk:
    """Return a desk with a home and a working directory of its own in this directory."""
    home, cwd = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    cwd.mkdir()
    return Desk(home, cwd)
