"""Notices of a later life about a restart: each is sent once, whatever kills the gateway between."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio

from hermes_trio.base.messages import HomeChannel
from hermes_trio.config.schema import PlatformConfig
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.outbound import texts
from hermes_trio.gateway.serve import serve
from hermes_trio.host.home.markers import RESTART_PENDING
from hermes_trio.platform.contract import LinkLost, Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage, settled

Adapters = list[MemoryPlatform]


@asynccontextmanager
async def life(stage: Stage, adapters: Adapters) -> AsyncIterator[RunningGateway]:
    async with stage.life(adapters=adapters) as gateway:
        await settled()
        yield gateway


def count_texts(platform: MemoryPlatform, chat: str, what: str) -> int:
    return sum(what in text for text in platform.chat(chat).texts)


TRAITS = Traits(edits=True)


async def test_every_home_channel_is_told_of_the_return_also_one_that_connects_later(stage: Stage) -> None:
    one, other, muted = (MemoryPlatform(name, traits=TRAITS) for name in ("one", "other", "muted"))
    stage.config = msgspec.structs.replace(
        stage.config,
        platforms={
            platform.name: PlatformConfig(
                allow_from="all",
                home_channel=HomeChannel(platform.name, "home", thread_id="7"),
                gateway_restart_notification=platform is not muted,
            )
            for platform in (one, other, muted)
        },
    )
    adapters = [one, other, muted]
    async with life(stage, adapters) as gateway:
        gateway.stop(restart=True)
    for platform in adapters:
        assert count_texts(platform, "home", "Gateway restarting") == (0 if platform is muted else 1)
    other.fails("connect", LinkLost("not there yet"), times=2)
    async with life(stage, adapters):
        await trio.sleep(1)
        assert [count_texts(platform, "home", "back and ready") for platform in adapters] == [1, 0, 0]
        one.drop()
        await trio.sleep(200)
        assert [count_texts(platform, "home", "back and ready") for platform in adapters] == [1, 1, 0]
        assert {m.thread_id for m in other.chat("home").messages} == {"7"}
        assert not (stage.home / RESTART_PENDING).exists()
    for _ in range(2):
        async with life(stage, adapters):
            await trio.sleep(5)
    assert [count_texts(platform, "home", "back and ready") for platform in adapters] == [1, 1, 0]


async def test_the_home_channel_of_two_accounts_is_told_by_one_of_them(stage: Stage) -> None:
    main, second = (MemoryPlatform(account=account, traits=TRAITS) for account in ("main", "second"))
    stage.allow(home_channel=HomeChannel("memory", "home"))
    async with life(stage, [main, second]) as gateway:
        gateway.stop(restart=True)
    async with life(stage, [main, second]):
        await trio.sleep(5)
        await second.says("/sethome", chat="own home", user="42")
        await settled()
    assert [count_texts(main, "home", what) for what in ("Gateway restarting", "back and ready")] == [1, 1]
    assert second.chat("home").texts == []
    assert count_texts(second, "own home", "shutting down") == 1


@pytest.mark.parametrize("halts", range(1, 60, 2))
async def test_a_start_that_is_repeated_after_a_cancel_tells_each_notice_once(
    stage: Stage, halts: int
) -> None:
    """After a suspended session and a restart, the next start is cancelled after some steps and repeated."""
    stage.platform = MemoryPlatform(traits=Traits(edits=True, finds=True))
    stage.allow(home_channel=HomeChannel("memory", "home"))
    stage.agent.on("hang", Script().says("I begin.").hangs())
    for number in range(3):
        async with stage.life() as gateway:
            if number == 0:
                await stage.says("hang")
            await trio.sleep(5)
            if number == 2:
                gateway.stop(restart=True)
    with trio.CancelScope() as killed:
        async with trio.open_nursery() as nursery:

            async def kill() -> None:
                for _ in range(halts):
                    await trio.lowlevel.checkpoint()
                killed.cancel()

            nursery.start_soon(kill)
            await serve(stage.setup())
    for _ in range(2):
        async with stage.life():
            await trio.sleep(5)
    assert stage.platform.chat("42").texts.count(texts.session_suspended()) == 1
    assert count_texts(stage.platform, "home", "back and ready") == 1


@pytest.mark.sqlite
async def test_a_home_channel_is_told_once_an_hour_that_the_gateway_was_down_without_a_stop(
    stage: Stage,
) -> None:
    stage.allow(home_channel=HomeChannel("memory", "home"))

    async def killed(number: int) -> None:
        """Go on with the home as a kill leaves it."""
        left = stage.home.with_name(f"left-{number}")
        shutil.copytree(stage.home, left)
        stage.platform.drop()
        stage.home = left

    def told() -> int:
        return count_texts(stage.platform, "home", "down without a stop")

    for number, expected in enumerate([0, 1, 1]):
        async with stage.life():
            await trio.sleep(5)
            assert told() == expected
            await killed(number)
    await trio.sleep(3600)
    async with stage.life():
        await trio.sleep(5)
        assert told() == 2
    async with stage.life():
        await trio.sleep(5)
        assert told() == 2, "a stop is no crash"
