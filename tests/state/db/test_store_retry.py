"""Retrying an operation until the store accepts it."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.base.errors import StoreClosed, StoreError, StoreFull
from hermes_trio.state.db.store_retry import RETRY_AFTER, stored
from tests.logs import capture_logs


class FailingStore:
    """An operation whose first calls raise `failures`, and the later ones return the number of calls."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.called_at: list[float] = []

    async def __call__(self) -> int:
        await trio.lowlevel.checkpoint()
        self.called_at.append(trio.current_time())
        if self.failures:
            raise self.failures.pop(0)
        return len(self.called_at)


def full() -> StoreFull:
    return StoreFull(Path("gateway.db"), "cannot grow", "Free some space.")


async def test_an_operation_that_succeeds_is_called_once_and_logs_nothing(autojump_clock: MockClock) -> None:
    changes: list[StoreError | None] = []
    with capture_logs() as logged:
        assert await stored("end of a turn", FailingStore(), on_change=changes.append) == 1
    assert trio.current_time() == 0
    assert (changes, logged) == ([], [])


async def test_a_failed_operation_is_retried_after_the_pause_until_it_succeeds(
    autojump_clock: MockClock,
) -> None:
    operation = FailingStore(full(), full())
    assert await stored("end of a turn", operation) == 3
    assert operation.called_at == [0, RETRY_AFTER, 2 * RETRY_AFTER]
    operation = FailingStore(full())
    assert await stored("message", operation, pause=1) == 2
    assert operation.called_at == [2 * RETRY_AFTER, 2 * RETRY_AFTER + 1]


async def test_repeated_failures_are_logged_once_with_the_fields(
    autojump_clock: MockClock,
) -> None:
    with capture_logs() as logged:
        await stored("end of a turn", FailingStore(full(), full(), full()), run="r1")
    failed = {"event": "end of a turn not stored; retrying", "run": "r1", "error": str(full())}
    succeeded = {"event": "end of a turn stored after retrying", "run": "r1"}
    assert logged == [{"log_level": "error", **failed}, {"log_level": "info", **succeeded}]


async def test_on_change_is_called_with_each_failure_and_with_none_after_the_success(
    autojump_clock: MockClock,
) -> None:
    first, second = full(), full()
    changes: list[StoreError | None] = []
    await stored("message", FailingStore(first, second), on_change=changes.append)
    assert changes == [first, second, None]


async def test_an_exception_that_is_no_store_error_is_raised_at_once(autojump_clock: MockClock) -> None:
    operation = FailingStore(ValueError("a mistake"))
    with pytest.raises(ValueError, match="a mistake"):
        await stored("message", operation)
    assert len(operation.called_at) == 1


async def test_cancellation_ends_the_retries(autojump_clock: MockClock) -> None:
    closed = StoreClosed(Path("gateway.db"), "is closed", "Report this.")
    operation = FailingStore(*[closed] * 10)
    with trio.move_on_after(2.5 * RETRY_AFTER) as scope:
        await stored("message", operation)
    assert scope.cancelled_caught
    assert operation.called_at == [0, RETRY_AFTER, 2 * RETRY_AFTER]
