"""Calls between asyncio and Trio, which take turns in one thread.

Results, errors, cancellations and context variables cross in both directions. A caller that is cancelled
cancels the other side, and waits until that has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, suppress
from typing import Any, TypeVar

import anyio
import outcome
import trio

from ..base.errors import GatewayError
from ..host.loop.outsiders import Outsider
from ..host.loop.scoped_task import is_cancelled

T = TypeVar("T")


class OtherLoop(GatewayError):
    """A gateway was called on another event loop than its own."""

    def __init__(self) -> None:
        super().__init__(
            "The gateway was opened on another event loop. Call it there, from another thread with "
            "`asyncio.run_coroutine_threadsafe`."
        )


class AsyncioCalls:
    """Calls from tasks of one loop of asyncio into a nursery of Trio."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.outsider = Outsider()
        self._nursery: trio.Nursery

    def open(self, nursery: trio.Nursery) -> None:
        """Take calls from now on, and run them in this nursery."""
        self._nursery = nursery

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
            with self.outsider.waiting():
                result = await outcome.acapture(inside)
            done.set_result(result)

        self._start(crossing)
        try:
            await wait_for(done, on_cancel=scope.cancel)
        except asyncio.CancelledError:
            _result_of(done)  # an error of the call goes before its cancellation
            raise
        return _result_of(done)  # type: ignore[return-value]  # None only if it was cancelled

    @asynccontextmanager
    async def entered(self, manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
        """Enter a context manager of Trio for a block of asyncio. One task of Trio enters and leaves it. If
        it ends before the block, the block is cancelled, and left without an error of its own."""
        opened: asyncio.Future[T] = self.loop.create_future()
        closed: asyncio.Future[outcome.Outcome[None]] = self.loop.create_future()
        scope, block_left = trio.CancelScope(), trio.Event()

        async def inside(waiting: ExitStack) -> None:
            with scope:
                waiting.enter_context(self.outsider.waiting())
                async with manager as value:
                    waiting.close()
                    opened.set_result(value)
                    try:
                        await block_left.wait()
                    finally:
                        waiting.enter_context(self.outsider.waiting())

        async def crossing() -> None:
            with ExitStack() as waiting:
                result = await outcome.acapture(inside, waiting)
            closed.set_result(result)

        self._start(crossing)
        try:
            either: list[asyncio.Future[Any]] = [opened, closed]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            scope.cancel()
            await wait_for(closed)  # noqa: ASYNC102 - it shields its awaits
            _result_of(closed)
            raise
        try:
            if opened.done():
                with _cancelled_by(closed):
                    yield opened.result()
        finally:
            block_left.set()
            await wait_for(closed)  # noqa: ASYNC102 - it shields its awaits
            _result_of(closed)

    def _start(self, crossing: Callable[[], Awaitable[None]]) -> None:
        if asyncio.get_running_loop() is not self.loop:
            raise OtherLoop
        self._nursery.start_soon(crossing)


@contextmanager
def _cancelled_by(end: asyncio.Future[Any]) -> Iterator[None]:
    """Cancel the block when this is done. A block that its task has left open at its own end, as a fixture of
    pytest-asyncio does, has nothing to cancel, and another task leaves it."""
    scope, entered_by = anyio.CancelScope(), asyncio.current_task()
    assert entered_by is not None  # noqa: S101 - we are on asyncio

    def cancel(_: object) -> None:
        if not entered_by.done():
            scope.cancel()

    end.add_done_callback(cancel)
    with ExitStack() as stack:
        stack.push(lambda *raised: None if entered_by.done() else scope.__exit__(*raised))
        scope.__enter__()
        yield


def _result_of(done: asyncio.Future[outcome.Outcome[T]]) -> T:
    """Return the result of a call that has ended. If Trio has cancelled it, as with the turn of an agent, it
    is cancelled on asyncio too."""
    result = done.result()
    if isinstance(result, outcome.Error) and is_cancelled(result.error):
        raise asyncio.CancelledError
    return result.unwrap()


async def call_asyncio(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine of asyncio as a task of this loop, and wait for its end on Trio. A cancellation cancels
    the task, and is raised when the task has ended."""
    me = trio.lowlevel.current_task()
    task = loop.create_task(coroutine)
    raise_cancel: Callable[[], Any] | None = None
    is_waiting = True

    def end(_: object) -> None:
        if is_waiting:
            trio.lowlevel.reschedule(me)

    def abort(raise_cancelled: Callable[[], Any]) -> trio.lowlevel.Abort:
        nonlocal raise_cancel, is_waiting
        raise_cancel = raise_cancelled
        if task.done():
            # `end` may never come: a task that raises SystemExit ends a loop which nobody runs again.
            is_waiting = False
            if not task.cancelled():
                task.exception()  # or asyncio complains that nobody has asked for it
            return trio.lowlevel.Abort.SUCCEEDED
        task.cancel()
        return trio.lowlevel.Abort.FAILED  # `end` comes when the task has ended

    task.add_done_callback(end)
    await trio.lowlevel.wait_task_rescheduled(abort)
    if raise_cancel is not None and (task.cancelled() or task.exception() is None):
        raise_cancel()
    if task.cancelled():
        raise RuntimeError("the task of asyncio was cancelled by somebody else")
    return task.result()


async def wait_for(future: asyncio.Future[T], on_cancel: Callable[[], object] = lambda: None) -> None:
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
