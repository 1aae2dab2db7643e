"""Drain requests, and the markers that make the next life announce a restart."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hermes_trio.host.files.json_files import LARGEST
from hermes_trio.host.home.markers import (
    DRAIN_REQUEST,
    RESTART_NOTIFY,
    RESTART_PENDING,
    DrainRequest,
    MarkerReading,
    RestartNotify,
    RestartPending,
    consume,
    read_drain_request,
    read_restart_notify,
    read_restart_pending,
    write_drain_request,
    write_restart_notify,
    write_restart_pending,
)
from hermes_trio.host.processes.process_identity import boot_epoch
from tests.host.home.marker_home import MarkerHome


def test_a_drain_request_lasts_until_it_is_consumed(markers: MarkerHome) -> None:
    assert read_drain_request(markers.home, markers.world) == MarkerReading()
    request = write_drain_request(markers.home, markers.world, principal="kim", suppress_notification=True)
    markers.calendar.sleep(hours=23)
    assert read_drain_request(markers.home, markers.world) == MarkerReading(request)
    assert consume(markers.home, DRAIN_REQUEST)
    assert read_drain_request(markers.home, markers.world) == MarkerReading()


def test_a_forgotten_drain_request_expires_after_a_day(markers: MarkerHome) -> None:
    write_drain_request(markers.home, markers.world)
    markers.calendar.sleep(hours=24)
    found = read_drain_request(markers.home, markers.world)
    assert found == MarkerReading(problem=f"{DRAIN_REQUEST} is too old; it was removed")
    assert markers.names == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"action": "dance"}', b" " * LARGEST + b" "])
def test_a_drain_request_that_cannot_be_read_counts(markers: MarkerHome, content: bytes) -> None:
    markers.put(DRAIN_REQUEST, content)
    found = read_drain_request(markers.home, markers.world)
    assert found.marker == DrainRequest()
    assert "it counts nevertheless" in str(found.problem)
    assert markers.names == [DRAIN_REQUEST]
    markers.calendar.sleep(hours=24)
    assert read_drain_request(markers.home, markers.world).marker is None
    assert markers.names == []


def test_a_directory_in_place_of_a_drain_request_counts(markers: MarkerHome) -> None:
    (markers.home / DRAIN_REQUEST).mkdir()
    assert read_drain_request(markers.home, markers.world).marker == DrainRequest()


def test_a_drain_request_of_an_earlier_boot_is_removed(markers: MarkerHome) -> None:
    markers.put(DRAIN_REQUEST, {"action": "drain", "epoch": "another"})
    found = read_drain_request(markers.home, markers.world)
    assert found.marker is None
    assert markers.names == []


@pytest.mark.skipif(not boot_epoch(), reason="this system does not show its boot")
def test_only_a_drain_request_of_this_boot_may_suppress_notifications(markers: MarkerHome) -> None:
    for epoch, silent in ((boot_epoch(), True), ("", False)):
        markers.put(DRAIN_REQUEST, {"action": "drain", "epoch": epoch, "suppress_notification": True})
        marker = read_drain_request(markers.home, markers.world).marker
        assert marker is not None
        assert marker.suppress_notification is silent


def test_a_request_to_tell_a_chat_lasts_until_it_is_consumed(markers: MarkerHome) -> None:
    notify = RestartNotify(platform="telegram", chat_id="42", thread_id="7", message_id="99")
    write_restart_notify(markers.home, notify, markers.world)
    markers.calendar.sleep(minutes=59)  # the platform was away
    marker = read_restart_notify(markers.home, markers.world).marker
    assert marker is not None
    assert (marker.platform, marker.chat_id, marker.chat_type) == ("telegram", "42", "dm")
    assert (marker.thread_id, marker.message_id) == ("7", "99")
    assert consume(markers.home, RESTART_NOTIFY)
    assert read_restart_notify(markers.home, markers.world) == MarkerReading()


def test_restart_markers_are_removed_after_an_hour(markers: MarkerHome) -> None:
    write_restart_notify(markers.home, RestartNotify(platform="telegram", chat_id="42"), markers.world)
    write_restart_pending(markers.home, markers.world, asked_by="kim")
    markers.calendar.sleep(minutes=60)
    assert read_restart_notify(markers.home, markers.world).marker is None
    assert read_restart_pending(markers.home, markers.world).marker is None
    assert markers.names == []


def test_a_request_to_tell_the_home_chats_lasts_until_it_is_consumed(markers: MarkerHome) -> None:
    write_restart_pending(markers.home, markers.world, asked_by="kim")
    for _ in range(2):
        marker = read_restart_pending(markers.home, markers.world).marker
        assert marker == RestartPending(requested_at=markers.world.now(), asked_by="kim")
    assert consume(markers.home, RESTART_PENDING)
    assert read_restart_pending(markers.home, markers.world) == MarkerReading()


def test_markers_of_the_original_are_understood(markers: MarkerHome) -> None:
    markers.put(
        RESTART_PENDING, {"requested_at": markers.calendar.time - 5, "via_service": True, "detached": False}
    )
    markers.put(RESTART_NOTIFY, {"platform": "telegram", "chat_id": "42", "chat_type": "dm"})
    asked = (markers.world.now() - timedelta(seconds=5)).isoformat()
    markers.put(DRAIN_REQUEST, {"action": "drain", "requested_at": asked, "principal": "kim", "epoch": ""})
    assert read_restart_pending(markers.home, markers.world).marker is not None
    assert read_restart_notify(markers.home, markers.world).marker is not None
    assert read_drain_request(markers.home, markers.world).problem is None
