"""Hundreds of turns that are cut at once: each end is stored. They end in groups while Python's garbage
collector is on, and together while it is off."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import trio

from hermes_trio.gateway.ending.endings_table import MARGIN
from hermes_trio.gateway.session.registry import MOST_AT_ONCE
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.gateway.turn.progress import TYPING_EVERY
from tests.stage import Stage


@pytest.fixture(params=[True, False], ids=["collector", "no collector"])
def collector(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Switch Python's garbage collector on or off for the test, and return True if it is on."""
    is_on: bool = request.param
    if not is_on:
        gc.disable()
    yield is_on
    gc.enable()


async def test_many_turns_are_cut_in_groups_where_the_collector_is_on(stage: Stage, collector: bool) -> None:
    left_with: list[int] = []

    async def hang(turn: TurnContext) -> None:
        try:
            await trio.sleep_forever()
        finally:
            assert stage.gateway is not None
            left_with.append(len(stage.gateway.work.running))
            if turn.prompt == "7":  # holds up its group only
                with trio.move_on_after(1, shield=True):
                    await trio.sleep_forever()

    chats = [str(number) for number in range(MOST_AT_ONCE + 1)]
    for chat in chats:
        stage.agent.does(chat, hang)
    async with stage.life() as gateway:
        for chat in chats:
            await stage.says(chat, chat=chat)
        while len(gateway.work.running) < len(chats):
            await gateway.work.running.changed.wait()
        await trio.sleep(TYPING_EVERY - 0.05)  # the next typing sign is due while the first group ends
        began = trio.current_time()
        gateway.stop(grace=0)
    assert trio.current_time() - began < MARGIN
    assert {outcome for chat in chats for outcome in stage.outcomes(chat)} == {"cut"}
    assert max(left_with) == len(chats)
    assert (min(left_with) < MOST_AT_ONCE / 5) is collector  # else all were cut before the first had ended
    typed = [at for chat in chats for at in stage.platform.chat(chat).typing_at]
    assert typed
    assert max(typed) <= began, "nobody is shown that a turn goes on which waits to be cut"
