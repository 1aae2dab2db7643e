"""The rules by which a marker counts, is left alone or is removed."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from hermes_trio.host.home.markers import (
    DRAIN_AGE,
    RESTART_AGE,
    DrainRequest,
    MarkerVerdict,
    Moment,
    PlannedStop,
    judge_drain,
    judge_planned_stop,
    judge_restart,
)
from hermes_trio.host.processes.process_identity import ProcessId

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
def test_a_planned_stop_counts_for_its_process_in_its_time(stop: PlannedStop, verdict: MarkerVerdict) -> None:
    judged = judge_planned_stop(stop, ME, file_time=NOW + 99, now=NOW, booted=BOOTED, target_lives=True)
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
    for stop, file_time in (
        (for_me(written_at=NOW - age), NOW + 99),
        (for_me(written_at=None), NOW - age),  # the time of the file counts instead
    ):
        judged = judge_planned_stop(stop, ME, file_time=file_time, now=NOW, booted=0.0, target_lives=True)
        assert judged is verdict


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="the time zone of a process cannot be set here")
def test_a_time_without_a_zone_is_utc_in_every_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = for_me(written_at=at(-1).replace(tzinfo=None))
    with monkeypatch.context() as in_tokyo:
        in_tokyo.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        judged = judge_planned_stop(stop, ME, file_time=0, now=NOW, booted=BOOTED, target_lives=True)
    time.tzset()
    assert judged is MarkerVerdict.COUNTS


def test_a_planned_stop_for_a_process_that_has_ended_does_not_count() -> None:
    stop = for_me(target_pid=813)
    judged = judge_planned_stop(stop, ME, file_time=NOW, now=NOW, booted=BOOTED, target_lives=False)
    assert judged is MarkerVerdict.ENDED


def test_an_unknown_boot_does_not_invalidate_a_planned_stop() -> None:
    me = replace(ME, boot="")
    judged = judge_planned_stop(for_me(), me, file_time=NOW, now=NOW, booted=BOOTED, target_lives=True)
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
def test_a_drain_request_counts_for_a_day_of_its_boot(
    requested: Moment, file_age: float, epoch: str, verdict: MarkerVerdict
) -> None:
    request = DrainRequest(requested_at=requested, epoch=epoch)
    assert judge_drain(request, file_time=NOW - file_age, now=NOW, epoch="here") is verdict
    elsewhere = MarkerVerdict.COUNTS if verdict is MarkerVerdict.BEFORE_BOOT else verdict
    assert judge_drain(request, file_time=NOW - file_age, now=NOW, epoch="") is elsewhere


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
def test_a_restart_marker_counts_for_an_hour(age: float, verdict: MarkerVerdict) -> None:
    assert judge_restart(NOW - age, file_time=0.0, now=NOW) is verdict
    assert judge_restart(None, file_time=NOW - age, now=NOW) is verdict
