"""A second process that takes the place of a gateway in its home, and how the two talk.

They talk over a socket pair, which has no name in the file system; one end is inherited by the successor.

| | the gateway | its successor |
|---|---|---|
| 1 | starts it, and works on | loads code and configuration, and touches nothing in the home |
| 2 | | says that it is ready, or what its problem is |
| 3 | has ended its work: sends the open files of the lock and of the listening sockets | |
| 4 | keeps its copies of them | opens the store and its doors, then says that it serves |
| 5 | tells the service manager, and exits | sees the end of the pair, and notifies the manager from then on |

An end of the pair that closes is a message too. A successor that is left before step 3 exits. A gateway whose
successor is lost, or needs more than `READY_WITHIN` seconds for its start or `SERVES_WITHIN` for the rest,
kills it and goes on with its own copies.

The block of `started_successor` kills the process if it raises, and leaves it alone otherwise. This module
knows files, sockets and processes; which ones they are is the caller's.
"""

from __future__ import annotations

import os
import socket
from array import array
from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import trio

from ...base.errors import GatewayError
from ...log import Log

VARIABLE = "HERMES_PREDECESSOR_FD"
"""The descriptor of the successor's end of the pair."""
FOR_PROCESS = ("SYSTEMD_EXEC_PID", "WATCHDOG_PID")
"""Variables that name the process for which other variables are. If that is this process, the successor takes
its place there too."""
READY_WITHIN = 10.0
"""Seconds for the start of the successor."""
SERVES_WITHIN = 30.0
"""Seconds for the opening of its store and doors."""
KILLED_WITHIN = 5.0
ENDED = "it has ended; the output of the gateway may say why"
LONGEST = 65_536
MOST_FILES = 64

M = TypeVar("M", bound=msgspec.Struct)

log = Log(__name__)


class Ready(msgspec.Struct, frozen=True):
    """The successor is ready, unless it names a problem."""

    version: str = ""
    schema_steps: tuple[str, ...] = ()
    """The steps of the schema that it knows."""
    problem: str | None = None


class Handed(msgspec.Struct, frozen=True):
    """The files that come with this message are the successor's: first those of the lock."""

    lock_files: int


class Serves(msgspec.Struct, frozen=True):
    """The successor serves. The `pid` is for the log."""

    pid: int


class SuccessorFailed(GatewayError):
    """The successor did not take over, and the gateway goes on."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"The successor did not take over: {problem}. The running gateway goes on.")


@dataclass(frozen=True, slots=True)
class Successor:
    """The process that is to take over, as its predecessor sees it."""

    pid: int
    _socket: socket.socket
    """The end of the pair, which never blocks."""
    _link: trio.socket.SocketType
    """The same for waiting."""

    async def ready(self, within: float = READY_WITHIN) -> Ready:
        """Wait until it is ready. Raises `SuccessorFailed`."""
        said = await self._said(Ready, within)
        if said.problem is not None:
            raise SuccessorFailed(said.problem.rstrip("."))
        return said

    def check(self) -> None:
        """Raise `SuccessorFailed` if it has ended since it was ready."""
        with suppress(BlockingIOError):
            if not self._socket.recv(1, socket.MSG_PEEK):
                raise SuccessorFailed(ENDED)

    async def take_over(
        self, lock_files: Sequence[int], listening: Sequence[int], within: float = SERVES_WITHIN
    ) -> None:
        """Send it the open files, and wait until it serves. Raises `SuccessorFailed`."""
        files = array("i", [*lock_files, *listening])
        try:
            await self._link.sendmsg(
                [msgspec.json.encode(Handed(len(lock_files))) + b"\n"],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)],
            )
        except OSError as error:
            raise SuccessorFailed(ENDED) from error
        await self._said(Serves, within)

    async def _said(self, kind: type[M], within: float) -> M:
        """Wait for its next message."""
        line = b""
        try:
            with trio.fail_after(within):
                while not line.endswith(b"\n") and len(line) < LONGEST:
                    received = await self._link.recv(LONGEST)
                    if not received:
                        raise SuccessorFailed(ENDED)
                    line += received
            return msgspec.json.decode(line, type=kind)
        except trio.TooSlowError:
            raise SuccessorFailed(f"it was not ready after {within:g} seconds") from None
        except OSError as error:
            raise SuccessorFailed(ENDED) from error
        except msgspec.MsgspecError as error:
            raise SuccessorFailed(f"it is not understood ({error})") from error


@asynccontextmanager
async def started_successor(command: Sequence[str], environ: Mapping[str, str]) -> AsyncIterator[Successor]:
    """Start the successor. It is killed if the block raises. At the end of the block it is told that this
    process has left."""
    ours, theirs = socket.socketpair()
    with trio.socket.from_stdlib_socket(ours) as link:
        with theirs:
            mine = {name for name in FOR_PROCESS if environ.get(name) == str(os.getpid())}
            inherited = {name: value for name, value in environ.items() if name not in mine}
            process = await trio.lowlevel.open_process(
                [*command],
                env={**inherited, VARIABLE: str(theirs.fileno())},
                pass_fds=(theirs.fileno(),),
            )
        try:
            yield Successor(process.pid, ours, link)
        except BaseException:  # also a cancellation: nobody else ends the process
            process.kill()
            with trio.move_on_after(KILLED_WITHIN, shield=True):
                await process.wait()
            raise


class Predecessor:
    """The gateway whose place this process is to take."""

    def __init__(self, link: socket.socket) -> None:
        self._link = link

    def tell(self, message: Ready | Serves) -> None:
        """Send a message. Nobody may listen any more: `receive` and `gone` notice that."""
        try:
            self._link.sendall(msgspec.json.encode(message) + b"\n")
        except OSError as error:
            log.warning("predecessor not told", error=str(error))

    def receive(self) -> tuple[list[int], list[int]] | None:
        """Wait until the predecessor hands over. Return the open files of its lock, and its listening
        sockets; None if it goes on, or has ended."""
        try:
            line, files, _, _ = socket.recv_fds(self._link, LONGEST, MOST_FILES)
        except OSError:  # it was killed
            return None
        if not line:
            return None
        for one in files:
            os.set_inheritable(one, False)
        number = msgspec.json.decode(line, type=Handed).lock_files
        return files[:number], files[number:]

    async def gone(self) -> None:
        """Wait until the predecessor has left."""
        with trio.socket.from_stdlib_socket(self._link.dup()) as link:
            try:
                while await link.recv(LONGEST):
                    pass
            except OSError:  # it was killed
                return


@contextmanager
def predecessor_of(environ: MutableMapping[str, str]) -> Iterator[Predecessor | None]:
    """Yield the process that has started this one as its successor, if one has. Its variable is removed,
    because a child process would take it for its own."""
    number = environ.pop(VARIABLE, "")
    try:
        link = socket.socket(fileno=int(number)) if number.isdecimal() else None
    except OSError as error:
        log.warning("predecessor not found", error=str(error))
        link = None
    if link is None:
        yield None
        return
    with link:
        link.set_inheritable(False)
        yield Predecessor(link)
