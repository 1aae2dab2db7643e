"""A command and all that comes of it live as long as a block.

    async with running(["make", "test"], ..., guard=guard, ending=ending) as process:
        code = await process.wait()

The command leads a session of its own. Leaving the block in any way ends every member of the group: TERM,
KILL to who is there after two seconds, and then a look at all processes that proves that none is alive.
While the gateway is ending nobody gets the two seconds. A command that has ended by itself is not waited
for (not *reaped*) until then: its number cannot go to a stranger while we may still have to signal it.

Who counts as a member, and who is not found, is said in `sweep`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import structlog
import trio

from ..errors import GatewayError
from ..ids import path_safe_id
from . import sweep
from .beside import beside
from .guard import Guard
from .process import ProcessId, boot_epoch
from .spool import Output, Spool
from .worker import finished, worker_thread

PATIENCE = 2.0
PROOF = 1.0
LAST_WORDS = 1.0
CAN_PEEK = hasattr(os, "waitid") and hasattr(os, "pidfd_open")

Look = Callable[[], Awaitable[sweep.Table]]

log = structlog.get_logger(__name__)


class ProcessUnstartable(GatewayError):
    """A command that could not be started; nothing of it runs."""

    def __init__(self, command: str, problem: str, remedy: str) -> None:
        super().__init__(f"{command}: {problem}. {remedy}")
        self.command, self.problem, self.remedy = command, problem, remedy


class CommandNotFound(ProcessUnstartable):
    pass


class NotExecutable(ProcessUnstartable):
    pass


class DirectoryUnusable(ProcessUnstartable):
    pass


class Process:
    """A command that runs, or has run, with everything that came of it."""

    def __init__(self, child: trio.Process, group: sweep.Group, output: Output) -> None:
        self._child, self._group = child, group
        self._ended = trio.Event()
        self.output = output
        self.exit_code: int | None = None
        """Of the command itself; minus the number of the signal that ended it; None while it runs."""
        born = float(group.born or 0)
        self.id = ProcessId(child.pid, born, boot_epoch())
        """Names this process for as long as anything may have to find it."""

    @property
    def stdin(self) -> trio.abc.SendStream | None:
        """What the command reads, if it was started to be talked to."""
        return self._child.stdin

    async def wait(self) -> int:
        """Wait until the command itself has ended and what it wrote has been read; its exit code."""
        await self._ended.wait()
        await self.output.settled()
        assert self.exit_code is not None  # noqa: S101 - noted before `_ended` is set
        return self.exit_code

    async def _attend(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.output.pump)
            self._note_end(await _ended(self._child))

    def _note_end(self, code: int | None) -> None:
        self.exit_code = code
        self._ended.set()

    async def _end(self, look: Look, ending: trio.Event) -> bool:
        """End the group and have its last words; whether it is proven that none is alive."""
        proven = False
        with trio.move_on_after(PATIENCE + PROOF + LAST_WORDS, shield=True):
            async with beside(self.output.pump):  # who is asked to end may have to say something first
                proven = await end_group(self._group, look, ending)
                await self.output.settled()
            await self.output.close()
        return proven

    def _let_go(self) -> None:
        """Reap the command, which is dead, and close what we hold of it."""
        code = self._child.poll()
        if not self._ended.is_set():
            self._note_end(code)
        for stream in (self._child.stdin, self._child.stdout):
            if isinstance(stream, trio.lowlevel.FdStream):
                stream.close()
