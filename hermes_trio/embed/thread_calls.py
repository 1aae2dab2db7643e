"""Calls from other threads into Trio: a thread waits for the end of its call.

A call runs in the context of its caller. When the block of the calls is left, each call is cancelled, and
later ones are refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import copy_context
from typing import Any, TypeVar

import outcome
import trio

from ..host.loop.outsiders import Outsider

T = TypeVar("T")


class ThreadCalls:
    """Calls from other threads into a nursery of Trio."""

    def __init__(self, nursery: trio.Nursery, over: Callable[[], Exception]) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._nursery: trio.Nursery | None = nursery
        self._over = over
        self.outsider = Outsider()

    @property
    def are_over(self) -> bool:
        """True when no call is taken any more."""
        return self._nursery is None

    def close(self) -> None:
        """Take no more calls, and cancel those that run."""
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel(reason="the calls are over")
        self._nursery = None

    def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call an async function of Trio, and wait for its end. An interrupt of this thread, such as Ctrl-C,
        cancels the call."""
        done: Future[outcome.Outcome[T]] = Future()
        scope = trio.CancelScope()

        async def inside() -> T:
            with scope:
                return await function()
            raise self._over()

        self._start(inside, done)
        return self._end_of(done, scope).unwrap()

    @contextmanager
    def entered(self, manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
        """Enter a context manager of Trio for a block of this thread."""
        opened: Future[T] = Future()
        closed: Future[outcome.Outcome[None]] = Future()
        scope, block_left = trio.CancelScope(), trio.Event()

        async def inside() -> None:
            with scope:
                async with manager as value:
                    opened.set_result(value)
                    await block_left.wait()

        self._start(inside, closed)
        try:
            either: list[Future[Any]] = [opened, closed]
            wait(either, return_when=FIRST_COMPLETED)
        except BaseException:  # Ctrl-C in this thread, before the block was entered
            self._soon(scope.cancel)
            closed.result()
            raise
        try:
            if not opened.done():
                closed.result().unwrap()
                raise self._over()
            yield opened.result()
        finally:
            self._soon(block_left.set)
            self._end_of(closed, scope).unwrap()

    def _start(self, function: Callable[[], Awaitable[T]], done: Future[outcome.Outcome[T]]) -> None:
        async def crossing() -> None:
            with self.outsider.waiting():
                result = await outcome.acapture(function)
            if isinstance(result, outcome.Error) and isinstance(result.error, trio.Cancelled):
                result = outcome.Error(self._over())
            done.set_result(result)

        def start() -> None:
            if self._nursery is None:
                done.set_result(outcome.Error(self._over()))
            else:
                self._nursery.start_soon(crossing)

        try:
            self._token.run_sync_soon(copy_context().run, start)
        except trio.RunFinishedError:
            done.set_result(outcome.Error(self._over()))

    def _end_of(self, done: Future[T], scope: trio.CancelScope) -> T:
        try:
            return done.result()
        except BaseException:  # Ctrl-C in this thread; the result of the call is in the outcome
            self._soon(scope.cancel)
            done.result()
            raise

    def _soon(self, function: Callable[[], Any]) -> None:
        with suppress(trio.RunFinishedError):  # the call has ended with its run
            self._token.run_sync_soon(function)


@asynccontextmanager
async def open_thread_calls(over: Callable[[], Exception]) -> AsyncIterator[ThreadCalls]:
    """Take calls from other threads during the block. A call that comes later, or that the end of the block
    cancels, raises the error that `over` makes."""
    async with trio.open_nursery() as nursery:
        calls = ThreadCalls(nursery, over)
        try:
            yield calls
        finally:
            calls.close()
