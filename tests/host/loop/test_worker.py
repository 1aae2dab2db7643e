"""Blocking work is done in order, one job at a time, without delaying the event loop."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import outcome
import pytest
import trio
import trio.testing

from hermes_trio.host.loop.worker import (
    AT_ONCE,
    Batcher,
    Pending,
    Runner,
    Worker,
    finished,
    inline_worker,
    perform_each,
    together,
    worker_thread,
)
from tests.logs import capture_logs

T = TypeVar("T")


@pytest.fixture(params=[worker_thread, inline_worker], ids=["thread", "inline"])
def worker(request: pytest.FixtureRequest) -> Worker:
    made: Worker = request.param
    return made


async def test_jobs_run_in_the_order_of_arrival(worker: Worker) -> None:
    done: list[int] = []
    with worker("store") as runner:
        async with trio.open_nursery() as nursery:
            for number in range(50):
                runner(partial(done.append, number), lambda _: None)
            nursery.start_soon(finished, runner, lambda: done.append(50))
    assert done == list(range(51))


async def test_a_runner_never_runs_two_jobs_at_once() -> None:
    at_work = threading.Lock()

    def job() -> bool:
        alone = at_work.acquire(blocking=False)
        time.sleep(0.001)
        if alone:
            at_work.release()
        return alone

    results: list[bool] = []

    async def use(runner: Runner) -> None:
        results.append(await finished(runner, job))

    with worker_thread("store") as runner:
        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(use, runner)
    assert results == [True] * 20


async def test_a_waiting_task_gets_the_result_or_the_error_of_its_job(worker: Worker) -> None:
    with worker("store") as runner:
        assert await finished(runner, lambda: 6 * 7) == 42
        with pytest.raises(ZeroDivisionError):
            await finished(runner, lambda: 1 / 0)
        with pytest.raises(KeyboardInterrupt):
            await finished(runner, partial(outcome.Error(KeyboardInterrupt()).unwrap))
        assert await finished(runner, lambda: "still at work") == "still at work"


async def test_results_are_delivered_on_the_thread_of_trio_and_jobs_run_elsewhere() -> None:
    places: list[threading.Thread] = []
    answered = trio.Event()

    def at_work() -> None:
        places.append(threading.current_thread())

    def told(_: object) -> None:
        places.append(threading.current_thread())
        answered.set()

    with worker_thread("store") as runner:
        runner(at_work, told)
        with trio.fail_after(5):
            await answered.wait()
    worker, waiter = places
    assert (worker.name, waiter) == ("store", threading.current_thread())
    assert worker is not waiter
    assert worker.daemon, "a hung disk must not keep the process alive"


async def test_a_cancelled_task_leaves_at_once_and_its_job_is_still_done() -> None:
    release, done = threading.Event(), threading.Event()

    def job() -> None:
        release.wait(10)
        done.set()

    with worker_thread("store") as runner:
        with trio.move_on_after(0.01) as scope:
            await finished(runner, job)
        assert scope.cancelled_caught
        assert not done.is_set(), "the task has not waited for the job"
        release.set()
        await finished(runner, lambda: None)
        assert done.is_set()


async def test_a_job_started_in_a_cancelled_scope_is_done(worker: Worker) -> None:
    """The end of a turn is written in a scope that is cancelled already."""
    done: list[str] = []
    with worker("store") as runner:
        with trio.CancelScope() as scope:
            scope.cancel()
            await finished(runner, lambda: done.append("last words"))
        assert scope.cancelled_caught
        await finished(runner, lambda: None)
    assert done == ["last words"]


async def test_the_result_for_a_cancelled_task_is_dropped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The task waits for something else by then, and must not be woken by the result."""
    answers: list[Callable[[], object]] = []

    def slow(job: Callable[[], T], done: Callable[[outcome.Outcome[T]], object]) -> None:
        answers.append(lambda: done(outcome.capture(job)))

    with trio.move_on_after(1):
        await finished(slow, lambda: 1 / 0)
    [answer] = answers
    trio.lowlevel.current_trio_token().run_sync_soon(answer)
    assert trio.current_time() == 1
    await trio.sleep(2)
    assert trio.current_time() == 3


def mine() -> threading.Thread:
    [thread] = [found for found in threading.enumerate() if found.name == "a worker of this test"]
    return thread


async def test_the_worker_thread_ends_after_the_last_job_of_its_block() -> None:
    done: list[int] = []
    with worker_thread("a worker of this test") as runner:
        thread = mine()
        for number in range(20):
            runner(partial(done.append, number), lambda _: None)
    await trio.to_thread.run_sync(thread.join, 5)
    assert not thread.is_alive()
    assert done == list(range(20))


async def test_a_block_that_fails_ends_its_worker_thread() -> None:
    threads: list[threading.Thread] = []

    def fail() -> None:
        with worker_thread("a worker of this test"):
            threads.append(mine())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    await trio.to_thread.run_sync(threads[0].join, 5)
    assert not threads[0].is_alive()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_job_that_ends_after_trio_is_no_error() -> None:
    """The last job was still running; its result is dropped."""
    release, finished_job = threading.Event(), threading.Event()

    def job() -> None:
        release.wait(10)
        finished_job.set()

    async def program() -> threading.Thread:
        with worker_thread("a worker of this test") as runner:
            runner(job, lambda _: pytest.fail("somebody was told"))
            return mine()

    thread = trio.run(program)
    release.set()
    thread.join(5)
    assert finished_job.is_set()
    assert not thread.is_alive()
    gc.collect()


HANGS = """
import threading, trio
from hermes_trio.host.loop.worker import finished, worker_thread

async def main():
    with worker_thread("store") as runner, trio.move_on_after(0.01):
        await finished(runner, threading.Event().wait)
    print("over")

trio.run(main)
"""


def test_a_hung_job_does_not_keep_the_process_alive() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", HANGS], capture_output=True, text=True, timeout=20, check=True
    )
    assert (ended.stdout, ended.stderr) == ("over\n", "")


# --- batches -----------------------------------------------------------------------------------------


async def test_items_that_wait_together_are_one_batch(worker: Worker) -> None:
    batches: list[list[int]] = []

    def perform(batch: Sequence[Pending[int, int]]) -> None:
        batches.append([pending.item for pending in batch])
        for pending in batch:
            pending.result = outcome.Value(pending.item * 10)

    results: dict[int, int] = {}

    async def hand_over(item: int) -> None:
        results[item] = await batcher.performed(item)

    with worker("store") as runner:
        batcher: Batcher[int, int] = Batcher(runner, perform, limit=4)
        async with trio.open_nursery() as nursery:
            for item in range(10):
                nursery.start_soon(hand_over, item)
    assert sorted(item for batch in batches for item in batch) == list(range(10))
    assert [len(batch) for batch in batches] == [4, 4, 2], "no batch is above the limit"
    assert results == {item: item * 10 for item in range(10)}


async def test_each_item_of_a_batch_gets_its_own_result(worker: Worker) -> None:
    with worker("store") as runner, capture_logs() as logs:
        batcher: Batcher[Callable[[], object], object] = Batcher(runner, perform_each, limit=10)
        results: list[object] = []

        async def use(job: Callable[[], object]) -> None:
            try:
                results.append(await batcher.performed(job))
            except ZeroDivisionError as error:
                results.append(str(error))

        with trio.CancelScope() as gone:
            gone.cancel()
            await batcher.performed(lambda: 1 / 0)
        batcher.hand_over(lambda: results.append("for nobody"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(use, lambda: 1 / 0)
            nursery.start_soon(use, lambda: "fine")
    assert sorted(map(str, results)) == ["division by zero", "fine", "for nobody"]
    assert [log["event"] for log in logs] == ["job failed after its caller was cancelled"]


async def test_a_batch_that_fails_as_a_whole_fails_for_each_item() -> None:
    def perform(batch: Sequence[Pending[int, None]]) -> None:
        raise ZeroDivisionError("the whole batch")

    caught: list[str] = []

    async def use(item: int) -> None:
        with pytest.raises(ZeroDivisionError) as error:
            await batcher.performed(item)
        caught.append(str(error.value))

    with worker_thread("store") as runner:
        batcher: Batcher[int, None] = Batcher(runner, perform, limit=10)
        async with trio.open_nursery() as nursery:
            for item in range(3):
                nursery.start_soon(use, item)
    assert caught == ["the whole batch"] * 3


async def test_items_after_a_hung_batch_are_performed_when_the_disk_recovers() -> None:
    held: list[Callable[[], object]] = []
    done: list[int] = []

    def hung(job: Callable[[], object], _: object) -> None:
        held.append(job)

    def perform(batch: Sequence[Pending[int, None]]) -> None:
        for pending in batch:
            done.append(pending.item)
            pending.result = outcome.Value(None)

    batcher: Batcher[int, None] = Batcher(hung, perform, limit=2)
    batcher.hand_over(1)
    await trio.testing.wait_all_tasks_blocked()
    for item in (2, 3, 4):
        batcher.hand_over(item)
    batcher.flush()
    assert done == []
    for job in held:
        job()
    assert done == [1, 2, 3, 4]


def test_blocking_jobs_run_together_and_each_has_its_own_outcome() -> None:
    all_run = threading.Barrier(AT_ONCE)

    def job(number: int) -> int:
        all_run.wait(timeout=30)
        return 10 // number

    results = together([partial(job, number) for number in range(2 * AT_ONCE)])
    assert isinstance(results[0], outcome.Error)
    assert isinstance(results[0].error, ZeroDivisionError)
    assert [result.unwrap() for result in results[1:]] == [10 // n for n in range(1, 2 * AT_ONCE)]
    assert together([]) == []
