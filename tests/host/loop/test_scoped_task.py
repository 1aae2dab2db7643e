"""A task beside a block lives as long as the block and does not change the exceptions of the block."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from hermes_trio.host.loop.scoped_task import beside


async def forever() -> None:
    await trio.sleep_forever()


async def broken() -> None:
    raise ZeroDivisionError


async def broken_at_the_end() -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise ZeroDivisionError


async def two_forever() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        nursery.start_soon(trio.sleep_forever)


@pytest.mark.parametrize("job", [forever, two_forever, trio.lowlevel.checkpoint])
async def test_the_job_ends_with_the_block(job: object) -> None:
    async with beside(job):  # type: ignore[arg-type]
        await trio.testing.wait_all_tasks_blocked()


@pytest.mark.parametrize("job", [forever, two_forever, trio.lowlevel.checkpoint])
@pytest.mark.parametrize("cancelled", [False, True])
async def test_an_error_of_the_block_is_raised_bare_and_unchanged(job: object, cancelled: bool) -> None:
    error = LookupError("this very one")
    error.__context__ = earlier = KeyError()

    async def fail() -> None:
        with trio.CancelScope() as scope:
            async with beside(job):  # type: ignore[arg-type]
                if cancelled:
                    scope.cancel(reason="test")
                raise error

    with pytest.raises(LookupError) as caught:
        await fail()
    assert caught.value is error
    assert error.__context__ is earlier


@pytest.mark.parametrize("job", [forever, two_forever, trio.lowlevel.checkpoint])
async def test_a_cancellation_passes_through_the_block(job: object) -> None:
    with trio.move_on_after(0.01) as scope:
        async with beside(job):  # type: ignore[arg-type]
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_a_group_raised_by_the_block_is_unchanged() -> None:
    group = ExceptionGroup("made by the block", [LookupError()])
    with pytest.raises(ExceptionGroup) as caught:
        async with beside(forever):
            raise group
    assert caught.value is group


async def test_an_error_of_a_nursery_in_a_cancelled_block_is_kept() -> None:
    async def fail() -> None:
        with trio.CancelScope() as scope:
            async with beside(forever), trio.open_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                nursery.start_soon(broken)
                scope.cancel(reason="test")

    with pytest.raises(ExceptionGroup) as caught:
        await fail()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]


async def test_a_job_that_fails_cancels_the_block_and_is_raised() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with beside(broken):
            await trio.sleep_forever()
    assert [type(error) for error in caught.value.exceptions] == [ZeroDivisionError]


async def test_no_error_is_lost_when_both_fail() -> None:
    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012
        async with beside(broken_at_the_end):
            await trio.testing.wait_all_tasks_blocked()
            raise LookupError
    assert {type(error) for error in caught.value.exceptions} == {ZeroDivisionError, LookupError}
