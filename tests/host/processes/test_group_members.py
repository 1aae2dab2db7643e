"""The members of a process group, on process tables made by hand."""

from __future__ import annotations

import os

import pytest

from hermes_trio.host.processes import sweep
from tests.host.children.kinds import soon, token
from tests.host.processes.gateways import is_gone, stranger

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


def seen(
    pid: int, parent: int = 1, session: int = 0, born: str = "5", marker: str | None = None
) -> sweep.SeenProcess:
    return sweep.SeenProcess(pid, parent, session, session, born, True, marker)


def found(group: sweep.ProcessGroup, *rows: sweep.SeenProcess) -> set[int]:
    return {one.pid for one in group.living(sweep.ProcessTable(rows))}


def test_members_are_in_the_session_or_marked_or_children_of_members() -> None:
    group = sweep.ProcessGroup("mine", 100, "5")
    rows = [
        seen(100, session=100),
        seen(101, 100, 100),
        seen(200, 1, 200, marker="mine"),
        seen(201, 200, 201),
        seen(300, 1, 300, marker="mine too"),
        seen(301, 300, 300),
    ]
    assert found(group, *rows) == {100, 101, 200, 201}


def test_a_process_with_a_reused_pid_is_no_member() -> None:
    stranger = [seen(100, session=100, born="6"), seen(101, 100, 100, born="7")]
    assert found(sweep.ProcessGroup("mine", 100, "5"), *stranger) == set()
    assert found(sweep.ProcessGroup("mine", 100, "6"), *stranger) == {100, 101}


def test_a_leader_without_a_start_time_is_ours_while_it_is_our_child() -> None:
    # A command that has just begun shows no marker yet.
    group = sweep.ProcessGroup("mine", 100, "")
    assert found(group, seen(os.getpid()), seen(100, os.getpid(), 100), seen(101, 100, 100)) == {100, 101}
    assert found(sweep.ProcessGroup("mine", 100, ""), seen(100, 1, 100)) == set()


def test_a_session_without_its_leader_is_still_ours() -> None:
    assert found(sweep.ProcessGroup("mine", 100, "5"), seen(101, 1, 100, born="7")) == {101}


def test_an_earlier_member_is_recognised_but_not_its_reused_pid() -> None:
    group = sweep.ProcessGroup("mine", 100, "5")
    assert found(group, seen(100, session=100), seen(101, 100, 101)) == {100, 101}
    assert found(group, seen(101, 1, 101)) == {101}
    assert found(group, seen(101, 1, 101, born="8")) == set()


def test_a_group_without_a_pid_is_found_by_its_marker() -> None:
    assert found(sweep.ProcessGroup("mine"), seen(7, session=0), seen(8, session=8, marker="mine")) == {8}


def test_a_gateway_below_the_group_and_the_processes_above_it_are_no_members() -> None:
    us = os.getpid()
    rows = [
        seen(100, session=100, marker="mine"),
        seen(us, 100, 100, marker="mine"),
        seen(102, us, 100, marker="mine"),
        seen(103, 100, 100, marker="mine"),
    ]
    assert found(sweep.ProcessGroup("mine", 100, "5"), *rows) == {102, 103}


def test_a_member_that_has_just_left_the_process_group_is_signalled_too() -> None:
    with stranger(token()) as leader, stranger(token()) as left:
        table = sweep.ProcessTable(
            [
                sweep.SeenProcess(leader.pid, 1, leader.pid, leader.pid, "5", True, None),
                sweep.SeenProcess(left.pid, 1, leader.pid, leader.pid, "5", True, None),
            ]
        )
        group = sweep.ProcessGroup("x", leader.pid, "5")
        group.signal(sweep.TERM, group.living(table), table)
        soon(lambda: is_gone(leader.pid) and is_gone(left.pid))
