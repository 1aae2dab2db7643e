"""A gateway in a blocking program: the same names, from any thread."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import psutil
import pytest
import trio

from hermes_trio import (
    ApprovalRequest,
    MessageDelta,
    RunCompleted,
    RunUnanswered,
    Turn,
    blocking,
    blocking_agent,
)
from hermes_trio.base.errors import AgentInvalid, HomeBusy
from hermes_trio.testing import Script
from tests.stage import Agent

NAME: ContextVar[str] = ContextVar("NAME")


@contextmanager
def nothing_left() -> Iterator[None]:
    """Check that the block leaves no thread, file or process behind."""
    me = psutil.Process()
    files, threads = {one.path for one in me.open_files()}, set(threading.enumerate())
    children = me.children(recursive=True)
    yield
    assert {one.path for one in me.open_files()} == files
    assert me.children(recursive=True) == children
    kept = [one.name for one in threading.enumerate() if one not in threads]
    assert all(name.startswith("Trio thread") for name in kept), kept


def test_a_blocking_program_uses_a_gateway_and_leaves_nothing(tmp_path: Path) -> None:
    agent = Agent()
    agent.on("count", Script().says("1 ").says("2"))
    with nothing_left(), blocking.open_gateway(tmp_path, agent=agent) as gateway:
        assert gateway.say("one", "hello") == "You said: hello"
        assert gateway.home == tmp_path
        with gateway.run("count", session="one") as run:
            assert list(run) == [MessageDelta("1 "), MessageDelta("2"), RunCompleted("1 2")]
        assert [row.content for row in gateway.history("one")][-1] == "1 2"
        assert [entry.session_id for entry in gateway.sessions()] == ["one"]
        assert gateway.status().gateway_state == "running"
        assert 'hermes_turns_total{outcome="answered"} 2.0' in gateway.metrics()
    assert gateway.ending is not None
    with pytest.raises(blocking.GatewayOver):
        gateway.say("one", "hello")


def fail_in_block(gateway: blocking.BlockingGateway) -> None:
    """Raise an error in the block of a run that goes on."""
    with gateway.run("hang") as run:
        next(run)
        raise KeyError("mine")


def test_leaving_the_block_of_a_run_ends_it(tmp_path: Path) -> None:
    agent = Agent()
    agent.on("hang", Script().says("I begin.").hangs())
    with blocking.open_gateway(tmp_path, agent=agent) as gateway:
        with gateway.run("hang") as run:
            assert next(run) == MessageDelta("I begin.")
        assert [how for _, how, _ in agent.left] == ["cancelled"]
        with pytest.raises(KeyError, match="mine"):
            fail_in_block(gateway)
        assert [how for _, how, _ in agent.left] == ["cancelled"] * 2


def test_threads_share_a_gateway(tmp_path: Path) -> None:
    async def agent(turn: Turn) -> str:
        await trio.sleep(0.01)
        return f"{turn.prompt}!"

    with blocking.open_gateway(tmp_path, agent=agent) as gateway, ThreadPoolExecutor(8) as threads:
        answers = threads.map(lambda number: gateway.say(f"session-{number}", str(number)), range(40))
        assert list(answers) == [f"{number}!" for number in range(40)]


def test_the_agent_sees_the_context_variables_of_the_opening(tmp_path: Path) -> None:
    async def agent(turn: Turn) -> str:
        return NAME.get()

    NAME.set("mine")
    with blocking.open_gateway(tmp_path, agent=agent) as gateway:
        assert gateway.say("one", "hello") == "mine"


def test_errors_are_raised_bare(tmp_path: Path) -> None:
    agent = Agent()
    agent.on("fail", Script().raises(OSError("the disk is gone")))
    with pytest.raises(KeyError, match="mine"), blocking.open_gateway(tmp_path, agent=agent):
        raise KeyError("mine")
    with pytest.raises(AgentInvalid), blocking.open_gateway(tmp_path, agent=str):  # type: ignore[arg-type]
        pytest.fail("it is open")
    with nothing_left(), blocking.open_gateway(tmp_path, agent=agent) as gateway:
        with pytest.raises(HomeBusy), blocking.open_gateway(tmp_path, agent=agent):
            pytest.fail("it is open")
        with pytest.raises(RunUnanswered, match="the disk is gone"):
            gateway.say("one", "fail")


def test_a_program_waits_for_the_end_and_a_call_that_the_end_meets_is_refused(tmp_path: Path) -> None:
    agent = Agent()
    agent.on("hang", Script().says("I begin.").hangs())
    with blocking.open_gateway(tmp_path, agent=agent) as gateway:
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(gateway.say, "one", "hang")
            with gateway.run("hello") as run:
                assert run.result() == "You said: hello"
            while not agent.began[1:]:
                threading.Event().wait(0.01)
            assert gateway.stop(restart=True, asked_by="the host")
            gateway.wait()
            with pytest.raises((blocking.GatewayOver, RunUnanswered)):
                waiting.result(10)
        assert gateway.ending is not None
        assert (gateway.ending.kind, gateway.ending.asked_by) == ("restart", "the host")
    with blocking.open_gateway(tmp_path, agent=Agent()) as gateway:
        assert gateway.say("two", "hello") == "You said: hello"


def test_a_blocking_agent_asks_a_blocking_program(tmp_path: Path) -> None:
    agent = blocking_agent(lambda turn: turn.may("rm -r build"))
    with blocking.open_gateway(tmp_path, agent=agent) as gateway, gateway.run("clean") as run:
        asked = next(run)
        assert isinstance(asked, ApprovalRequest)
        assert run.answer(asked.approval_id, "once")
        assert run.result() == "once"


def test_a_program_on_asyncio_may_open_one_in_a_thread(tmp_path: Path) -> None:
    def in_thread() -> str:
        with blocking.open_gateway(tmp_path, agent=Agent()) as gateway:
            return gateway.say("one", "hello")

    async def main() -> str:
        return await asyncio.to_thread(in_thread)

    assert asyncio.run(main()) == "You said: hello"


PROGRAM = """
import sys
from hermes_trio import blocking

async def answer(turn):
    await turn.say("I begin.")
    import trio
    try:
        await trio.sleep_forever()
    finally:
        print("tidied", flush=True)

with blocking.open_gateway(sys.argv[1], agent=answer) as gateway:
    print("open", flush=True)
    with gateway.run("hello") as run:
        print(next(run).delta, flush=True)
        next(run)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is a signal")
def test_ctrl_c_ends_the_run_and_the_gateway(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ},
    ) as program:
        assert program.stdout is not None
        assert [program.stdout.readline(), program.stdout.readline()] == ["open\n", "I begin.\n"]
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=20)
    assert (out, err.splitlines()[-1]) == ("tidied\n", "KeyboardInterrupt")
    assert program.returncode == -signal.SIGINT
