"""A gateway that a test kills: it starts commands and reports on standard output, one line for each fact.

    python -m tests.host.children.gateway DIRECTORY TOKEN PLAN COMMAND...

PLAN names what it does once all commands run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import trio

from hermes_trio.host.processes.guard import Guard, open_guard
from hermes_trio.host.processes.process_groups import running
from tests.host.children.kinds import alive, until


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def live(directory: Path, token: str, plan: str, commands: list[str]) -> None:
    """Start the commands and follow the plan."""
    ending = trio.Event()
    async with open_guard() as guard, AsyncExitStack() as stack:
        if plan == "storm":
            await storm(guard, directory, token, commands[0])
        if plan == "die before telling":
            await die_before_telling(guard, token, commands[0])
        rows = []
        for number, command in enumerate(commands):
            process = await stack.enter_async_context(
                running(
                    f"{directory.name}-{number}",
                    command,
                    cwd=directory,
                    env=dict(os.environ),
                    spool=directory / "spools" / str(number),
                    guard=guard,
                    ending=ending,
                )
            )
            row = [f"{directory.name}-{number}", process.id.pid, process.id.started]
            rows.append(row)
        await until(lambda: len(alive(token)) >= len(commands))
        await trio.sleep(0.2)  # time for shells to start all their children
        say(guard=guard.pid, rows=rows)
        await PLANS[plan](guard)


async def wait(guard: Guard) -> None:
    """Wait to be killed."""
    await trio.sleep(60)


async def exit_at_once(guard: Guard) -> None:
    """Exit without any cleanup."""
    os._exit(7)


async def fork(guard: Guard) -> None:
    """Leave a process that keeps all our open files."""
    child = os.fork()
    if not child:
        signal.alarm(30)
        signal.pause()
        os._exit(0)
    say(forked=child)
    await trio.sleep(60)


async def tell_of_the_next_guard(guard: Guard) -> None:
    """Report the guard that replaces the first one."""
    first = guard.pid
    await until(lambda: guard.pid not in (None, first))
    say(guard=guard.pid)
    await trio.sleep(60)


async def die_before_telling(guard: Guard, token: str, command: str) -> None:
    """Die after the start of a command and before the guard knows its pid."""
    await guard.ready()
    guard.expect(token)
    process = await trio.lowlevel.open_process(
        ["sh", "-c", command], env={**os.environ, "HERMES_TRIO_GROUP": token}, start_new_session=True
    )
    await until(lambda: alive(token))
    say(guard=guard.pid, rows=[[token, process.pid, 0]])
    os.kill(os.getpid(), signal.SIGKILL)


async def storm(guard: Guard, directory: Path, token: str, command: str) -> None:
    """Start and end commands continuously, so that a kill can hit every moment of their lives."""

    async def again_and_again(place: int) -> None:
        for number in range(10_000):
            async with running(
                f"{directory.name}-{place}-{number}",
                command,
                cwd=directory,
                env=dict(os.environ),
                spool=directory / "spools" / f"{place}",
                guard=guard,
                ending=trio.Event(),
            ):
                await trio.sleep(0.01 * place)

    async with trio.open_nursery() as nursery:
        for place in range(6):
            nursery.start_soon(again_and_again, place)
        await until(lambda: alive(token))
        say(guard=guard.pid, rows=[])


PLANS = {
    "wait": wait,
    "exit at once": exit_at_once,
    "fork": fork,
    "tell of the next guard": tell_of_the_next_guard,
}


if __name__ == "__main__":
    trio.run(live, Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:])
