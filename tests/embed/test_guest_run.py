"""Trio as a guest of asyncio: what crosses the border between the two, in both directions."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial

import anyio
import pytest
import trio

from hermes_trio.embed.guest_run import join_guest

from .hosts import HOSTS, Host

pytestmark = pytest.mark.parametrize("host", HOSTS)

NAME: ContextVar[str] = ContextVar("NAME")


async def answer() -> int:
    await trio.lowlevel.checkpoint()
    return 42


def test_a_result_crosses_and_the_run_ends_with_its_last_user(host: Host) -> None:
    async def main() -> None:
        async with join_guest() as outer:
            async with join_guest() as inner:
                assert inner is outer
                assert await inner.call(answer) == 42
            assert await outer.call(answer) == 42
        assert not trio.lowlevel.in_trio_run()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    before = signal.getsignal(signal.SIGTERM)
    host(main)
    assert signal.getsignal(signal.SIGTERM) is before


def test_programs_that_open_and_close_at_the_same_time_share_a_run(host: Host) -> None:
    async def use(times: int) -> None:
        for _ in range(times):
            async with join_guest() as guest:
                assert await guest.call(answer) == 42

    async def main() -> None:
        await asyncio.gather(*(use(times) for times in range(1, 8)))
        assert not trio.lowlevel.in_trio_run()

    host(main)


def test_an_error_crosses_bare(host: Host) -> None:
    async def fail() -> None:
        raise KeyError("mine")

    async def main() -> None:
        async with join_guest() as guest:
            with pytest.raises(KeyError, match="mine"):
                await guest.call(fail)

    host(main)


def test_a_context_variable_crosses(host: Host) -> None:
    async def name() -> str:
        await trio.lowlevel.checkpoint()
        return NAME.get()

    async def named(value: str) -> str:
        NAME.set(value)
        async with join_guest() as guest:
            return await guest.call(name)

    async def main() -> None:
        assert list(await asyncio.gather(named("one"), named("two"))) == ["one", "two"]

    host(main)


def test_a_cancelled_call_has_ended_when_the_cancellation_is_raised(host: Host) -> None:
    told: list[str] = []

    async def hang(begun: asyncio.Event) -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(1, shield=True):
                await trio.sleep(0.05)
                told.append("tidied")

    async def main() -> None:
        async with join_guest() as guest:
            begun = asyncio.Event()
            task = asyncio.create_task(guest.call(partial(hang, begun)))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert told == ["tidied"]
            async with anyio.create_task_group() as tasks:
                begun = asyncio.Event()
                tasks.start_soon(guest.call, partial(hang, begun))
                await begun.wait()
                tasks.cancel_scope.cancel()
            assert told == ["tidied", "tidied"]
            assert await guest.call(answer) == 42

    host(main)


def test_an_error_of_a_cancelled_call_goes_before_its_cancellation(host: Host) -> None:
    async def fail_late(begun: asyncio.Event) -> None:
        begun.set()
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("mine")

    async def main() -> None:
        async with join_guest() as guest:
            begun = asyncio.Event()
            task = asyncio.create_task(guest.call(partial(fail_late, begun)))
            await begun.wait()
            task.cancel()
            with pytest.raises(KeyError, match="mine"):
                await task

    host(main)


class Block:
    """A context manager of Trio that notes where it is."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.end = trio.Event()

    @asynccontextmanager
    async def open(self, *, fails: bool = False) -> AsyncIterator[str]:
        """Open for a block; `end` ends it from inside."""
        self.told.append("open")
        try:
            async with trio.open_nursery() as nursery:

                async def wait_for_end() -> None:
                    await self.end.wait()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(wait_for_end)
                yield "value"
                nursery.cancel_scope.cancel()
        finally:
            self.told.append("closed")
        if fails:
            raise OSError("not closed well")

    @asynccontextmanager
    async def refuse(self) -> AsyncIterator[str]:
        """Do not open."""
        await trio.lowlevel.checkpoint()
        if self.told == []:
            raise OSError("refused")
        yield ""


def test_a_block_is_opened_and_closed_by_trio(host: Host) -> None:
    block = Block()

    async def main() -> None:
        async with join_guest() as guest, guest.entered(block.open()) as value:
            assert (value, block.told) == ("value", ["open"])
        assert block.told == ["open", "closed"]

    host(main)


def test_an_error_of_the_body_closes_the_block_and_is_raised_bare(host: Host) -> None:
    block = Block()

    async def main() -> None:
        with pytest.raises(KeyError, match="mine"):
            async with join_guest() as guest, guest.entered(block.open()):
                raise KeyError("mine")
        assert block.told == ["open", "closed"]

    host(main)


@pytest.mark.parametrize("fails", [False, True])
def test_a_block_that_ends_by_itself_cancels_its_body(host: Host, fails: bool) -> None:
    block = Block()
    told: list[str] = []

    async def opened() -> None:
        async with join_guest() as guest, guest.entered(block.open(fails=fails)):
            block.end.set()
            try:
                await asyncio.sleep(3600)
            finally:
                told.append("body cancelled")

    async def main() -> None:
        if fails:
            with pytest.raises(OSError, match="not closed well"):
                await opened()
        else:
            await opened()
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()
        await asyncio.sleep(0)

    host(main)
    assert (block.told, told) == (["open", "closed"], ["body cancelled"])


def test_a_block_that_does_not_open_raises_its_error(host: Host) -> None:
    async def main() -> None:
        with pytest.raises(OSError, match="refused"):
            async with join_guest() as guest, guest.entered(Block().refuse()):
                pytest.fail("it is open")

    host(main)


def test_a_block_that_is_cancelled_while_it_opens_leaves_nothing(host: Host) -> None:
    @asynccontextmanager
    async def slow(opening: asyncio.Event) -> AsyncIterator[None]:
        opening.set()
        await trio.sleep(3600)
        yield

    async def opened(opening: asyncio.Event) -> None:
        async with join_guest() as guest, guest.entered(slow(opening)):
            pytest.fail("it is open")

    async def main() -> None:
        opening = asyncio.Event()
        task = asyncio.create_task(opened(opening))
        await opening.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not trio.lowlevel.in_trio_run()

    host(main)


def test_a_cancelled_body_closes_its_block(host: Host) -> None:
    block = Block()

    async def opened(is_open: asyncio.Event) -> None:
        async with join_guest() as guest, guest.entered(block.open()):
            is_open.set()
            await asyncio.sleep(3600)

    async def main() -> None:
        is_open = asyncio.Event()
        task = asyncio.create_task(opened(is_open))
        await is_open.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert block.told == ["open", "closed"]

    host(main)


def test_each_loop_has_a_guest_of_its_own(host: Host) -> None:
    found: list[bool] = []

    async def main() -> None:
        async with join_guest() as guest:

            async def other() -> None:
                async with join_guest() as another:
                    found.append(another is not guest and await another.call(answer) == 42)

            thread = threading.Thread(target=partial(host, other))
            thread.start()
            await asyncio.to_thread(thread.join)
            assert await guest.call(answer) == 42

    host(main)
    assert found == [True]
