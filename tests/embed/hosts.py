"""The loops on which a program may run, each as a function that runs an async function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import anyio
import pytest
import trio

T = TypeVar("T")
Host = Callable[[Callable[[], Awaitable[Any]]], Any]


def on_asyncio(main: Callable[[], Awaitable[T]], *, debug: bool = False) -> T:
    async def waiting() -> T:
        return await main()

    return asyncio.run(waiting(), debug=debug)


def on_uvloop(main: Callable[[], Awaitable[T]]) -> T:
    import uvloop

    async def waiting() -> T:
        return await main()

    result: T = uvloop.run(waiting())
    return result


HOSTS = [
    pytest.param(on_asyncio, id="asyncio"),
    pytest.param(partial(on_asyncio, debug=True), id="asyncio in debug mode"),
    pytest.param(partial(anyio.run, backend="asyncio"), id="anyio"),
    pytest.param(
        on_uvloop,
        id="uvloop",
        marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed"),
    ),
]
EVERY_HOST = [pytest.param(trio.run, id="trio"), *HOSTS]
