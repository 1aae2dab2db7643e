"""Starting a successor, and what the two processes say to each other."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from hermes_trio.host.processes.process_identity import find
from hermes_trio.host.service.successor import (
    FOR_PROCESS,
    VARIABLE,
    Ready,
    SuccessorFailed,
    predecessor_of,
    started_successor,
)

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform == "win32", reason="Windows passes no files on in this way"),
]

SAYS = f"import os, sys; os.write(int(os.environ['{VARIABLE}']), sys.argv[1].encode()); "
STAYS = "import time; time.sleep(600)"


async def test_a_successor_that_hangs_is_given_up_and_killed() -> None:
    pid = 0

    async def wait_for_it() -> None:
        nonlocal pid
        hangs = [sys.executable, "-c", "import time; time.sleep(600)"]
        async with started_successor(hangs, os.environ) as successor:
            pid = successor.pid
            await successor.ready(within=0.1)

    with pytest.raises(SuccessorFailed, match=r"it was not ready after 0\.1 seconds"):
        await wait_for_it()
    assert find(pid) is None


@pytest.mark.parametrize(
    ("says", "then", "why"),
    [
        ('{"problem": "it lacks a wheel"}\n', STAYS, "it lacks a wheel. The running gateway goes on."),
        ("no message\n", STAYS, "it is not understood"),
        ('{"version": 2}\n', STAYS, "it is not understood"),
        ('{"version"', "", "it has ended"),
    ],
)
async def test_a_successor_that_cannot_take_over_is_killed(says: str, then: str, why: str) -> None:
    pid = 0

    async def wait_for_it() -> None:
        nonlocal pid
        async with started_successor([sys.executable, "-c", SAYS + then, says], os.environ) as successor:
            pid = successor.pid
            await successor.ready(within=60)

    with pytest.raises(SuccessorFailed, match=why):
        await wait_for_it()
    assert find(pid) is None


@pytest.mark.parametrize(
    ("then", "within", "why"), [("", 30, "it has ended"), (STAYS, 0.1, "it was not ready after")]
)
async def test_a_successor_that_gets_everything_and_does_not_serve_is_given_up(
    then: str, within: float, why: str
) -> None:
    async def follow() -> None:
        program = [sys.executable, "-c", SAYS + then, '{"version": "1.2"}\n']
        async with started_successor(program, os.environ) as successor:
            assert await successor.ready(within=60) == Ready("1.2")
            await successor.take_over([null.fileno()], [], within)

    with open(os.devnull, "rb") as null, pytest.raises(SuccessorFailed, match=why):
        await follow()


@pytest.mark.parametrize(
    ("names_this", "inherited"), [(True, "OTHER"), (False, "OTHER SYSTEMD_EXEC_PID WATCHDOG_PID")]
)
async def test_a_successor_takes_the_place_of_this_process_in_its_environment(
    names_this: bool, inherited: str
) -> None:
    """A terminal may be a service, and its variables name another process: they stay as they are."""
    pid = os.getpid() if names_this else 1
    environ = {**os.environ, "OTHER": "1", **dict.fromkeys(FOR_PROCESS, str(pid))}
    program = (
        "import json, os\n"
        f"names = [name for name in {('OTHER', *FOR_PROCESS)!r} if name in os.environ]\n"
        "said = json.dumps({'problem': ' '.join(names)}).encode()\n"
        f"os.write(int(os.environ['{VARIABLE}']), said + b'\\n')\n"
    )

    async def wait_for_it() -> None:
        async with started_successor([sys.executable, "-c", program], environ) as successor:
            await successor.ready(within=60)

    with pytest.raises(SuccessorFailed, match=rf"did not take over: {inherited}\. "):
        await wait_for_it()


def test_a_predecessor_that_leaves_hands_nothing_over() -> None:
    ours, theirs = socket.socketpair()
    environ = {VARIABLE: str(theirs.detach())}
    with predecessor_of(environ) as predecessor:
        assert predecessor is not None
        predecessor.tell(Ready("1.2"))
        ours.close()
        assert predecessor.receive() is None
    assert environ == {}


@pytest.mark.parametrize("value", ["", "three", "999999", "file"])
def test_a_variable_that_names_no_socket_is_ignored(tmp_path: Path, value: str) -> None:
    with open(tmp_path / "file", "wb") as file:
        environ = {VARIABLE: str(file.fileno()) if value == "file" else value, "OTHER": "1"}
        with predecessor_of(environ) as predecessor:
            assert predecessor is None
        assert environ == {"OTHER": "1"}
        assert file.write(b"open") == 4
