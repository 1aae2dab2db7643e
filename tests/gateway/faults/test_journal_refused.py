"""A journal that cannot be opened: its turn has not begun, and begins when the journal can be opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import trio

from hermes_trio.testing import Script
from tests.stage import Stage

AGAIN = 35.0
"""Seconds after which a turn that could not run was tried again."""


@contextmanager
def refused_journal(stage: Stage) -> Iterator[None]:
    """Put a file in the place of the session's journals."""
    place = stage.home / "journal" / stage.entry().session_id
    aside = place.rename(place.with_name("aside"))
    place.write_text("in the way")
    try:
        yield
    finally:
        place.unlink()
        Path(aside).rename(place)


async def test_a_message_waits_for_its_journal_and_is_answered_once(stage: Stage) -> None:
    async with stage.life():
        await stage.says("hello")
        with refused_journal(stage):
            await stage.says("two")
            await trio.sleep(AGAIN)
            assert stage.platform.chat("42").texts == ["You said: hello"]
            assert stage.pending() == ["two"]
        await trio.sleep(AGAIN)
        assert stage.platform.chat("42").texts == ["You said: hello", "You said: two"]
        assert stage.outcomes() == ["answered", "answered"]


async def test_a_cut_turn_waits_for_its_journal_and_is_resumed(stage: Stage) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hello")
        await stage.says("work")
        await trio.sleep(5)
    stage.agent.on("work", Script().says("All done."))
    with refused_journal(stage):
        async with stage.life():
            await trio.sleep(AGAIN)
            assert stage.outcomes() == ["answered", "cut"]
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "All done."
        assert stage.outcomes() == ["answered", "cut", "answered"]


async def test_a_gateway_that_ends_while_a_turn_begins_leaves_no_turn(stage: Stage) -> None:
    async with stage.life():
        await stage.says("hello")
        with refused_journal(stage):
            await stage.says("two")
            await trio.sleep(AGAIN)
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "You said: two"
        assert stage.outcomes() == ["answered", "answered"]
