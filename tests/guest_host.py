"""Hosts of the whole suite: `pytest --host asyncio` runs each test of Trio as a guest of asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from importlib.util import find_spec
from typing import Any

import outcome
import pytest
import trio

RunLoop = Callable[[Coroutine[Any, Any, outcome.Outcome[object]]], outcome.Outcome[object]]


def run_on_uvloop(main: Coroutine[Any, Any, outcome.Outcome[object]]) -> outcome.Outcome[object]:
    import uvloop

    result: outcome.Outcome[object] = uvloop.run(main)
    return result


HOSTS: dict[str, RunLoop] = {"asyncio": asyncio.run, "uvloop": run_on_uvloop}
AVAILABLE = [
    pytest.param(name, marks=pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed"))
    for name in HOSTS
]
"""The hosts as parameters of a test."""


def run_on(host: str) -> Callable[..., Any]:
    """Return a function that does what `trio.run` does, on this host."""
    return trio.run if host == "trio" else partial(run_as_guest, HOSTS[host])


def run_as_guest(run_loop: RunLoop, test: Callable[[], Awaitable[object]], **options: Any) -> object:
    """Do what `trio.run` does, as a guest of this loop."""

    async def host() -> outcome.Outcome[object]:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[outcome.Outcome[object]] = loop.create_future()
        trio.lowlevel.start_guest_run(
            test,
            run_sync_soon_threadsafe=loop.call_soon_threadsafe,
            run_sync_soon_not_threadsafe=loop.call_soon,
            done_callback=ended.set_result,
            host_uses_signal_set_wakeup_fd=True,
            **options,
        )
        return await ended

    return run_loop(host()).unwrap()
