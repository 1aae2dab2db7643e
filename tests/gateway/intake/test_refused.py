"""A platform that refuses our credentials ends its own link; the gateway ends when no platform is left."""

from __future__ import annotations

from pathlib import Path

import trio
from trio.testing import MockClock

from hermes_trio.base.world import World
from hermes_trio.cli.last_exit import describe_last_life
from hermes_trio.gateway.ending.endings_table import Cause, Ending
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.host.home.state_file import Status, read_status
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.platform.contract import CredentialsRefused
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Agent, Stage, everyone, no_guard


async def run_until_end(home: Path, *platforms: MemoryPlatform) -> Ending:
    return await serve(
        Setup(
            home,
            everyone(),
            agent=Agent(),
            adapters=platforms,
            world=World(),
            worker=inline_worker,
            guarded=no_guard,
        )
    )


def status_of(home: Path) -> Status:
    status = read_status(home)
    assert status is not None
    return status


async def test_the_gateway_ends_when_every_platform_refuses_its_credentials(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    one, two = MemoryPlatform("one"), MemoryPlatform("two")
    one.fails("connect", CredentialsRefused("one"))
    two.fails("connect", CredentialsRefused("two"))
    ending = await run_until_end(tmp_path, one, two)
    assert ending.cause is Cause.NOTHING_SERVES
    assert trio.current_time() == 0
    status = status_of(tmp_path)
    assert status.gateway_state == "startup_failed"
    assert describe_last_life(status, None).count(" refused its token") == 2, "the report names both reasons"
    for platform in status.platforms.values():
        assert platform.state == "fatal"
        assert "refused its token" in (platform.error or "")


async def test_the_gateway_runs_while_one_platform_serves(tmp_path: Path, autojump_clock: MockClock) -> None:
    refused, serving = MemoryPlatform("refused"), MemoryPlatform("memory")
    refused.fails("connect", CredentialsRefused("memory"))
    with trio.move_on_after(1000) as patience:
        await run_until_end(tmp_path, refused, serving)
    assert patience.cancelled_caught
    assert [op.what for op in refused.history] == ["connect"], "a refused platform is not tried again"
    assert serving.history[-1].what == "disconnect"


async def test_a_revoked_token_cuts_a_running_turn_and_the_next_life_resumes_it(stage: Stage) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(5)
        stage.platform.fails("connect", CredentialsRefused("memory"))
        stage.platform.drop()
        await trio.sleep(600)
        assert stage.ended_at is not None
    assert status_of(stage.home).gateway_state == "startup_failed"
    assert stage.entry().resume_reason == "shutdown_timeout"
    stage.agent.on("hang", Script().says("All done."))
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "All done."
