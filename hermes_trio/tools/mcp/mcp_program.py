"""The connection to a server that we start as a program: one message per line, on its stdin and stdout.

It is a child process like any other of ours: in its own process group, on the list of a guard, and killed
with its descendants at the end of the block. Before that its input is closed, which tells it to end, as the
protocol requires.
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
"""Bytes of a line without a message that count as another line."""
GOES_WITHIN = 1.0
"""Seconds in which a server may end by itself after its input is closed."""

log = Log(__name__)

Incoming = MemoryObjectSendStream[SessionMessage | Exception]
Outgoing = MemoryObjectReceiveStream[SessionMessage]


class MessageTooLong(GatewayError):
    """A message of a server is longer than `LONGEST_MESSAGE`."""


@asynccontextmanager
async def program_connection(
    started: AbstractAsyncContextManager[ChildProcess], gone: Callable[[], object]
) -> AsyncIterator[TransportStreams]:
    """Yield the messages from and to a process that runs for as long as the block. `gone` is called when its
    output ends."""
    async with started as process:
        incoming, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        # Unbounded, so that no sender waits: a cancelled call sends a message too.
        said, outgoing = anyio.create_memory_object_stream[SessionMessage](math.inf)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_receive, process, incoming, gone)
            nursery.start_soon(_send, process, outgoing)
            with heard, said:
                yield heard, said
            nursery.cancel_scope.cancel(reason="connection closed")
        await _end(process)


async def _receive(process: ChildProcess, incoming: Incoming, gone: Callable[[], object]) -> None:
    assert process.stdout is not None  # noqa: S101 - started with a pipe for its output
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
            log.debug("output of an MCP server ended")
        finally:
            gone()


class _Pace:
    """Limits how fast a server is read: `LINES_AT_ONCE` lines, then `LINES_A_SECOND`. A server that writes
    without end is slowed down by its own pipe, and slows nobody else."""

    def __init__(self) -> None:
        self._left = float(LINES_AT_ONCE)
        self._at = trio.current_time()
        self._is_logged = False

    async def spend(self, lines: float) -> None:
        """Count these lines, and wait if the server is over its limit."""
        now = trio.current_time()
        self._left = min(LINES_AT_ONCE, self._left + (now - self._at) * LINES_A_SECOND) - lines
        self._at = now
        if self._left < 0:
            if not self._is_logged:
                log.warning("MCP server writes too much; reading slowly")
            self._is_logged = True
            await trio.sleep(-self._left / LINES_A_SECOND)


async def _hand_over(line: bytes, incoming: Incoming, pace: _Pace) -> None:
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        # Some servers write log lines to their output.
        log.debug("line without a message from an MCP server")
        await pace.spend(1 + len(line) / LONG_LINE)
        return
    await pace.spend(1)
    await incoming.send(SessionMessage(message))


async def _send(process: ChildProcess, outgoing: Outgoing) -> None:
    assert process.stdin is not None  # noqa: S101 - started with a pipe for its input
    with outgoing:
        try:
            async for one in outgoing:
                data = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send_all(data.encode() + b"\n")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("input of an MCP server closed")


async def _end(process: ChildProcess) -> None:
    assert process.stdin is not None  # noqa: S101 - started with a pipe for its input
    await process.stdin.aclose()
    with trio.move_on_after(GOES_WITHIN):
        await process.wait()
