"""The loop of the program around a gateway, as a way to call the gateway's Trio from there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

T = TypeVar("T")


class HostLoop(Protocol):
    """The way for a task of the program to have something done on Trio."""

    async def call(self, function: Callable[[], Awaitable[T]]) -> T:
        """Call an async function of Trio."""
        ...

    def entered(self, manager: AbstractAsyncContextManager[T]) -> AbstractAsyncContextManager[T]:
        """Enter a context manager of Trio for a block of the program."""
        ...


class TrioLoop:
    """The program runs on Trio itself, so nothing crosses a border."""

    async def call(self, function: Callable[[], Awaitable[T]]) -> T:
        return await function()

    def entered(self, manager: AbstractAsyncContextManager[T]) -> AbstractAsyncContextManager[T]:
        return manager
