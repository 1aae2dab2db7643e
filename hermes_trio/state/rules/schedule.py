"""The schedule: ordering jobs, changing them, and the messages that come of them.

A message of a job is a row of the inbox with the due time in its key. It is stored in the transaction that
moves the job on, so it comes once, whatever ends the gateway and whatever the clock does. Functions of the
connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo

from ...base.due_times import described, next_after, parse, passed, shown, zone_named
from ...base.errors import GatewayError
from ...base.messages import MessageEvent, SessionSource
from ..db.engine import Db
from ..tables import inbox, jobs
from ..tables.jobs import Job, Missed

MOST_JOBS = 100
"""Limit of jobs in one chat."""
MOST_MISSED = 100
"""Limit of messages for missed times; the latest ones come."""
LONGEST_TEXT = 8_000
LATE = 60.0
"""Seconds after which a due time counts as missed."""


class JobRefused(GatewayError):
    """A job that cannot be ordered or changed."""


def order(
    db: Db,
    job_id: str,
    source: SessionSource,
    when: str,
    text: str,
    *,
    now: float,
    default: tzinfo | None,
    zone: str = "",
    missed: Missed = "once",
) -> Job:
    """Store a job for this chat, and return it. `default` is the time zone without a `zone`. Raises
    `JobRefused` and `BadTime`."""
    text = text.strip()
    if not text or len(text) > LONGEST_TEXT:
        raise JobRefused(f"The text of a job has 1 to {LONGEST_TEXT} characters.")
    if len(jobs.of_chat(db, source)) >= MOST_JOBS:
        raise JobRefused(f"This chat has {MOST_JOBS} jobs. Remove one first.")
    rule = parse(when, datetime.fromtimestamp(now, zone_named(zone, default)), zone)
    job = Job(job_id, source, text, rule, zone, missed, next_after(rule, now, default), now)
    jobs.add(db, job)
    return job


def in_chat(db: Db, job_id: str, source: SessionSource | None) -> Job:
    """Return a job of this chat; without a chat, any job. Raises `JobRefused`."""
    job = jobs.get(db, job_id)
    if job is None or (source is not None and job not in jobs.of_chat(db, source)):
        raise JobRefused(f"There is no job {job_id[:40]!r} here. The list has the ids.")
    return job


def change(
    db: Db,
    action: str,
    job_id: str,
    source: SessionSource | None,
    *,
    now: float,
    default: tzinfo | None,
) -> Job:
    """Carry out `pause`, `resume`, `remove` or `run`, and return the job as it was. Raises `JobRefused`."""
    job = in_chat(db, job_id, source)
    match action:
        case "pause":
            jobs.pause(db, job_id)
        case "resume":
            at = next_after(job.rule, now, default)
            if at is None:
                raise JobRefused("Its time is over. Remove it, and order another one.")
            jobs.resume(db, job_id, at)
        case "remove":
            jobs.remove(db, job_id)
        case "run":
            if job.paused:
                raise JobRefused("It is paused. Resume it first.")
            jobs.resume(db, job_id, now)  # and then at its times, as before
        case _:
            raise JobRefused(f"{action[:40]!r} is none of pause, resume, remove, run.")
    return job


def fire_due(db: Db, now: float, default: tzinfo | None, key_of: Callable[[SessionSource], str]) -> list[str]:
    """Store the messages of the jobs that are due, move the jobs on, and return the keys of the sessions that
    have new messages."""
    keys: list[str] = []
    for job in jobs.due(db, now):
        times = _times(job, now, default)
        zone = zone_named(job.zone, default)
        for at in times:
            text, name = _message(job, at, now, zone), f"job:{job.job_id}:{at:.3f}"
            event = MessageEvent(job.source, text, kind="internal", idempotency_key=name)
            key = key_of(job.source)
            if not inbox.store(db, event, session_key=key, own_key="", at=now).seen_before:
                keys.append(key)
        jobs.move_on(db, job.job_id, next_after(job.rule, now, default), times[-1] if times else None)
    return keys


def _times(job: Job, now: float, default: tzinfo | None) -> list[float]:
    """Return the due times that get a message now."""
    first = now if job.next_at is None else job.next_at  # one of its times, or when somebody let it run
    times = sorted({first, *passed(job.rule, first, now, MOST_MISSED, default)})
    if job.missed == "all":
        return times
    return [at for at in times[-1:] if job.missed == "once" or at > now - LATE]


def _message(job: Job, at: float, now: float, zone: tzinfo) -> str:
    """Return the text that the agent gets. It names its own time, which may be long over."""
    late = f"; missed, it is now {shown(now, zone)}" if at < now - LATE else ""
    return f"[Scheduled: job {job.job_id}, due {shown(at, zone)}{late}]\n{job.text}"


def listed(found: Sequence[Job], default: tzinfo | None) -> str:
    """Return a list of jobs as text."""
    if not found:
        return "Nothing is scheduled."
    return "\n".join(_line(job, zone_named(job.zone, default)) for job in found)


def _line(job: Job, zone: tzinfo) -> str:
    state = "paused" if job.paused else f"next {shown(job.next_at, zone)}" if job.next_at else "over"
    text = " ".join(job.text.split())
    return f"{job.job_id}  {described(job.rule, zone)} · {state} · {text[:80]}{'…' if len(text) > 80 else ''}"


def confirmed(job: Job, default: tzinfo | None) -> str:
    """Return the sentence about a new job."""
    zone = zone_named(job.zone, default)
    at = shown(job.next_at, zone) if job.next_at is not None else "never"
    return f"Scheduled as {job.job_id}: {described(job.rule, zone)}. It comes next at {at}."
