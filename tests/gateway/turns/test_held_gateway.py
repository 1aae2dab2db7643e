"""A gateway that is held from outside: running turns go on, nothing begins, and afterwards the waiting
messages are answered."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio.base.messages import HomeChannel
from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.ending.triggers import watch_drain_request
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.outbound import texts
from hermes_trio.host.home.markers import DRAIN_REQUEST, write_drain_request
from hermes_trio.host.home.state_file import GatewayState, read_status
from hermes_trio.platform.contract import LinkLost
from hermes_trio.testing import Script
from tests.logs import capture_logs
from tests.stage import Stage, everyone, settled


async def hold(gateway: RunningGateway, held: bool, *, quiet: bool = False) -> None:
    gateway.control.hold(held, quiet=quiet)
    await settled()


def state_of(gateway: RunningGateway) -> str:
    return gateway.home.board.status.gateway_state


def is_held(gateway: RunningGateway) -> bool:
    return gateway.control.held


async def test_a_held_gateway_continues_its_turns_begins_none_and_tells_each_chat_once(stage: Stage) -> None:
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work", chat="1")
        await hold(gateway, True)
        assert state_of(gateway) == GatewayState.DRAINING
        for said in ("one", "two", "three"):
            await trio.sleep(10)
            for chat in "12":
                await stage.says(said, chat=chat)
        assert stage.platform.chat("1").texts == [texts.waits_for_drain(), "Done."]
        assert stage.platform.chat("2").texts == [texts.waits_for_drain()]
        assert [said for said, _ in stage.agent.began] == ["work"]
        assert stage.pending("1") == stage.pending("2") == ["one", "two", "three"]
        await hold(gateway, False)
        assert state_of(gateway) == GatewayState.RUNNING
        await trio.sleep(5)
        answers = ["You said: one", "You said: two", "You said: three"]
        assert stage.platform.chat("1").texts[2:] == answers
        assert stage.platform.chat("2").texts[1:] == answers
        assert [said for said, _ in stage.agent.began[1:]] == ["one", "one", "two", "two", "three", "three"]
        await hold(gateway, True)
        await stage.says("again", chat="2")
        assert stage.platform.chat("2").texts.count(texts.waits_for_drain()) == 2, "a new hold is told again"


async def test_a_message_queued_in_a_busy_chat_waits_for_the_release(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        await trio.sleep(5)
        await stage.says("before")
        await hold(gateway, True)
        await trio.sleep(60)
        assert stage.outcomes() == ["answered"]
        assert stage.pending() == ["before"]
        await hold(gateway, False)
        assert stage.platform.chat("42").last == "You said: before"


async def test_a_cut_turn_whose_platform_connects_during_a_hold_is_resumed_after_it(stage: Stage) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
    stage.agent.on("work", Script().takes(5).says("Done."))
    stage.platform.fails("connect", LinkLost("not there yet"))
    async with stage.life() as gateway:
        await hold(gateway, True)
        await trio.sleep(60)
        assert stage.platform.connected
        assert stage.outcomes() == ["cut"]
        await stage.says("hello")
        await hold(gateway, False)
        await trio.sleep(20)
        assert stage.outcomes() == ["cut", "answered", "answered"]
        assert stage.platform.chat("42").texts[-2:] == ["Done.", "You said: hello"]
        assert stage.entry().mark is None


@pytest.mark.parametrize("released", [False, True])
async def test_a_shutdown_during_a_hold_wins(stage: Stage, *, released: bool) -> None:
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work", chat="1")
        await hold(gateway, True)
        await stage.says("hello")
        gateway.stop(grace=60)
        await trio.sleep(5)
        if released:
            await hold(gateway, False)
        await stage.says("hello again", chat="3")
        assert stage.platform.chat("3").texts == [texts.waits_for_restart()]
        assert state_of(gateway) == GatewayState.DRAINING
        await trio.sleep(60)
        assert stage.ended_at == 20
    assert stage.pending() == ["hello"]
    status = read_status(stage.home)
    assert status is not None
    assert status.gateway_state is GatewayState.STOPPED
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "You said: hello"


async def test_a_hold_during_a_release_holds(stage: Stage) -> None:
    async with stage.life() as gateway:
        await hold(gateway, True)
        gateway.control.hold(False)
        gateway.control.hold(True)
        await settled()
        assert state_of(gateway) == GatewayState.DRAINING
        gateway.control.hold(False)
        await trio.lowlevel.checkpoint()
        gateway.control.hold(True)  # while the release is being handled
        await settled()
        assert state_of(gateway) == GatewayState.DRAINING
        await hold(gateway, False)
        assert state_of(gateway) == GatewayState.RUNNING


# --- the drain request in the home ------------------------------------------------------------------------


@asynccontextmanager
async def watched(stage: Stage) -> AsyncIterator[RunningGateway]:
    """Run one life with the watch over the drain request beside it, as `run` does."""
    control = Control()

    stage.home.mkdir(parents=True, exist_ok=True)
    async with trio.open_nursery() as beside:
        await beside.start(watch_drain_request, control, stage.home, stage.world)
        async with stage.life(control) as gateway:
            yield gateway
            gateway.stop(grace=0)
        beside.cancel_scope.cancel()


def set_time(stage: Stage, path: Path) -> None:
    """Set the modification time of the file to the time of the test."""
    os.utime(path, (stage.world.time(), stage.world.time()))


def request(stage: Stage, *, quiet: bool = False) -> Path:
    write_drain_request(stage.home, stage.world, suppress_notification=quiet)
    set_time(stage, stage.home / DRAIN_REQUEST)
    return stage.home / DRAIN_REQUEST


async def test_a_drain_request_holds_the_gateway_until_it_is_deleted(stage: Stage) -> None:
    async with watched(stage):
        path = request(stage)
        await trio.sleep(0.6)
        await stage.says("hello")
        assert stage.platform.chat("42").texts == [texts.waits_for_drain()]
        path.unlink()
        await trio.sleep(0.6)
        assert stage.platform.chat("42").last == "You said: hello"


async def test_a_drain_request_from_before_the_start_holds_from_the_begin(stage: Stage) -> None:
    async with stage.life() as gateway:
        await hold(gateway, True)
        await stage.says("hello")
    path = request(stage)
    async with watched(stage) as gateway:
        assert is_held(gateway)
        await trio.sleep(5)
        assert stage.agent.began == []
        assert state_of(gateway) == GatewayState.DRAINING
        path.unlink()
        await trio.sleep(1)
        assert stage.platform.chat("42").last == "You said: hello"


@pytest.mark.parametrize(
    ("content", "held"),
    [
        (b"{", True),
        (b"", True),
        (b'{"action": "cancel"}', True),
        (b'{"action": "drain", "epoch": "another boot:1"}', None),
        (b'{"action": "drain"}', True),
        (b"{}", True),
    ],
)
async def test_an_unreadable_drain_request_counts_and_one_of_another_boot_does_not(
    stage: Stage, content: bytes, held: bool | None
) -> None:
    with capture_logs() as logs:
        async with watched(stage) as gateway:
            path = stage.home / DRAIN_REQUEST
            path.write_bytes(content)
            set_time(stage, path)
            await trio.sleep(5)
            # A system that cannot tell boots apart accepts a request of another boot.
            assert is_held(gateway) is (held if held is not None else path.exists())
            assert path.exists() is is_held(gateway)
    warned = [entry for entry in logs if entry["event"] == "drain request has a problem"]
    assert len(warned) <= 1, "the problem is logged once, and not at each poll"


async def test_a_forgotten_drain_request_ends_after_a_day(stage: Stage) -> None:
    async with watched(stage) as gateway:
        request(stage)
        await trio.sleep(23 * 3600)
        assert is_held(gateway)
        await trio.sleep(3601)
        assert not is_held(gateway)
        assert not (stage.home / DRAIN_REQUEST).exists()
        await stage.says("hello")
        assert stage.platform.chat("42").last == "You said: hello"


@pytest.mark.parametrize("quiet", [False, True])
async def test_a_quiet_drain_request_silences_the_home_channels_only(stage: Stage, *, quiet: bool) -> None:
    stage.allow(home_channel=HomeChannel("memory", "home"))
    stage.config = msgspec.structs.replace(stage.config, agent=AgentConfig(restart_drain_timeout=5))
    stage.agent.on("work", Script().hangs())
    async with watched(stage) as gateway:
        await stage.says("work")
        path = request(stage, quiet=quiet)
        if quiet and not json.loads(path.read_bytes())["epoch"]:
            pytest.skip("this system tells no boots apart")
        await trio.sleep(1)
        gateway.stop(grace=5)
        await trio.sleep(1)
    assert sum("shutting down" in text for text in stage.platform.chat("42").texts) == 1
    assert sum("shutting down" in text for text in stage.platform.chat("home").texts) == (0 if quiet else 1)
