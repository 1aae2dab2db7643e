"""The table of endings: every cause under every supervisor."""

from __future__ import annotations

import os

import pytest
import trio

from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.ending.endings_table import (
    Cause,
    Ending,
    Exit,
    Supervisor,
    combined,
    consequences,
    supervisor,
)
from tests.stage import settled

STOP = Ending(Cause.PLANNED, grace=10, asked_by="cli")
SIGNAL = Ending(Cause.SIGNAL, grace=10)
RESTART = Ending(Cause.RESTART, grace=30, asked_by="chat")
HANDED_OVER = Ending(Cause.HANDED_OVER, grace=30)
REFUSED = Ending(Cause.NOTHING_SERVES, grace=30)


@pytest.mark.parametrize(
    ("ending", "under", "told", "reason", "left", "leaves"),
    [
        (STOP, Supervisor.NONE, "shutting down", "shutdown_timeout", "stopped", Exit.OK),
        (STOP, Supervisor.SYSTEMD, "shutting down", "shutdown_timeout", "stopped", Exit.OK),
        (SIGNAL, Supervisor.NONE, "shutting down", "shutdown_timeout", "running", Exit.FAILURE),
        (SIGNAL, Supervisor.OTHER, "shutting down", "shutdown_timeout", "running", Exit.FAILURE),
        (RESTART, Supervisor.SYSTEMD, "restarting", "restart_timeout", "stopped", Exit.QUEUE_UNIT),
        (RESTART, Supervisor.OTHER, "restarting", "restart_timeout", "stopped", Exit.TEMPFAIL),
        (RESTART, Supervisor.NONE, "restarting", "restart_timeout", "stopped", Exit.EXEC),
        (REFUSED, Supervisor.SYSTEMD, "shutting down", "shutdown_timeout", "startup_failed", Exit.CONFIG),
    ],
)
def test_an_ending_decides_everything_together(
    ending: Ending, under: Supervisor, told: str, reason: str, left: str, leaves: Exit
) -> None:
    follows = consequences(ending, under)
    assert told in follows.told
    assert "interrupted" in follows.told
    assert ("try to resume" in follows.told) == (ending.kind == "restart")
    assert (follows.resume_reason, follows.state_left, follows.exit) == (reason, left, leaves)


@pytest.mark.parametrize("under", [Supervisor.NONE, Supervisor.SYSTEMD])
def test_a_gateway_that_hands_over_tells_nobody_and_is_wanted_afterwards(under: Supervisor) -> None:
    follows = consequences(HANDED_OVER, under)
    assert (follows.told, follows.resume_reason) == ("", "restart_timeout")
    assert (follows.state_left, follows.exit) == ("running", Exit.HAND_OVER)


@pytest.mark.parametrize(
    ("first", "then", "counts"),
    [
        (None, STOP, STOP),
        (STOP, RESTART, STOP),
        (STOP, SIGNAL, STOP),
        (SIGNAL, STOP, SIGNAL),
        (RESTART, RESTART, RESTART),
        (RESTART, STOP, STOP),
        (RESTART, SIGNAL, SIGNAL),
        (HANDED_OVER, STOP, STOP),
        (RESTART, HANDED_OVER, RESTART),
    ],
)
def test_the_first_cause_wins_but_a_stop_ends_a_restart(
    first: Ending | None, then: Ending, counts: Ending
) -> None:
    assert combined(first, then) == counts


def test_a_stop_during_a_restart_never_prolongs_the_grace() -> None:
    assert combined(Ending(Cause.RESTART, grace=3), Ending(Cause.PLANNED, grace=60)).grace == 3


@pytest.mark.parametrize(
    ("environ", "container", "found"),
    [
        ({}, False, Supervisor.NONE),
        ({"INVOCATION_ID": "abc"}, False, Supervisor.SYSTEMD),
        ({"INVOCATION_ID": "abc"}, True, Supervisor.SYSTEMD),
        ({"INVOCATION_ID": "abc", "SYSTEMD_EXEC_PID": str(os.getpid())}, False, Supervisor.SYSTEMD),
        ({"INVOCATION_ID": "of a terminal", "SYSTEMD_EXEC_PID": "1"}, False, Supervisor.NONE),
        ({"XPC_SERVICE_NAME": "application.com.example.terminal.1.2"}, False, Supervisor.NONE),
        ({"XPC_SERVICE_NAME": "0"}, False, Supervisor.NONE),
        ({"XPC_SERVICE_NAME": "ai.hermes.gateway"}, False, Supervisor.OTHER),
        ({"HERMES_S6_SUPERVISED_CHILD": "1"}, False, Supervisor.OTHER),
        ({}, True, Supervisor.OTHER),
    ],
)
def test_the_supervisor_is_found_in_the_environment(
    environ: dict[str, str], container: bool, found: Supervisor
) -> None:
    assert supervisor(environ, in_container=container) is found


async def test_an_ending_is_decided_once_and_wakes_the_waiting_tasks() -> None:
    control = Control()
    woken: list[Ending] = []

    async def wait() -> None:
        woken.append(await control.ending())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await settled()
        assert control.current is None
        assert control.ask(RESTART) is True
        assert control.ask(RESTART) is False
    assert woken == [RESTART]
    assert control.ask(STOP) is True
    assert control.current == STOP


async def test_a_follower_of_an_ending_is_told_of_the_stop_that_replaces_it() -> None:
    control = Control()
    control.ask(RESTART)
    heard: list[Ending] = []

    async def follow() -> None:
        heard.append(await control.changed(RESTART))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        await settled()
        control.ask(SIGNAL)
    assert [ending.cause for ending in heard] == [Cause.SIGNAL]
