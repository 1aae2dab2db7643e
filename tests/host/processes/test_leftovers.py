"""Process groups of a gateway that was killed together with its guard."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from hermes_trio.host.processes.leftovers import Leftover, end_leftovers
from hermes_trio.host.processes.lookout import Lookout
from hermes_trio.host.processes.process_groups import (
    Patience,
)
from hermes_trio.host.processes.process_identity import boot_time
from hermes_trio.host.processes.sweep import THIS_SYSTEM
from tests.host.children.kinds import KINDS, MORE, token
from tests.host.processes.gateways import Gateway, Row, gateway, is_gone, stranger
from tests.host.processes.systems import PowerlessSystem

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


@contextmanager
def dead_with_its_guard(directory: Path, *commands: str) -> Iterator[Gateway]:
    with gateway(directory, "wait", *commands) as it:
        it.signal(signal.SIGSTOP)  # else it would start another guard
        os.kill(it.guard, signal.SIGKILL)
        it.die()
        yield it


async def swept(*rows: Row) -> list[Leftover]:
    return await end_leftovers(rows, Lookout().look, trio.Event())


async def test_leftovers_are_found_and_ended(tmp_path: Path) -> None:
    commands = [KINDS["a tree"], MORE["ends before its children"], MORE["sets its session and orphans"]]
    with dead_with_its_guard(tmp_path, *commands) as it:
        before = set(it.commands())
        assert len(before) > 5
        leftovers = await swept(*it.rows)
        assert it.commands() == []
    assert {leftover.process_id for leftover in leftovers} == {row.process_id for row in it.rows}
    assert {pid for leftover in leftovers for pid in leftover.pids} >= before
    assert all(leftover.ended for leftover in leftovers)
    assert await swept(*it.rows) == []
    assert await swept() == []


async def test_a_leader_without_its_marker_is_known_by_pid_and_start_time(tmp_path: Path) -> None:
    with stranger(token()) as process:
        born = float(THIS_SYSTEM.born(process.pid) or 0)
        wrong = [
            Row("x", process.pid, born + 1),
            Row("x", process.pid, born - 1),
            Row("x", process.pid, born, started_at=boot_time() - 60),
        ]
        assert await swept(*wrong) == []
        assert not is_gone(process.pid)
        (leftover,) = await swept(Row("x", process.pid, born))
        assert leftover == Leftover("x", (process.pid,), True)
        assert is_gone(process.pid)


async def test_a_leftover_that_cannot_be_ended_is_reported() -> None:
    with stranger(token()) as process:
        row = Row("x", process.pid, float(THIS_SYSTEM.born(process.pid) or 0))
        (leftover,) = await end_leftovers(
            [row], Lookout().look, trio.Event(), patience=Patience(0.1, 0.1), system=PowerlessSystem()
        )
        assert not leftover.ended
