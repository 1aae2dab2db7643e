"""Marker files: small JSON files below the home that one process leaves for another.

A marker names its author, the process it is for and its time, and it expires: a marker for a life that is
over must not act on the next one. Pure functions decide whether a marker counts, from its content, its time
and the current time.

A reader gets a `MarkerReading`, never an exception: the path may hold a half-written file, another shape, a
huge file, a directory or a pipe. A marker that counts stays in place until it is consumed, and a marker for
another living process is left to it; a marker that can never count again is removed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

import msgspec

from ...base.errors import home_error
from ...base.world import World
from ..files.json_files import UnreadableFile, read_small, remove_if_same, write_small
from ..processes.process_identity import ProcessId, boot_epoch, find, may_be_one_boot

PLANNED_STOP = ".gateway-planned-stop.json"
DRAIN_REQUEST = ".drain_request.json"
RESTART_PENDING = ".restart_pending.json"
RESTART_NOTIFY = ".restart_notify.json"

PLANNED_STOP_AGE = 60.0
RESTART_AGE = 3600.0
DRAIN_AGE = 24 * 3600.0
"""A forgotten drain request expires."""
FUTURE = 5.0
"""Allowed difference of clocks: a network disk has its own clock."""
SETTLED = 1.0
"""Time that a writer may need that does not write beside and rename."""

Moment: TypeAlias = datetime | float | None
Kind = Literal["stop", "restart"]
Marker = TypeVar("Marker", bound=msgspec.Struct)
Pid = Annotated[int, msgspec.Meta(ge=1)]


class PlannedStop(msgspec.Struct, frozen=True, kw_only=True):
    """Announces that the next signal to a process is intended, and its purpose."""

    target_pid: Pid
    target_start_time: float | None = None
    target_boot: str = ""
    written_at: Moment = None
    stopper_pid: int | None = None
    kind: Kind = "stop"
    asked_by: str | None = None


class DrainRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the gateway to begin no new turns while this file exists."""

    action: Literal["drain"] = "drain"
    requested_at: Moment = None
    principal: str | None = None
    epoch: str = ""
    suppress_notification: bool = False


class RestartPending(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the next life to tell the home chats that it is back."""

    requested_at: Moment = None
    asked_by: str | None = None


class RestartNotify(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the next life to tell the chat that requested the restart."""

    platform: str
    chat_id: str
    account: str = "main"
    chat_type: str = "dm"
    thread_id: str | None = None
    message_id: str | None = None
    requested_at: Moment = None


@dataclass(frozen=True, slots=True)
class MarkerReading(Generic[Marker]):
    """The result of reading a marker file."""

    marker: Marker | None = None
    """The marker, if it counts; its file is still in place."""
    problem: str | None = None
    """For people: why a file was ignored or removed, or is not as it should be."""


class MarkerVerdict(Enum):
    """The meaning of a marker for the process that reads it."""

    COUNTS = "counts"
    FOREIGN = "is for another process"
    ENDED = "is for a process that has ended"
    OLD = "is too old"
    FUTURE = "is from the future"
    BEFORE_BOOT = "is from before the machine or the container started"


def judge_planned_stop(
    stop: PlannedStop, me: ProcessId, *, file_time: float, now: float, booted: float, target_lives: bool
) -> MarkerVerdict:
    """Decide whether a planned stop counts for `me`. All times are seconds since 1970."""
    written = to_seconds(stop.written_at, file_time)
    if written < booted or not may_be_one_boot(stop.target_boot, me.boot):
        return MarkerVerdict.BEFORE_BOOT
    if now - written >= PLANNED_STOP_AGE:
        return MarkerVerdict.OLD
    if written - now > FUTURE:
        return MarkerVerdict.FUTURE
    if stop.target_pid != me.pid:
        return MarkerVerdict.FOREIGN if target_lives else MarkerVerdict.ENDED
    # Our pid with another start time: it was for a process that had our pid before us.
    return MarkerVerdict.COUNTS if stop.target_start_time in (None, me.started) else MarkerVerdict.ENDED


def judge_drain(request: DrainRequest, *, file_time: float, now: float, epoch: str) -> MarkerVerdict:
    """Decide whether a drain request is in force now."""
    if not may_be_one_boot(request.epoch, epoch):
        return MarkerVerdict.BEFORE_BOOT
    # The older of the two times, so that a wrong clock cannot make the request last for ever.
    asked = min(to_seconds(request.requested_at, file_time), file_time)
    return MarkerVerdict.OLD if now - asked >= DRAIN_AGE else MarkerVerdict.COUNTS


def judge_restart(requested: Moment, *, file_time: float, now: float) -> MarkerVerdict:
    """Decide whether the restart is still to be announced. It is also after the clock went back: a machine
    may get its time only after we started."""
    distance = abs(now - to_seconds(requested, file_time))
    return MarkerVerdict.OLD if distance >= RESTART_AGE else MarkerVerdict.COUNTS


def write_planned_stop_marker(
    home: Path, target_pid: int, world: World, *, kind: Kind = "stop", asked_by: str | None = None
) -> PlannedStop:
    """Announce to the gateway that the next signal is intended. Raises `HomeError`."""
    target = find(target_pid)
    stop = PlannedStop(
        target_pid=target_pid,
        target_start_time=target.started if target else None,
        target_boot=target.boot if target else "",
        written_at=world.now(),
        stopper_pid=os.getpid(),
        kind=kind,
        asked_by=asked_by,
    )
    _write(home, PLANNED_STOP, stop)
    return stop


def read_planned_stop(
    home: Path, me: ProcessId, world: World, *, booted: float
) -> MarkerReading[PlannedStop]:
    """Read the planned stop for this process. One for another living process is left to it."""

    def judge(stop: PlannedStop, file_time: float) -> MarkerVerdict:
        target = find(stop.target_pid)
        lives = target is not None and stop.target_start_time in (None, target.started)
        return judge_planned_stop(
            stop, me, file_time=file_time, now=world.time(), booted=booted, target_lives=lives
        )

    return _read(home / PLANNED_STOP, PlannedStop, judge, world)


def write_drain_request(
    home: Path, world: World, *, principal: str | None = None, suppress_notification: bool = False
) -> DrainRequest:
    """Ask the gateway to take no new turns until the request is consumed. Raises `HomeError`."""
    request = DrainRequest(
        requested_at=world.now(),
        principal=principal,
        epoch=boot_epoch(),
        suppress_notification=suppress_notification,
    )
    _write(home, DRAIN_REQUEST, request)
    return request


def read_drain_request(home: Path, world: World) -> MarkerReading[DrainRequest]:
    """Read the drain request in force. A file that cannot be read counts as one: it is safer to begin no
    turn."""
    epoch = boot_epoch()

    def judge(request: DrainRequest, file_time: float) -> MarkerVerdict:
        return judge_drain(request, file_time=file_time, now=world.time(), epoch=epoch)

    found = _read(home / DRAIN_REQUEST, DrainRequest, judge, world, unread=DrainRequest())
    if found.marker is None or (epoch and found.marker.epoch == epoch):
        return found
    # Only a request that is certainly from this boot may suppress notifications to people.
    return MarkerReading(msgspec.structs.replace(found.marker, suppress_notification=False), found.problem)


def write_restart_pending(home: Path, world: World, *, asked_by: str | None = None) -> None:
    """Ask the next life to tell the home chats that it is back. Raises `HomeError`."""
    _write(home, RESTART_PENDING, RestartPending(requested_at=world.now(), asked_by=asked_by))


def read_restart_pending(home: Path, world: World) -> MarkerReading[RestartPending]:
    """Read the request to tell the home chats."""

    def judge(pending: RestartPending, file_time: float) -> MarkerVerdict:
        return judge_restart(pending.requested_at, file_time=file_time, now=world.time())

    return _read(home / RESTART_PENDING, RestartPending, judge, world)


def write_restart_notify(home: Path, notify: RestartNotify, world: World) -> None:
    """Ask the next life to tell the chat that requested the restart. Raises `HomeError`."""
    _write(home, RESTART_NOTIFY, msgspec.structs.replace(notify, requested_at=world.now()))


def read_restart_notify(home: Path, world: World) -> MarkerReading[RestartNotify]:
    """Read the request to tell a chat."""

    def judge(notify: RestartNotify, file_time: float) -> MarkerVerdict:
        return judge_restart(notify.requested_at, file_time=file_time, now=world.time())

    return _read(home / RESTART_NOTIFY, RestartNotify, judge, world)


def consume(home: Path, name: str) -> bool:
    """Remove the marker of this name. Return False if there was none that can be removed."""
    try:
        (home / name).unlink()
    except OSError:
        return False
    return True


def to_seconds(moment: Moment, otherwise: float) -> float:
    """Convert the time of a marker to seconds since 1970. A time without a zone is UTC."""
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return otherwise if moment is None else moment


def _write(home: Path, name: str, marker: msgspec.Struct) -> None:
    try:
        write_small(home / name, msgspec.json.encode(marker))
    except OSError as error:
        raise home_error(home, error, name) from error


def _read(
    path: Path,
    shape: type[Marker],
    judge: Callable[[Marker, float], MarkerVerdict],
    world: World,
    *,
    unread: Marker | None = None,
) -> MarkerReading[Marker]:
    """Read a marker. Its file stays in place if it counts, or may count for another process; a marker that
    can never count is removed. `unread` takes the place of a marker that cannot be read."""
    marker, facts, damage = unread, None, None
    try:
        data, facts = read_small(path)
        marker = msgspec.json.decode(data, type=shape)
    except FileNotFoundError:
        return MarkerReading()
    except OSError as error:
        damage = f"cannot be read ({error.strerror})"
    except UnreadableFile as error:
        damage, facts = str(error), error.facts
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        damage = f"is damaged ({error})"

    file_time = facts.st_mtime if facts else world.time()
    if marker is None:
        if facts is not None and 0 <= world.time() - file_time < SETTLED:
            return MarkerReading()  # it may be being written
        return MarkerReading(problem=_remove_judged(path, facts, str(damage)))
    verdict = judge(marker, file_time)
    if verdict is MarkerVerdict.COUNTS:
        return MarkerReading(marker, damage and f"{path.name} {damage}; it counts nevertheless")
    if verdict is MarkerVerdict.FOREIGN:
        return MarkerReading()
    return MarkerReading(problem=_remove_judged(path, facts, verdict.value))


def _remove_judged(path: Path, facts: os.stat_result | None, why: str) -> str:
    """Remove the file that was judged, if it is one. Return the problem in words."""
    try:
        gone = facts is not None and remove_if_same(path, facts)
    except OSError as error:
        return f"{path.name} {why}; it could not be removed ({error.strerror})"
    return f"{path.name} {why}; " + ("it was removed" if gone else "it was left there")
