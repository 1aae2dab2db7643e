"""The way to a server that we start: one message a line, on its stdin and its stdout.

It is a process like any other that we start: in a group of its own, on the list of a guard, gone with all
that came of it when the block is left. It is told so first, as the protocol has it, by the end of its input.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import trio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from ...base.errors import GatewayError
from ...host.processes.process_groups import ChildProcess
from ...log import Log

LONGEST_MESSAGE = 16 << 20
CHUNK = 64 << 10
LINES_AT_ONCE = 1000
LINES_A_SECOND = 200
LONG_LINE = 64 << 10
"""Bytes of a line that is no message which count as another line."""
GOES_WITHIN = 1.0
"""Seconds in which a server may end by itself when its input has ended."""

log = Log(__name__)

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class MessageTooLong(GatewayError):
    """A server said something that has no end."""


@asynccontextmanager
async def talking(
    started: AbstractAsyncContextManager[ChildProcess], gone: Callable[[], object]
) -> AsyncIterator[TransportStreams]:
    """The messages to and from a process that is started with the block. `gone` is called when it has said
    its last word."""
    async with started as process:
        incoming, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        # Without bound, so that nobody ever waits to say something: who is cancelled says that too.
        said, outgoing = anyio.create_memory_object_stream[SessionMessage](math.inf)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_hear, process, incoming, gone)
            nursery.start_soon(_say, process, outgoing)
            with heard, said:
                yield heard, said
            nursery.cancel_scope.cancel(reason="nobody listens any more")
        await _sees_its_end(process)


async def _hear(process: ChildProcess, incoming: Incoming, gone: Callable[[], object]) -> None:
    assert process.stdout is not None  # noqa: S101 - it is started to be heard
    rest, pace = bytearray(), _Pace()
    with incoming:
        try:
            while chunk := await process.stdout.receive_some(CHUNK):
                first, *lines = chunk.split(b"\n")
                rest += first
                for line in lines:
                    await _hand_over(bytes(rest), incoming, pace)
                    rest = bytearray(line)
                if len(rest) > LONGEST_MESSAGE:
                    raise MessageTooLong(f"It wrote a message of more than {LONGEST_MESSAGE >> 20} MB.")
        except (trio.BrokenResourceError, trio.ClosedResourceError, anyio.BrokenResourceError):
            log.debug("a server is no longer heard")
        finally:
            gone()


class _Pace:
    """How fast a server is read: some lines at once, then so many in a second. One that writes without end is
    slowed down by its own pipe, and slows nobody else."""

    def __init__(self) -> None:
        self._left = float(LINES_AT_ONCE)
        self._at = trio.current_time()
        self._is_told = False

    async def spend(self, lines: float) -> None:
        """Count this many lines, and wait if they were too many."""
        now = trio.current_time()
        self._left = min(LINES_AT_ONCE, self._left + (now - self._at) * LINES_A_SECOND) - lines
        self._at = now
        if self._left < 0:
            if not self._is_told:
                log.warning("server of tools writes too much; it is read slowly")
            self._is_told = True
            await trio.sleep(-self._left / LINES_A_SECOND)


async def _hand_over(line: bytes, incoming: Incoming, pace: _Pace) -> None:
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        # Some write to their output what belongs into a log.
        log.debug("a server wrote what is no message")
        await pace.spend(1 + len(line) / LONG_LINE)
        return
    await pace.spend(1)
    await incoming.send(SessionMessage(message))


async def _say(process: ChildProcess, outgoing: Outgoing) -> None:
    assert process.stdin is not None  # noqa: S101 - it is started to be talked to
    with outgoing:
        try:
            async for one in outgoing:
                data = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send_all(data.encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("a server reads no longer")


async def _sees_its_end(process: ChildProcess) -> None:
    assert process.stdin is not None  # noqa: S101 - it is started to be talked to
    await process.stdin.aclose()
    with trio.move_on_after(GOES_WITHIN):
        await process.wait()
