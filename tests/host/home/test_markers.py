"""Planned stops on disk: which are read, left alone or removed; and that nothing at their path does harm."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_trio.base.errors import HomeUnusable
from hermes_trio.host.files.json_files import LARGEST, read_small, remove_if_same
from hermes_trio.host.home.markers import (
    PLANNED_STOP,
    MarkerReading,
    PlannedStop,
    consume,
    read_planned_stop,
    write_drain_request,
    write_planned_stop_marker,
)
from hermes_trio.host.processes.process_identity import find
from tests.host.home.marker_home import MarkerHome


def test_a_planned_stop_is_written_read_and_consumed(markers: MarkerHome) -> None:
    assert markers.planned_stop() == MarkerReading()
    written = write_planned_stop_marker(markers.home, markers.me.pid, markers.world, asked_by="the console")
    for _ in range(3):
        assert markers.planned_stop() == MarkerReading(written)
    assert (written.target_start_time, written.target_boot) == (markers.me.started, markers.me.boot)
    assert (written.kind, written.asked_by, written.stopper_pid) == ("stop", "the console", os.getpid())
    assert consume(markers.home, PLANNED_STOP)
    assert markers.planned_stop() == MarkerReading()
    assert not consume(markers.home, PLANNED_STOP)
    assert markers.names == []


def test_a_planned_stop_can_announce_a_restart(markers: MarkerHome) -> None:
    write_planned_stop_marker(markers.home, markers.me.pid, markers.world, kind="restart")
    marker = markers.planned_stop().marker
    assert marker is not None
    assert marker.kind == "restart"


def test_a_planned_stop_is_removed_after_a_minute(markers: MarkerHome) -> None:
    write_planned_stop_marker(markers.home, markers.me.pid, markers.world)
    markers.calendar.sleep(seconds=59)
    assert markers.planned_stop().marker is not None
    markers.calendar.sleep(seconds=1)
    assert markers.planned_stop() == MarkerReading(problem=f"{PLANNED_STOP} is too old; it was removed")
    assert markers.names == []


def test_a_planned_stop_of_another_program_needs_only_the_pid(markers: MarkerHome) -> None:
    markers.put(PLANNED_STOP, {"target_pid": markers.me.pid}, age=59)
    assert markers.planned_stop() == MarkerReading(PlannedStop(target_pid=markers.me.pid))
    markers.put(PLANNED_STOP, {"target_pid": markers.me.pid}, age=60)
    assert markers.planned_stop().marker is None


def test_unknown_fields_of_a_planned_stop_are_ignored(markers: MarkerHome) -> None:
    markers.put(PLANNED_STOP, {"target_pid": markers.me.pid, "replacer": {"hermes": [1, None]}})
    assert markers.planned_stop().marker is not None


def test_a_planned_stop_from_before_this_boot_is_removed(markers: MarkerHome) -> None:
    markers.put(PLANNED_STOP, {"target_pid": markers.me.pid}, age=30)
    found = read_planned_stop(markers.home, markers.me, markers.world, booted=markers.calendar.time - 29)
    assert found.marker is None
    assert "before the machine" in str(found.problem)
    assert markers.names == []


def test_a_planned_stop_for_another_living_process_is_left_to_it(
    markers: MarkerHome, other_process: subprocess.Popen[bytes]
) -> None:
    write_planned_stop_marker(markers.home, other_process.pid, markers.world)
    assert markers.planned_stop() == MarkerReading()
    assert markers.names == [PLANNED_STOP]
    target = find(other_process.pid)
    assert target is not None
    theirs = read_planned_stop(markers.home, target, markers.world, booted=markers.calendar.time - 1000)
    assert theirs.marker is not None


def test_a_planned_stop_for_a_process_that_has_ended_is_removed(
    markers: MarkerHome, other_process: subprocess.Popen[bytes]
) -> None:
    write_planned_stop_marker(markers.home, other_process.pid, markers.world)
    other_process.kill()
    other_process.wait()
    assert "has ended" in str(markers.planned_stop().problem)
    assert markers.names == []


def test_a_planned_stop_for_a_process_whose_pid_was_reused_is_removed(
    markers: MarkerHome, other_process: subprocess.Popen[bytes]
) -> None:
    for pid in (markers.me.pid, other_process.pid):
        markers.put(PLANNED_STOP, {"target_pid": pid, "target_start_time": 1})
        assert "has ended" in str(markers.planned_stop().problem)
        assert markers.names == []


DAMAGE = {
    "empty": b"",
    "not JSON": b"{",
    "not text": b'{"target_pid": 1, "asked_by": "\xff\xfe"}',
    "a list": b"[]",
    "null": b"null",
    "no pid": b'{"kind": "stop"}',
    "a pid in words": b'{"target_pid": "1"}',
    "true is no pid": b'{"target_pid": true}',
    "nobody has pid 0": b'{"target_pid": 0}',
    "no such kind": b'{"target_pid": 1, "kind": "takeover"}',
    "no time": b'{"target_pid": 1, "written_at": "yesterday"}',
    "endless time": b'{"target_pid": 1, "written_at": 1e999}',
    "deep": b'{"target_pid": 1, "x": ' + b"[" * 50_000,
    "huge": b'{"target_pid": 1}' + b" " * LARGEST,
}


@pytest.mark.parametrize("content", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_marker_is_reported_and_removed(markers: MarkerHome, content: bytes) -> None:
    markers.put(PLANNED_STOP, content)
    found = markers.planned_stop()
    assert found.marker is None
    assert str(found.problem).endswith("it was removed")
    assert markers.names == []
    assert markers.planned_stop() == MarkerReading()


def test_a_marker_that_is_being_written_is_left_for_a_second(markers: MarkerHome) -> None:
    """Not every program writes beside and renames: a shell empties the file first."""
    path = markers.put(PLANNED_STOP, b"", age=0.5)
    assert markers.planned_stop() == MarkerReading()
    assert path.exists()
    markers.put(PLANNED_STOP, {"target_pid": markers.me.pid}, age=0)
    assert markers.planned_stop().marker is not None


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices")
@pytest.mark.parametrize(
    "lay",
    [Path.mkdir, lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/zero")],
    ids=["directory", "pipe", "device"],
)
def test_a_marker_that_is_no_file_is_reported_and_left(
    markers: MarkerHome, lay: Callable[[Path], None]
) -> None:
    lay(markers.home / PLANNED_STOP)
    began = time.monotonic()
    for _ in range(2):
        assert markers.planned_stop() == MarkerReading(
            problem=f"{PLANNED_STOP} is not a file; it was left there"
        )
    assert time.monotonic() - began < 5  # no look waited for a writer
    assert markers.names == [PLANNED_STOP]


def test_a_home_that_is_no_directory_has_no_marker(markers: MarkerHome) -> None:
    markers.put("file", b"")
    nowhere = markers.home / "file"
    found = read_planned_stop(nowhere, markers.me, markers.world, booted=0.0)
    assert found.marker is None
    assert "cannot be read" in str(found.problem)
    assert not consume(nowhere, PLANNED_STOP)


def test_a_new_marker_is_not_removed_in_place_of_the_old_one(markers: MarkerHome) -> None:
    """The new marker is written after the old one was read and before that is removed."""
    path = markers.put(PLANNED_STOP, b"old")
    _, facts = read_small(path)
    write_planned_stop_marker(markers.home, markers.me.pid, markers.world)
    assert not remove_if_same(path, facts)
    assert markers.planned_stop().marker is not None
    assert markers.names == [PLANNED_STOP]
    consume(markers.home, PLANNED_STOP)
    assert not remove_if_same(path, facts)


def test_a_reader_never_sees_half_a_marker_while_others_write(markers: MarkerHome) -> None:
    done = threading.Event()

    def keep_writing(name: str) -> None:
        for _ in range(300):
            write_planned_stop_marker(markers.home, markers.me.pid, markers.world, asked_by=name * 500)
        done.set()

    writers = [threading.Thread(target=keep_writing, args=(name,)) for name in "ab"]
    write_planned_stop_marker(markers.home, markers.me.pid, markers.world)
    for writer in writers:
        writer.start()
    looks = 0
    while not done.is_set():
        assert markers.planned_stop().marker is not None
        looks += 1
    for writer in writers:
        writer.join()
    assert looks > 20
    assert markers.names == [PLANNED_STOP]


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_markers_are_readable_by_their_owner_alone(markers: MarkerHome) -> None:
    write_planned_stop_marker(markers.home, markers.me.pid, markers.world)
    write_drain_request(markers.home, markers.world)
    for name in markers.names:
        assert (markers.home / name).stat().st_mode & 0o777 == 0o600


def test_a_marker_that_cannot_be_written_is_an_error_with_a_remedy(markers: MarkerHome) -> None:
    with pytest.raises(HomeUnusable, match="HERMES_HOME"):
        write_planned_stop_marker(markers.home / "nowhere", markers.me.pid, markers.world)
    (markers.home / PLANNED_STOP).mkdir()
    with pytest.raises(HomeUnusable, match=PLANNED_STOP):
        write_planned_stop_marker(markers.home, markers.me.pid, markers.world)
    assert markers.names == [PLANNED_STOP]  # no partial file is left
