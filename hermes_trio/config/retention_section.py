"""The sections about the times for which data is kept, and about backups."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from .section import Section

Days = Annotated[int, Meta(ge=1, le=36_500)]


class RetentionConfig(Section, frozen=True):
    """Days after which old data is deleted."""

    journal_days: Annotated[Days, Meta(description="Days for which run journals are kept.")] = 30
    inbox_days: Annotated[Days, Meta(description="Days for which answered messages are kept.")] = 7
    outbox_days: Annotated[Days, Meta(description="Days for which sent answers are kept.")] = 7
    spool_days: Annotated[Days, Meta(description="Days for which the output of processes is kept.")] = 7
    files_days: Annotated[Days, Meta(description="Days for which files that people sent are kept.")] = 90
    session_days: Annotated[Days, Meta(description="Days for which unused sessions are kept.")] = 90


class BackupConfig(Section, frozen=True):
    """Backups that the gateway makes by itself."""

    every_hours: Annotated[
        int, Meta(ge=0, le=8760, description="Hours between two backups of the home; 0 means none.")
    ] = 0
    keep: Annotated[int, Meta(ge=1, le=10_000, description="Number of backups that are kept.")] = 7
    folder: Annotated[
        Annotated[str, Meta(pattern=r"^(?:[/~]|[A-Za-z]:)")] | None,
        Meta(
            description="Folder for the backups of this home alone. Left out: `backups` in the home.",
            extra={"allowed": "a full path"},
        ),
    ] = None
