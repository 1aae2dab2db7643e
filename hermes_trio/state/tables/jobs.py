"""The table `jobs`: messages that come at their time, into the chat where they were ordered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ...base.due_times import Rule
from ...base.messages import SessionSource
from ..db.column_text import read_stored
from ..db.engine import Db

Missed = Literal["once", "all", "skip"]
"""Rule for times that have passed while no turn could begin: one message for all, one for each, or none."""


@dataclass(frozen=True, slots=True)
class Job:
    """An order for messages."""

    job_id: str
    source: SessionSource
    """The chat, and the person who ordered it."""
    text: str
    rule: Rule
    zone: str
    """The IANA name of its time zone; empty for that of the machine."""
    missed: Missed
    next_at: float | None
    """When it is due; None if it never is again."""
    created_at: float
    paused: bool = False
    last_at: float | None = None
    """The due time of the last message."""


_COLUMNS = "job_id, source, text, rule, zone, missed, next_at, created_at, paused, last_at"
_rule = msgspec.json.Decoder(Rule).decode


def _source(text: str) -> SessionSource:
    return SessionSource.from_dict(json.loads(text))


def _jobs(rows: Iterable[tuple[Any, ...]]) -> list[Job]:
    """Return the readable rows; an unreadable one is logged and stays."""
    return [
        Job(row[0], source, row[2], rule, row[4], row[5], row[6], row[7], bool(row[8]), row[9])
        for row in rows
        if (source := read_stored(row[1], _source, "source", job=row[0]))
        and (rule := read_stored(row[3], _rule, "rule", job=row[0]))
    ]


def add(db: Db, job: Job) -> None:
    """Store a new job."""
    source = job.source
    db.execute(
        "INSERT INTO jobs (job_id, source, platform, account, chat_id, text, rule, zone, missed, next_at, "
        "created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            job.job_id,
            json.dumps(source.to_dict(), ensure_ascii=False),
            source.platform,
            source.account,
            source.chat_id,
            job.text,
            msgspec.json.encode(job.rule).decode(),
            job.zone,
            job.missed,
            job.next_at,
            job.created_at,
        ),
    )


def get(db: Db, job_id: str) -> Job | None:
    """Return the job with this id."""
    rows = _jobs(db.execute(f"SELECT {_COLUMNS} FROM jobs WHERE job_id = ?", (job_id,)))  # noqa: S608
    return rows[0] if rows else None


def every(db: Db) -> list[Job]:
    """Return all jobs, the next one first."""
    order = "ORDER BY CASE WHEN next_at IS NULL THEN 1 ELSE 0 END, next_at, job_id"
    return _jobs(db.execute(f"SELECT {_COLUMNS} FROM jobs {order}"))  # noqa: S608


def of_chat(db: Db, source: SessionSource) -> list[Job]:
    """Return the jobs of a chat, the next one first."""
    chat = (source.platform, source.account, source.chat_id)
    return [one for one in every(db) if (one.source.platform, one.source.account, one.source.chat_id) == chat]


def due(db: Db, now: float) -> list[Job]:
    """Return the jobs that are due, the earliest first."""
    query = f"SELECT {_COLUMNS} FROM jobs WHERE next_at <= ? AND NOT paused ORDER BY next_at, job_id"  # noqa: S608
    return _jobs(db.execute(query, (now,)))


def next_due(db: Db) -> float | None:
    """Return when the next job is due."""
    query = "SELECT min(next_at) FROM jobs WHERE next_at IS NOT NULL AND NOT paused"
    found: float | None = db.execute(query).fetchone()[0]
    return found


def move_on(db: Db, job_id: str, next_at: float | None, last_at: float | None) -> None:
    """Set when a job is due again. One that never is again is deleted."""
    if next_at is None:
        remove(db, job_id)
        return
    db.execute(
        "UPDATE jobs SET next_at = ?, last_at = coalesce(?, last_at) WHERE job_id = ?",
        (next_at, last_at, job_id),
    )


def pause(db: Db, job_id: str) -> None:
    """Let a job send nothing until it is resumed."""
    db.execute("UPDATE jobs SET paused = TRUE WHERE job_id = ?", (job_id,))


def resume(db: Db, job_id: str, next_at: float) -> None:
    """Let a paused job go on, at this time."""
    db.execute("UPDATE jobs SET paused = FALSE, next_at = ? WHERE job_id = ?", (next_at, job_id))


def remove(db: Db, job_id: str) -> None:
    """Delete a job."""
    db.execute("DELETE FROM jobs WHERE job_id = ?", (job_id,))
