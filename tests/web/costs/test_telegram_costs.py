"""The exact cost of a turn on Telegram, with a simulated Bot API on this machine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.telegram_link import TRAITS
from hermes_platforms.telegram.testing import BotApi, open_bot_api
from hermes_trio.config.schema import PlatformConfig
from hermes_trio.testing.model_replies import Reply
from tests.stage import Stage

from .counted_life import CountedLife, counted
from .job_counts import Cost

ANSWER = "Hello there."
SLOWLY = replace(Reply().says(ANSWER).uses(100, 3), piece=3, seconds_per_event=1.0)
"""In four pieces, so slowly that each is shown by an edit or a draft of its own."""


@asynccontextmanager
async def on_telegram(stage: Stage, *, drafts: bool) -> AsyncIterator[tuple[BotApi, CountedLife]]:
    """Run a counted life of this stage with a bot."""
    platforms = {"telegram": PlatformConfig(allow_from="all")}
    stage.config = msgspec.structs.replace(stage.config, platforms=platforms)
    async with open_bot_api() as telegram, counted(stage) as life:
        traits = replace(TRAITS, drafts=drafts)
        bot = TelegramAdapter(telegram.token, base_url=telegram.base_url, traits=traits)
        async with stage.life(adapters=[bot]):
            await life.cost()
            yield telegram, life


@pytest.mark.parametrize(("drafts", "shown"), [(False, "edit"), (True, "draft")])
async def test_an_edit_and_a_draft_on_telegram_cost_no_commit(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drafts: bool, shown: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with on_telegram(stage, drafts=drafts) as (telegram, life):

        async def answered(times: int) -> None:
            await telegram.until(lambda: telegram.chat("42").texts == [ANSWER] * times)

        for turns, first in enumerate((1, 0, 0), start=1):
            life.model.answers(SLOWLY)
            telegram.history.clear()
            telegram.post("hi")
            await answered(turns)
            # Each piece of the answer is in the journal before it is shown.
            assert await life.cost() == Cost(6 + first, reads=4 + first, journal=2 + 4)
            assert sum(one.what == shown for one in telegram.history) > 2
