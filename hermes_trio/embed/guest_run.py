"""Trio as a guest of asyncio: both take turns in one thread, on the loop of the program.

There is at most one guest run on a loop. Everything that needs it joins it, and the last one to leave ends
it. Trio waits for input and output in a thread of its own cache; no other thread is started.

Results, errors, cancellations and context variables cross in both directions. A cancellation in asyncio
cancels the Trio side, and is raised when that has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeVar

import anyio
import outcome
import trio
from trio.lowlevel import RunVar, in_trio_run

T = TypeVar("T")


class Guest:
    """A guest run of Trio on the loop of asyncio that runs now."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.users = 0
        """Number of blocks that have joined it. Without any it ends."""
        self.up: asyncio.Future[None] = self.loop.create_future()
        self.ended: asyncio.Future[outcome.Outcome[None]] = self.loop.create_future()
        self._unused = trio.Event()
        self._nursery: trio.Nursery
        trio.lowlevel.start_guest_run(
            self._main,
            run_sync_soon_threadsafe=self.loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=self.loop.call_soon,
            done_callback=self.ended.set_result,
            host_uses_signal_set_wakeup_fd=True,
        )
        _OF_RUN.set(self)

    async def _main(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self.up.set_result(None)
            await self._unused.wait()

    @property
    def is_leaving(self) -> bool:
        return self._unused.is_set()

    async def leave(self) -> None:
        """Leave the run; the last one waits until it has ended."""
        self.users -= 1
        if self.users == 0:
            self._unused.set()
            await _wait_for(self.ended)
            self.ended.result().unwrap()

    async def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call an async function of Trio from a task of asyncio. A cancellation cancels the call, and is
        raised when the call has ended."""
        done: asyncio.Future[outcome.Outcome[T | None]] = self.loop.create_future()
        scope = trio.CancelScope()

        async def inside() -> T | None:
            with scope:
                return await function()
            return None

        async def crossing() -> None:
            done.set_result(await outcome.acapture(inside))

        self._nursery.start_soon(crossing)
        try:
            await _wait_for(done, on_cancel=scope.cancel)
        except asyncio.CancelledError:
            done.result().unwrap()  # an error of the call goes before its cancellation
            raise
        return done.result().unwrap()  # type: ignore[return-value]  # None only if it was cancelled

    @asynccontextmanager
    async def entered(self, manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
        """Enter a context manager of Trio for a block of asyncio. One task of Trio enters and leaves it. If
        it ends before the block, the block is cancelled, and left without an error of its own."""
        opened: asyncio.Future[T] = self.loop.create_future()
        closed: asyncio.Future[outcome.Outcome[None]] = self.loop.create_future()
        scope, block_left = trio.CancelScope(), trio.Event()

        async def inside() -> None:
            with scope:
                async with manager as value:
                    opened.set_result(value)
                    await block_left.wait()

        async def crossing() -> None:
            closed.set_result(await outcome.acapture(inside))

        self._nursery.start_soon(crossing)
        try:
            either: list[asyncio.Future[Any]] = [opened, closed]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            scope.cancel()
            await _wait_for(closed)  # noqa: ASYNC102 - it shields its awaits
            closed.result().unwrap()
            raise
        try:
            if opened.done():
                with anyio.CancelScope() as block:  # noqa: ASYNC100 - the body is in it
                    closed.add_done_callback(lambda _: block.cancel())
                    yield opened.result()
        finally:
            block_left.set()
            await _wait_for(closed)  # noqa: ASYNC102 - it shields its awaits
            closed.result().unwrap()


_OF_RUN: RunVar[Guest | None] = RunVar("hermes_trio guest", None)
"""The guest of the run of Trio in this thread."""


@asynccontextmanager
async def join_guest() -> AsyncIterator[Guest]:
    """Join the guest run on the loop of this task during the block; start it if there is none."""
    guest = _running()
    while guest is not None and guest.is_leaving:
        await asyncio.wait([guest.ended])
        guest = _running()
    guest = guest or Guest()
    guest.users += 1
    try:
        await asyncio.wait([guest.up])
        yield guest
    finally:
        await guest.leave()  # noqa: ASYNC102 - it shields its awaits


def _running() -> Guest | None:
    return _OF_RUN.get() if in_trio_run() else None


async def _wait_for(future: asyncio.Future[T], on_cancel: Callable[[], object] = lambda: None) -> None:
    """Wait until a future is done. A cancellation calls `on_cancel`, and is raised after that."""
    try:
        await asyncio.wait([future])
    except asyncio.CancelledError:
        on_cancel()
        # Without a deadline of its own: what is waited for is cancelled, and has one. On anyio the shield
        # keeps a cancelled scope from cancelling this task again in each pass of the loop.
        with anyio.CancelScope(shield=True):
            while not future.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
        raise
