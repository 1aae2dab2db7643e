"""A gateway that hands over to a successor: it tells nobody, and everything that arrives meanwhile is the
successor's."""

from __future__ import annotations

import pytest
import trio

from hermes_trio.gateway.ending.endings_table import Cause, Ending
from hermes_trio.gateway.intake.requests import Posted, post
from hermes_trio.host.home.markers import RESTART_PENDING
from hermes_trio.testing import Script
from tests.stage import Stage


@pytest.mark.parametrize("grace", [30, 3])
async def test_what_arrives_during_a_hand_over_is_answered_by_the_next_life(stage: Stage, grace: int) -> None:
    stage.agent.on("long", Script().takes(10).says("It is done."))
    async with stage.life() as gateway:
        await stage.says("long")
        assert gateway.control.ask(Ending(Cause.HANDED_OVER, grace))
        await stage.says("in a chat", chat="7")
        event = stage.platform.event("by a request", chat="8")
        posted = await post(gateway.mailbox, gateway.home.store.key_of(event.source), event)
        assert posted == Posted(posted.inbox_id, posted.run_id, "queued")
        await trio.sleep(1)
        status = stage.status()
        assert (status.gateway_state, status.deadline) == ("running", None), "for others, it does not end"
        await trio.sleep(60)
        assert stage.ended_at == min(grace, 10)
    assert (stage.status().gateway_state, stage.status().exit_reason) == ("running", "handed over")
    assert (stage.ending().kind, stage.ending().cause) == ("restart", "handed over")
    assert [turn.outcome for turn in stage.turns()] == ["answered" if grace == 30 else "cut"]
    assert not (stage.home / RESTART_PENDING).exists()
    assert stage.platform.chat("7").texts == stage.platform.chat("8").texts == []
    async with stage.life():
        await trio.sleep(60)
    assert stage.platform.chat("42").texts == ["It is done."]
    assert len(stage.platform.chat("7").texts) == len(stage.platform.chat("8").texts) == 1
