"""The loop of the program around a gateway, as a way to call the gateway's Trio from there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

from ..base.errors import GatewayError

T = TypeVar("T")


class GatewayOver(GatewayError):
    """The gateway has ended."""

    def __init__(self) -> None:
        super().__init__("The gateway has ended. `ending` says why; open the next one after the block.")


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


class OpenBlock:
    """The way to a gateway as long as its block is open. Later calls raise `GatewayOver`."""

    def __init__(self, loop: HostLoop) -> None:
        self._loop: HostLoop | None = loop

    def close(self) -> None:
        """Take no more calls."""
        self._loop = None

    async def call(self, function: Callable[[], Awaitable[T]]) -> T:
        return await self._while_open().call(function)

    def entered(self, manager: AbstractAsyncContextManager[T]) -> AbstractAsyncContextManager[T]:
        return self._while_open().entered(manager)

    def _while_open(self) -> HostLoop:
        if self._loop is None:
            raise GatewayOver
        return self._loop
