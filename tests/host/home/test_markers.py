"""Marker files: which count, which are left alone, which are removed; and that nothing that lies in their
place can do harm."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes_trio.base.errors import HomeUnusable
from hermes_trio.base.world import World
from hermes_trio.host.files.json_files import LARGEST, read_small, remove_if_same, write_small
from hermes_trio.host.home.markers import (
    DRAIN_AGE,
    DRAIN_REQUEST,
    PLANNED_STOP,
    RESTART_AGE,
    RESTART_NOTIFY,
    RESTART_PENDING,
    DrainRequest,
    MarkerReading,
    MarkerVerdict,
    Moment,
    PlannedStop,
    RestartNotify,
    RestartPending,
    consume,
    judge_drain,
    judge_planned_stop,
    judge_restart,
    read_drain_request,
    read_planned_stop,
    read_restart_notify,
    read_restart_pending,
    write_drain_request,
    write_planned_stop_marker,
    write_restart_notify,
    write_restart_pending,
)
from hermes_trio.host.processes.process_identity import ProcessId, boot_epoch, find, own
from tests.conftest import Calendar

ME = ProcessId(812, 4711.0, "boot-2")
NOW = 1_800_000_000.0
BOOTED = NOW - 30.0


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(NOW + seconds, UTC)


def for_me(**changes: Any) -> PlannedStop:
    return msgspec.structs.replace(
        PlannedStop(target_pid=812, target_start_time=4711.0, target_boot="boot-2", written_at=at(-1)),
        **changes,
    )


@pytest.mark.parametrize(
    ("stop", "verdict"),
    [
        (for_me(), MarkerVerdict.COUNTS),
        (for_me(kind="restart"), MarkerVerdict.COUNTS),
        (for_me(target_start_time=None, target_boot="", stopper_pid=None), MarkerVerdict.COUNTS),
        (for_me(written_at=at(0)), MarkerVerdict.COUNTS),
        (for_me(written_at=at(5)), MarkerVerdict.COUNTS),
        (for_me(written_at=at(5.001)), MarkerVerdict.FUTURE),
        (for_me(written_at=at(-30)), MarkerVerdict.COUNTS),
        (for_me(written_at=at(-30.001)), MarkerVerdict.BEFORE_BOOT),
        (for_me(target_boot="boot-1"), MarkerVerdict.BEFORE_BOOT),
        (for_me(target_start_time=4710.0), MarkerVerdict.ENDED),
        (for_me(target_pid=813), MarkerVerdict.FOREIGN),
        (for_me(target_pid=813, target_start_time=None), MarkerVerdict.FOREIGN),
        (for_me(target_pid=813, written_at=at(6)), MarkerVerdict.FUTURE),
        (for_me(written_at=NOW - 1), MarkerVerdict.COUNTS),
        (for_me(written_at=NOW + 6), MarkerVerdict.FUTURE),
        (for_me(written_at=at(-1).replace(tzinfo=None)), MarkerVerdict.COUNTS),
        (for_me(written_at=at(-1).astimezone(None)), MarkerVerdict.COUNTS),
        (for_me(written_at=1e300), MarkerVerdict.FUTURE),
        (for_me(written_at=-1e300), MarkerVerdict.BEFORE_BOOT),
    ],
)
def test_planned_stop(stop: PlannedStop, verdict: MarkerVerdict) -> None:
    judged = judge_planned_stop(stop, ME, lies_since=NOW + 99, now=NOW, booted=BOOTED, target_lives=True)
    assert judged is verdict


@pytest.mark.parametrize(
    ("age", "verdict"),
    [
        (59.999, MarkerVerdict.COUNTS),
        (60, MarkerVerdict.OLD),
        (1e9, MarkerVerdict.OLD),
        (-6, MarkerVerdict.FUTURE),
    ],
)
def test_a_planned_stop_counts_for_less_than_a_minute(age: float, verdict: MarkerVerdict) -> None:
    for stop, lies_since in (
        (for_me(written_at=NOW - age), NOW + 99),
        (for_me(written_at=None), NOW - age),  # then the file's own time counts
    ):
        judged = judge_planned_stop(stop, ME, lies_since=lies_since, now=NOW, booted=0.0, target_lives=True)
        assert judged is verdict


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the zone of a process cannot be set here")
def test_a_time_without_a_zone_is_utc_wherever_we_are(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = for_me(written_at=at(-1).replace(tzinfo=None))
    with monkeypatch.context() as in_tokyo:
        in_tokyo.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        judged = judge_planned_stop(stop, ME, lies_since=0, now=NOW, booted=BOOTED, target_lives=True)
    time.tzset()
    assert judged is MarkerVerdict.COUNTS


def test_a_planned_stop_for_somebody_who_has_ended_is_nobodys() -> None:
    stop = for_me(target_pid=813)
    judged = judge_planned_stop(stop, ME, lies_since=NOW, now=NOW, booted=BOOTED, target_lives=False)
    assert judged is MarkerVerdict.ENDED


def test_where_boots_are_not_known_they_make_no_difference() -> None:
    me = replace(ME, boot="")
    judged = judge_planned_stop(for_me(), me, lies_since=NOW, now=NOW, booted=BOOTED, target_lives=True)
    assert judged is MarkerVerdict.COUNTS


@pytest.mark.parametrize(
    ("requested", "file_age", "epoch", "verdict"),
    [
        (at(-60), 60, "here", MarkerVerdict.COUNTS),
        (at(-60), 60, "before", MarkerVerdict.BEFORE_BOOT),
        (at(-60), 60, "", MarkerVerdict.COUNTS),
        (at(-DRAIN_AGE + 1), 0, "here", MarkerVerdict.COUNTS),
        (at(-DRAIN_AGE), 0, "here", MarkerVerdict.OLD),
        (None, DRAIN_AGE - 1, "here", MarkerVerdict.COUNTS),
        (None, DRAIN_AGE, "here", MarkerVerdict.OLD),
        (at(1e9), 60, "here", MarkerVerdict.COUNTS),
        (at(1e9), DRAIN_AGE, "here", MarkerVerdict.OLD),
    ],
)
def test_drain(requested: Moment, file_age: float, epoch: str, verdict: MarkerVerdict) -> None:
    request = DrainRequest(requested_at=requested, epoch=epoch)
    assert judge_drain(request, lies_since=NOW - file_age, now=NOW, epoch="here") is verdict
    elsewhere = MarkerVerdict.COUNTS if verdict is MarkerVerdict.BEFORE_BOOT else verdict
    assert judge_drain(request, lies_since=NOW - file_age, now=NOW, epoch="") is elsewhere


@pytest.mark.parametrize(
    ("age", "verdict"),
    [
        (0, MarkerVerdict.COUNTS),
        (RESTART_AGE - 1, MarkerVerdict.COUNTS),
        (RESTART_AGE, MarkerVerdict.OLD),
        (1 - RESTART_AGE, MarkerVerdict.COUNTS),
        (-RESTART_AGE, MarkerVerdict.OLD),
    ],
)
def test_restart(age: float, verdict: MarkerVerdict) -> None:
    assert judge_restart(NOW - age, lies_since=0.0, now=NOW) is verdict
    assert judge_restart(None, lies_since=NOW - age, now=NOW) is verdict


class Desk:
    """A home without a gateway, on which markers lie."""

    def __init__(self, home: Path, calendar: Calendar, world: World) -> None:
        self.home, self.calendar, self.world, self.me = home, calendar, world, own()

    def lay(self, name: str, content: bytes | str | dict[str, Any], *, age: float = 10.0) -> Path:
        """Put a file there that is so old."""
        if isinstance(content, dict):
            content = json.dumps(content)
        path = self.home / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        os.utime(path, (self.calendar.time - age,) * 2)
        return path

    def planned_stop(self) -> MarkerReading[PlannedStop]:
        return read_planned_stop(self.home, self.me, self.world, booted=self.calendar.time - 1000)

    @property
    def names(self) -> list[str]:
        return sorted(os.listdir(self.home))


@pytest.fixture
def desk(tmp_path: Path, calendar: Calendar, world: World) -> Desk:
    return Desk(tmp_path, calendar, world)


@pytest.fixture
def somebody_else() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_stop_is_announced_read_and_consumed(desk: Desk) -> None:
    assert desk.planned_stop() == MarkerReading()
    written = write_planned_stop_marker(desk.home, desk.me.pid, desk.world, asked_by="the console")
    for _ in range(3):
        assert desk.planned_stop() == MarkerReading(written)
    assert (written.target_start_time, written.target_boot) == (desk.me.started, desk.me.boot)
    assert (written.kind, written.asked_by, written.stopper_pid) == ("stop", "the console", os.getpid())
    assert consume(desk.home, PLANNED_STOP)
    assert desk.planned_stop() == MarkerReading()
    assert not consume(desk.home, PLANNED_STOP)
    assert desk.names == []


def test_the_service_manager_announces_a_restart(desk: Desk) -> None:
    write_planned_stop_marker(desk.home, desk.me.pid, desk.world, kind="restart")
    marker = desk.planned_stop().marker
    assert marker is not None
    assert marker.kind == "restart"


def test_an_announced_stop_is_over_after_a_minute(desk: Desk) -> None:
    write_planned_stop_marker(desk.home, desk.me.pid, desk.world)
    desk.calendar.sleep(seconds=59)
    assert desk.planned_stop().marker is not None
    desk.calendar.sleep(seconds=1)
    assert desk.planned_stop() == MarkerReading(problem=f"{PLANNED_STOP} is too old; it was removed")
    assert desk.names == []


def test_the_least_that_another_program_must_write(desk: Desk) -> None:
    desk.lay(PLANNED_STOP, {"target_pid": desk.me.pid}, age=59)
    assert desk.planned_stop() == MarkerReading(PlannedStop(target_pid=desk.me.pid))
    desk.lay(PLANNED_STOP, {"target_pid": desk.me.pid}, age=60)
    assert desk.planned_stop().marker is None


def test_what_it_writes_besides_does_not_matter(desk: Desk) -> None:
    desk.lay(PLANNED_STOP, {"target_pid": desk.me.pid, "replacer": {"hermes": [1, None]}})
    assert desk.planned_stop().marker is not None


def test_a_stop_from_before_this_boot_is_removed(desk: Desk) -> None:
    desk.lay(PLANNED_STOP, {"target_pid": desk.me.pid}, age=30)
    found = read_planned_stop(desk.home, desk.me, desk.world, booted=desk.calendar.time - 29)
    assert found.marker is None
    assert "before the machine" in str(found.problem)
    assert desk.names == []


def test_a_stop_for_another_living_process_is_left_to_it(
    desk: Desk, somebody_else: subprocess.Popen[bytes]
) -> None:
    write_planned_stop_marker(desk.home, somebody_else.pid, desk.world)
    assert desk.planned_stop() == MarkerReading()
    assert desk.names == [PLANNED_STOP]
    target = find(somebody_else.pid)
    assert target is not None
    theirs = read_planned_stop(desk.home, target, desk.world, booted=desk.calendar.time - 1000)
    assert theirs.marker is not None


def test_a_stop_for_a_process_that_has_ended_is_removed(
    desk: Desk, somebody_else: subprocess.Popen[bytes]
) -> None:
    write_planned_stop_marker(desk.home, somebody_else.pid, desk.world)
    somebody_else.kill()
    somebody_else.wait()
    assert "has ended" in str(desk.planned_stop().problem)
    assert desk.names == []


def test_a_stop_for_somebody_whose_pid_went_on_to_another_is_removed(
    desk: Desk, somebody_else: subprocess.Popen[bytes]
) -> None:
    for pid in (desk.me.pid, somebody_else.pid):
        desk.lay(PLANNED_STOP, {"target_pid": pid, "target_start_time": 1})
        assert "has ended" in str(desk.planned_stop().problem)
        assert desk.names == []


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
def test_a_damaged_marker_is_reported_and_removed(desk: Desk, content: bytes) -> None:
    desk.lay(PLANNED_STOP, content)
    found = desk.planned_stop()
    assert found.marker is None
    assert str(found.problem).endswith("it was removed")
    assert desk.names == []
    assert desk.planned_stop() == MarkerReading()


def test_a_marker_that_is_just_being_written_gets_its_time(desk: Desk) -> None:
    """Not everybody renames: a shell empties the file first."""
    path = desk.lay(PLANNED_STOP, b"", age=0.5)
    assert desk.planned_stop() == MarkerReading()
    assert path.exists()
    desk.lay(PLANNED_STOP, {"target_pid": desk.me.pid}, age=0)
    assert desk.planned_stop().marker is not None


@pytest.mark.skipif(os.name != "posix", reason="pipes and devices")
@pytest.mark.parametrize(
    "lay",
    [Path.mkdir, lambda path: os.mkfifo(path), lambda path: path.symlink_to("/dev/zero")],
    ids=["directory", "pipe", "device"],
)
def test_what_is_no_file_is_reported_and_left(desk: Desk, lay: Callable[[Path], None]) -> None:
    lay(desk.home / PLANNED_STOP)
    began = time.monotonic()
    for _ in range(2):
        assert desk.planned_stop() == MarkerReading(
            problem=f"{PLANNED_STOP} is not a file; it was left there"
        )
    assert time.monotonic() - began < 5  # nobody was waited for
    assert desk.names == [PLANNED_STOP]


def test_where_nothing_can_be_nothing_is_found(desk: Desk) -> None:
    desk.lay("file", b"")
    nowhere = desk.home / "file"
    found = read_planned_stop(nowhere, desk.me, desk.world, booted=0.0)
    assert found.marker is None
    assert "cannot be read" in str(found.problem)
    assert not consume(nowhere, PLANNED_STOP)


def test_a_fresh_marker_is_not_removed_in_place_of_the_old_one(desk: Desk) -> None:
    """It is put there after the old one was read, and before that was removed."""
    path = desk.lay(PLANNED_STOP, b"old")
    _, facts = read_small(path)
    write_planned_stop_marker(desk.home, desk.me.pid, desk.world)
    assert not remove_if_same(path, facts)
    assert desk.planned_stop().marker is not None
    assert desk.names == [PLANNED_STOP]
    consume(desk.home, PLANNED_STOP)
    assert not remove_if_same(path, facts)


def test_who_reads_while_others_write_never_sees_half_a_marker(desk: Desk) -> None:
    done = threading.Event()

    def keep_writing(name: str) -> None:
        for _ in range(300):
            write_planned_stop_marker(desk.home, desk.me.pid, desk.world, asked_by=name * 500)
        done.set()

    writers = [threading.Thread(target=keep_writing, args=(name,)) for name in "ab"]
    write_planned_stop_marker(desk.home, desk.me.pid, desk.world)
    for writer in writers:
        writer.start()
    looks = 0
    while not done.is_set():
        assert desk.planned_stop().marker is not None
        looks += 1
    for writer in writers:
        writer.join()
    assert looks > 20
    assert desk.names == [PLANNED_STOP]


@pytest.mark.skipif(os.name != "posix", reason="modes")
def test_markers_are_for_their_owner_alone(desk: Desk) -> None:
    write_planned_stop_marker(desk.home, desk.me.pid, desk.world)
    write_drain_request(desk.home, desk.world)
    for name in desk.names:
        assert (desk.home / name).stat().st_mode & 0o777 == 0o600


def test_a_marker_that_cannot_be_written_is_an_error_with_a_remedy(desk: Desk) -> None:
    with pytest.raises(HomeUnusable, match="HERMES_HOME"):
        write_planned_stop_marker(desk.home / "nowhere", desk.me.pid, desk.world)
    (desk.home / PLANNED_STOP).mkdir()
    with pytest.raises(HomeUnusable, match=PLANNED_STOP):
        write_planned_stop_marker(desk.home, desk.me.pid, desk.world)
    assert desk.names == [PLANNED_STOP]  # no half of it stays


def test_a_drain_lasts_until_it_is_taken_back(desk: Desk) -> None:
    assert read_drain_request(desk.home, desk.world) == MarkerReading()
    request = write_drain_request(desk.home, desk.world, principal="kim", suppress_notification=True)
    desk.calendar.sleep(hours=23)
    assert read_drain_request(desk.home, desk.world) == MarkerReading(request)
    assert consume(desk.home, DRAIN_REQUEST)
    assert read_drain_request(desk.home, desk.world) == MarkerReading()


def test_a_forgotten_drain_ends_by_itself(desk: Desk) -> None:
    write_drain_request(desk.home, desk.world)
    desk.calendar.sleep(hours=24)
    found = read_drain_request(desk.home, desk.world)
    assert found == MarkerReading(problem=f"{DRAIN_REQUEST} is too old; it was removed")
    assert desk.names == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"action": "dance"}', b" " * LARGEST + b" "])
def test_a_drain_that_cannot_be_read_is_a_drain(desk: Desk, content: bytes) -> None:
    desk.lay(DRAIN_REQUEST, content)
    found = read_drain_request(desk.home, desk.world)
    assert found.marker == DrainRequest()
    assert "it counts nevertheless" in str(found.problem)
    assert desk.names == [DRAIN_REQUEST]
    desk.calendar.sleep(hours=24)
    assert read_drain_request(desk.home, desk.world).marker is None
    assert desk.names == []


def test_so_is_a_directory_in_its_place(desk: Desk) -> None:
    (desk.home / DRAIN_REQUEST).mkdir()
    assert read_drain_request(desk.home, desk.world).marker == DrainRequest()


def test_a_drain_of_an_earlier_boot_is_over(desk: Desk) -> None:
    desk.lay(DRAIN_REQUEST, {"action": "drain", "epoch": "another"})
    found = read_drain_request(desk.home, desk.world)
    assert found.marker is None
    assert desk.names == []


@pytest.mark.skipif(not boot_epoch(), reason="this system does not tell its epoch")
def test_only_a_drain_of_surely_now_may_keep_people_uninformed(desk: Desk) -> None:
    for epoch, silent in ((boot_epoch(), True), ("", False)):
        desk.lay(DRAIN_REQUEST, {"action": "drain", "epoch": epoch, "suppress_notification": True})
        marker = read_drain_request(desk.home, desk.world).marker
        assert marker is not None
        assert marker.suppress_notification is silent


def test_who_asked_for_a_restart_is_told_once_it_can_be_done(desk: Desk) -> None:
    notify = RestartNotify(platform="telegram", chat_id="42", thread_id="7", message_id="99")
    write_restart_notify(desk.home, notify, desk.world)
    desk.calendar.sleep(minutes=59)  # the platform was away
    marker = read_restart_notify(desk.home, desk.world).marker
    assert marker is not None
    assert (marker.platform, marker.chat_id, marker.chat_type) == ("telegram", "42", "dm")
    assert (marker.thread_id, marker.message_id) == ("7", "99")
    assert consume(desk.home, RESTART_NOTIFY)
    assert read_restart_notify(desk.home, desk.world) == MarkerReading()


def test_after_an_hour_nobody_wants_to_hear_of_it(desk: Desk) -> None:
    write_restart_notify(desk.home, RestartNotify(platform="telegram", chat_id="42"), desk.world)
    write_restart_pending(desk.home, desk.world, asked_by="kim")
    desk.calendar.sleep(minutes=60)
    assert read_restart_notify(desk.home, desk.world).marker is None
    assert read_restart_pending(desk.home, desk.world).marker is None
    assert desk.names == []


def test_home_chats_are_told_until_the_marker_is_consumed(desk: Desk) -> None:
    write_restart_pending(desk.home, desk.world, asked_by="kim")
    for _ in range(2):
        marker = read_restart_pending(desk.home, desk.world).marker
        assert marker == RestartPending(requested_at=desk.world.now(), asked_by="kim")
    assert consume(desk.home, RESTART_PENDING)
    assert read_restart_pending(desk.home, desk.world) == MarkerReading()


def test_markers_of_the_original_are_understood(desk: Desk) -> None:
    desk.lay(
        RESTART_PENDING, {"requested_at": desk.calendar.time - 5, "via_service": True, "detached": False}
    )
    desk.lay(RESTART_NOTIFY, {"platform": "telegram", "chat_id": "42", "chat_type": "dm"})
    asked = (desk.world.now() - timedelta(seconds=5)).isoformat()
    desk.lay(DRAIN_REQUEST, {"action": "drain", "requested_at": asked, "principal": "kim", "epoch": ""})
    assert read_restart_pending(desk.home, desk.world).marker is not None
    assert read_restart_notify(desk.home, desk.world).marker is not None
    assert read_drain_request(desk.home, desk.world).problem is None


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_small(path, b"a" * 10_000)
    write_small(path, b"b")
    assert read_small(path)[0] == b"b"
