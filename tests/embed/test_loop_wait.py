"""The loop of asyncio waits for Trio too, and wakes it for each thing that can come."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import psutil
import pytest
import trio

from hermes_trio.embed.guest_run import join_guest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the loop can watch what Trio waits for on Linux"
)

Wait = Callable[[trio.Event], Awaitable[object]]


async def for_a_while(_: trio.Event) -> None:
    await trio.sleep(0.01)


async def for_a_thread(_: trio.Event) -> None:
    await trio.to_thread.run_sync(lambda: None)


async def for_a_socket(_: trio.Event) -> None:
    ours, theirs = trio.socket.socketpair()
    with ours, theirs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ours.recv, 1)
            await trio.testing.wait_all_tasks_blocked(0.001)
            await theirs.send(b"x")


async def for_the_program(woken: trio.Event) -> None:
    await woken.wait()


WAITS = [for_a_while, for_a_thread, for_a_socket, for_the_program]
LOOPS = ["asyncio.SelectorEventLoop", "uvloop.Loop"]


def counting(loop: str) -> Any:
    """Make a loop of this class that has `woken`: the calls with which threads have woken it."""
    module, _, name = loop.partition(".")
    base: Any = getattr(pytest.importorskip(module), name)

    class Loop(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.woken: list[object] = []

        def call_soon_threadsafe(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
            self.woken.append(args)
            return super().call_soon_threadsafe(*args, **kwargs)  # type: ignore[no-any-return]

    return Loop()


async def use(wait: Wait) -> None:
    """Wait in a guest run while nothing else happens."""
    woken, me = trio.Event(), psutil.Process()
    files = me.num_fds()
    async with join_guest() as guest:
        asyncio.get_running_loop().call_later(0.01, woken.set)
        await asyncio.wait_for(guest.call(partial(wait, woken)), 30)
    assert me.num_fds() == files


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_that_trio_waits_for_changes_threads(loop: str, wait: Wait) -> None:
    made = counting(loop)
    with asyncio.Runner(loop_factory=lambda: made) as runner:
        runner.run(use(wait))
        assert made.woken == []


@pytest.mark.parametrize("wait", WAITS)
def test_on_a_loop_that_cannot_watch_files_a_thread_waits(wait: Wait) -> None:
    class Blind(asyncio.SelectorEventLoop):
        def add_reader(self, *_: Any, **__: Any) -> None:  # type: ignore[override]
            raise NotImplementedError

    with asyncio.Runner(loop_factory=Blind) as runner:
        runner.run(use(wait))
