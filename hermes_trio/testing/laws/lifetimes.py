"""Laws of lifetimes: links and calls that end, break or are cancelled leave nothing behind."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from ...platform.contract import CredentialsRefused, Link, LinkLost, NotSent, OutcomeUnknown, PlatformError
from ..checkpoints import cancelled_at
from .receiving import receiving
from .subject import MOST_HALTS, Platform, Trait, message, until_tasks

LINUX = sys.platform == "linux"
CONNECTIONS = int(os.environ.get("CONNECTIONS", "1000"))


async def test_refused_credentials_raise_credentials_refused(platform: Platform) -> None:
    platform.stage.fails("connect", CredentialsRefused(platform.adapter.name))
    with pytest.raises(CredentialsRefused):
        async with platform.adapter.connect():
            pass
    async with platform.adapter.connect() as link:  # the refusal has no later effect
        await link.send(message())


async def test_a_link_that_is_left_during_calls_leaves_no_task_behind(platform: Platform) -> None:
    await wait_all_tasks_blocked()
    before = trio.lowlevel.current_statistics().tasks_living
    platform.stage.hangs("send")
    with trio.move_on_after(0.5):
        async with platform.adapter.connect() as link, trio.open_nursery() as nursery:
            nursery.start_soon(receiving, link, [])
            nursery.start_soon(link.send, message())
            if platform.has("typing"):
                await link.typing("42", None)
            await trio.sleep_forever()
    await until_tasks(before)


async def test_calls_on_a_link_that_was_left_raise_the_exact_error(platform: Platform) -> None:
    errors: list[type[PlatformError]] = []
    platform.stage.hangs("send", chat="1")

    async def send(link: Link, chat: str) -> None:
        try:
            await link.send(message(chat=chat))
        except PlatformError as error:
            errors.append(type(error))

    async with trio.open_nursery() as nursery, platform.adapter.connect() as link:
        nursery.start_soon(send, link, "1")  # noqa: ASYNC111
        await platform.stage.until(lambda: platform.sends == 1)
    await send(link, "2")
    assert errors == [OutcomeUnknown, NotSent]
    calls: dict[Trait, Callable[[], Awaitable[None]]] = {
        "edits": partial(link.edit, "42", "1", "Other words"),
        "deletes": partial(link.delete, "42", "1"),
        "typing": partial(link.typing, "42", None),
    }
    for trait, call in calls.items():
        if platform.has(trait):
            with pytest.raises(LinkLost):
                await call()
    with pytest.raises(LinkLost):
        await anext(link.receive())


async def test_a_connect_that_is_cancelled_at_any_checkpoint_leaves_nothing_behind(
    platform: Platform,
) -> None:
    async def connect() -> None:
        async with platform.adapter.connect():
            pass

    await wait_all_tasks_blocked()
    before = trio.lowlevel.current_statistics().tasks_living
    for halt in range(1, MOST_HALTS):
        if not await cancelled_at(halt, connect):
            break
        await connect()
    else:
        raise AssertionError(f"{MOST_HALTS} checkpoints and no end.")
    await until_tasks(before)


@pytest.mark.timeout(300)
async def test_many_connections_leave_no_task_object_or_file_behind(platform: Platform) -> None:
    async def connect() -> None:
        async with platform.adapter.connect() as link:
            await link.send(message())
            platform.stage.chat("42").messages.clear()

    def held() -> tuple[int, int]:
        for kept in ("history", "asked", "entities"):
            getattr(platform.stage, kept, []).clear()
        gc.collect()
        objects = sum(not _is_of_others(type(one)) for one in gc.get_objects())
        return objects, len(os.listdir("/proc/self/fd")) if LINUX else 0

    for _ in range(20):
        await connect()
    await wait_all_tasks_blocked(0.05)
    tasks, (objects, files) = trio.lowlevel.current_statistics().tasks_living, held()
    for _ in range(CONNECTIONS):
        await connect()
    await until_tasks(tasks)
    objects_now, files_now = held()
    assert files_now <= files + 2
    assert objects_now < objects + CONNECTIONS, "less than one object for each"


def _is_of_others(kind: type) -> bool:
    """Return True for what a simulator keeps, and for what Trio does: up to a thousand deadlines of scopes
    that are left, each in a tuple, with the reason of its cancellation."""
    is_of_trio = kind in (tuple, trio.CancelScope) or kind.__name__ == "CancelReason"
    return is_of_trio or ".testing." in str(kind.__module__)
