"""What a host may do to its gateway: cancel it at any moment, raise errors and interrupts, fork, and close
its loop too early."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path

import anyio
import psutil
import pytest
import trio

from hermes_trio import (
    AsyncioTurn,
    BlockingTurn,
    Gateway,
    QuestionRequest,
    RunUnanswered,
    asyncio_agent,
    blocking_agent,
)
from hermes_trio.base.errors import HomeBusy
from hermes_trio.embed.asyncio_calls import OtherLoop
from hermes_trio.embed.embedding import open_gateway
from hermes_trio.embed.host_loop import GatewayOver
from hermes_trio.embed.shielded_tree import Plugs
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.testing import Script
from tests.stage import Agent, no_guard

from .hosts import EVERY_HOST, HOSTS, Host
from .test_example_programs import outcomes

ASYNCIO = [host for host in HOSTS if host.id in ("asyncio", "uvloop")]
QUICK: Plugs = {"worker": inline_worker, "guarded": no_guard}


def hanging() -> Agent:
    agent = Agent()
    agent.on("hang", Script().says("I begin.").hangs())
    return agent


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that the block leaves no thread, file, socket or process behind."""
    me = psutil.Process()

    def held() -> tuple[set[str], int, set[threading.Thread], list[psutil.Process]]:
        gc.collect()  # what a traceback holds
        threads = {
            one for one in threading.enumerate() if not one.name.startswith("Trio thread")
        }  # its cache
        files = {one.path for one in me.open_files()}
        return files, len(me.net_connections("all")), threads, me.children(recursive=True)

    before = held()
    yield
    for thread in {*threading.enumerate()} - before[2]:
        thread.join(1.0)  # a thread of the store leaves after its last job, which nobody waits for
    assert held() == before


@pytest.mark.parametrize("host", ASYNCIO)
def test_a_cancellation_in_any_pass_of_the_loop_leaves_nothing(host: Host, tmp_path: Path) -> None:
    """While the gateway opens, while a turn begins and runs, and while the gateway closes."""

    async def use(left: list[bool]) -> None:
        agent = hanging()
        async with open_gateway(tmp_path, agent=agent, **QUICK) as gateway, gateway.run("hang") as run:
            async for _ in run:
                break
        left.append(True)

    async def main() -> None:
        pass_, left = 0, list[bool]()
        while not left:
            task = asyncio.create_task(use(left))
            for _ in range(pass_):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled() or left, task.exception()
            assert not trio.lowlevel.in_trio_run()
            assert asyncio.all_tasks() == {asyncio.current_task()}
            pass_ += 1 + pass_ // 10
        assert pass_ > 20

    host(main)
    assert set(outcomes(tmp_path)) <= {"unstarted", "cut", "stopped", "answered"}


@pytest.mark.parametrize("host", EVERY_HOST)
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_an_error_of_the_body_ends_the_turn_that_runs(
    host: Host, error: type[BaseException], tmp_path: Path
) -> None:
    agent = hanging()

    async def main() -> None:
        async with open_gateway(tmp_path, agent=agent) as gateway, gateway.run("hang") as run:
            async for _ in run:
                raise error("mine")

    host(partial(anyio.sleep, 0))  # opens what a loop keeps
    with nothing_left(), pytest.raises(error) as raised:
        host(main)
    assert type(raised.value) is error
    assert [how for _, how, _ in agent.left] == ["cancelled"]
    assert outcomes(tmp_path) == ["stopped"]


@pytest.mark.parametrize("host", EVERY_HOST)
def test_a_deadline_around_the_block_cuts_the_turn(host: Host, tmp_path: Path) -> None:
    agent = hanging()

    async def main() -> None:
        with anyio.CancelScope() as scope:
            async with open_gateway(tmp_path, agent=agent, **QUICK) as gateway:
                async with gateway.run("hang") as run:
                    async for _ in run:
                        scope.cancel()
                await anyio.sleep(3600)
        assert scope.cancelled_caught

    host(main)
    assert [how for _, how, _ in agent.left] == ["cancelled"]
    assert set(outcomes(tmp_path)) <= {"stopped", "cut"}  # the run's block and the gateway's end together


@pytest.mark.parametrize("host", EVERY_HOST)
def test_a_gateway_that_fails_leaves_the_others_of_its_loop_alone(host: Host, tmp_path: Path) -> None:
    fails = anyio.Event()

    async def door(
        gateway: RunningGateway, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        task_status.started()
        while not fails.is_set():  # noqa: ASYNC110 - an event of the host's loop
            await trio.sleep(0.01)
        raise RuntimeError("the door fails")

    plugs: Plugs = {**QUICK, "doors": [door]}

    async def main() -> None:
        async with open_gateway(tmp_path / "one", agent=hanging(), **QUICK) as one:
            with pytest.raises(RuntimeError, match="the door fails"):  # noqa: PT012
                async with open_gateway(tmp_path / "two", agent=hanging(), **plugs):
                    fails.set()
                    await anyio.sleep(3600)
            assert await one.say("first", "hello") == "You said: hello"
        assert one.ending is not None

    host(main)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("host", EVERY_HOST)
def test_a_forked_process_that_lives_on_does_not_keep_the_home(host: Host, tmp_path: Path) -> None:
    forked: list[int] = []

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(1)
        forked.append(pid)

    async def main() -> None:
        async with open_gateway(tmp_path, agent=hanging(), **QUICK) as gateway:
            async with gateway.run("hang") as run:
                async for _ in run:
                    fork()  # as a pool of processes does; the file of the run is open
                    break
            with pytest.raises(HomeBusy):
                async with open_gateway(tmp_path, agent=hanging(), **QUICK):
                    pytest.fail("it is open")
        async with open_gateway(tmp_path, agent=hanging(), **QUICK) as gateway:
            assert await gateway.say("first", "hello") == "You said: hello"

    try:
        host(main)
    finally:
        for pid in forked:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.mark.parametrize("host", EVERY_HOST)
def test_a_call_after_the_end_is_refused(host: Host, tmp_path: Path) -> None:
    async def main() -> None:
        async with open_gateway(tmp_path / "one", agent=hanging(), **QUICK):  # it shares its loop
            async with open_gateway(tmp_path / "two", agent=hanging(), **QUICK) as gateway:
                pass
            for call in (partial(gateway.say, "first", "hello"), gateway.sessions, gateway.metrics):
                with pytest.raises(GatewayOver, match="open the next one"):
                    await call()

    host(main)


@pytest.mark.parametrize("host", ASYNCIO)
def test_a_call_on_another_loop_is_refused(host: Host, tmp_path: Path) -> None:
    async def main() -> None:
        async with open_gateway(tmp_path, agent=hanging(), **QUICK) as gateway:

            async def call() -> None:
                with pytest.raises(OtherLoop, match="run_coroutine_threadsafe"):
                    await gateway.say("first", "hello")

            await asyncio.to_thread(host, call)
            assert await gateway.say("first", "hello") == "You said: hello"

    host(main)


@pytest.mark.parametrize("ends", [False, True])
def test_a_block_may_outlive_the_task_that_has_entered_it(ends: bool, tmp_path: Path) -> None:
    """As the fixtures of pytest-asyncio do."""

    async def fixture() -> AsyncIterator[Gateway]:
        async with open_gateway(tmp_path, agent=hanging(), **QUICK) as gateway:
            yield gateway

    async def leave(opened: AsyncIterator[Gateway]) -> None:
        assert [one async for one in opened] == []

    async def enter(opened: AsyncIterator[Gateway]) -> Gateway:
        return await anext(opened)

    with asyncio.Runner() as runner:
        opened = fixture()
        gateway = runner.run(enter(opened))
        assert runner.run(gateway.say("first", "hello")) == "You said: hello"
        if ends:
            gateway.stop()
            runner.run(asyncio.sleep(0.1))
        runner.run(leave(opened))
    assert gateway.ending is not None


@pytest.mark.parametrize("host", ASYNCIO)
def test_an_agent_of_asyncio_is_cancelled_as_asyncio_does(host: Host, tmp_path: Path) -> None:
    told: list[str] = []

    @asyncio_agent
    async def ask(turn: AsyncioTurn) -> None:
        await turn.say("I ask.")
        try:
            await turn.ask("Which one?")  # on Trio, where the turn is cancelled
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    async def main() -> None:
        async with open_gateway(tmp_path, agent=ask, **QUICK) as gateway, gateway.run("hello") as run:
            async for event in run:
                if isinstance(event, QuestionRequest):
                    break

    host(main)
    assert told == ["cancelled"]


NAME: ContextVar[str] = ContextVar("NAME")


@pytest.mark.parametrize("host", EVERY_HOST)
def test_an_agent_sees_the_context_in_which_its_gateway_was_opened(host: Host, tmp_path: Path) -> None:
    async def on_trio(turn: TurnContext) -> str:
        await trio.lowlevel.checkpoint()
        return NAME.get()

    @asyncio_agent
    async def on_asyncio(turn: AsyncioTurn) -> str:
        await asyncio.sleep(0)
        return NAME.get()

    @blocking_agent
    def in_a_thread(turn: BlockingTurn) -> str:
        return NAME.get()

    async def main() -> None:
        NAME.set("mine")
        for agent in (on_trio, in_a_thread, *(() if host is trio.run else (on_asyncio,))):
            async with open_gateway(tmp_path, agent=agent, **QUICK) as gateway:
                NAME.set("later")
                assert await gateway.say("first", "hello") == "mine"
            NAME.set("mine")

    host(main)


@pytest.mark.parametrize("host", EVERY_HOST)
def test_secrets_are_masked_in_the_log_of_a_turn_that_the_program_began(
    host: Host, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(turn: TurnContext) -> None:
        raise RuntimeError("no entry with opensesame-4711")

    async def main() -> None:
        async with open_gateway(tmp_path, agent=fail, **QUICK) as gateway:
            with pytest.raises(RunUnanswered):
                await gateway.say("first", "hello")

    (tmp_path / ".env").write_text("DOOR_PASSWORD=opensesame-4711\n", "utf-8")
    host(main)
    assert "agent failed" in caplog.text
    assert "no entry with" in caplog.text
    assert "opensesame-4711" not in caplog.text


EARLY = """
import asyncio, sys
import hermes_trio

async def hang(turn):
    await turn.say("I begin.")
    await hermes_trio_hang()

async def hermes_trio_hang():
    import trio
    await trio.sleep_forever()

async def main(loop):
    async with hermes_trio.open_gateway(sys.argv[1], agent=hang) as gateway:
        async with gateway.run("hang") as run:
            async for event in run:
                loop.stop()

loop = asyncio.new_event_loop()
task = loop.create_task(main(loop))
loop.run_forever()
loop.close()
print("closed")
"""


def test_a_loop_that_is_closed_too_early_does_not_keep_its_process(tmp_path: Path) -> None:
    """The turn has no end then, as after a kill, and the next start finds that."""
    done = subprocess.run(
        [sys.executable, "-c", EARLY, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr
    assert outcomes(tmp_path) == [None]  # and the next start has worked
