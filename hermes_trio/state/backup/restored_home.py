"""Make a home from a backup, in an empty place.

The files are written into a directory beside the place, `.<name>.restoring`, and checked there. A rename
makes that directory the home. So a restore that is broken off leaves no home, and never half of one; the next
one removes what it left. No existing home is touched: a directory with anything in it is refused.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import GatewayError, home_error
from ...base.world import World
from ...host.files.private_files import sync_dir
from ...host.home.home_lock import LOCK_FILE, locked_home, refuse_if_busy
from ..db.engine import Db
from ..db.migrations import missing_steps, shipped_steps
from ..db.opening import connect_reading, open_connections
from ..db.sqlite_errors import as_store_error
from ..rules.stale_work import Dropped, drop_unfinished
from .backup_file import DATABASE, BackupDamaged, Manifest, read_backup


class RestoreRefused(GatewayError):
    """Nothing was restored, and nothing was changed."""

    def __init__(self, home: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{home}: {problem}, so nothing was restored. {remedy}")


@dataclass(frozen=True, slots=True)
class Restored:
    """A home that was made from a backup."""

    home: Path
    manifest: Manifest
    sessions: int
    dropped: Dropped | None
    """The unfinished work of the backup that was ended; None if its gateway had stopped before."""


def restore(file: Path, home: Path, world: World) -> Restored:
    """Make `home` from a backup. Raises `GatewayError`; then the place is as it was."""
    home = home.absolute()
    _refuse_unless_empty(home)
    try:
        with _staging(home) as staging:
            manifest = read_backup(file, staging)
            sessions, dropped = _checked_database(staging / DATABASE, file, manifest, world)
            if hasattr(os, "sync"):
                os.sync()
            if os.name == "nt" and home.exists():
                home.rmdir()
            staging.rename(home)
            sync_dir(home.parent)
    except OSError as error:
        if error.filename == str(file):
            raise RestoreRefused(file, f"cannot be read ({error.strerror})", "Check the path.") from error
        _refuse_unless_empty(home)  # somebody has used the place meanwhile
        raise home_error(home, error, "the restored home") from error
    return Restored(home, manifest, sessions, dropped)


def _refuse_unless_empty(home: Path) -> None:
    if not home.exists() and not home.is_symlink():
        return
    if home.is_dir():
        refuse_if_busy(home)
    if home.is_symlink() or not home.is_dir() or any(home.iterdir()):
        beside = home.with_name(f"{home.name}.restored")
        remedy = f"Move it away, or restore beside it with `--to '{beside}'`."
        raise RestoreRefused(home, "is not empty", remedy)
    if home.is_mount():
        remedy = "Restore into a directory in it with --to, and set HERMES_HOME to that."
        raise RestoreRefused(home, "is the root of a mounted disk, which no rename can fill", remedy)


@contextmanager
def _staging(home: Path) -> Iterator[Path]:
    """Yield an empty directory beside the home, locked as a home. It is removed at the end, unless it was
    renamed."""
    staging = home.with_name(f".{home.name}.restoring")
    with locked_home(staging):
        _empty(staging)
        try:
            yield staging
        finally:
            if staging.exists():
                _empty(staging)
                (staging / LOCK_FILE).unlink(missing_ok=True)
                staging.rmdir()


def _empty(staging: Path) -> None:
    """Remove what a killed restore has left, except the lock that is held."""
    for path in staging.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != LOCK_FILE:
            path.unlink()


def _checked_database(path: Path, file: Path, manifest: Manifest, world: World) -> tuple[int, Dropped | None]:
    """Check the database, bring it to the schema of this version, and end the unfinished work in it if its
    gateway went on after the backup. Return the number of sessions, and what was ended."""
    if not path.exists():
        return 0, None
    try:
        with closing(connect_reading(path)) as reading:
            missing_steps(reading, path, shipped_steps())  # refuses one of a newer version
            (verdict,) = reading.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok" and "FTS5" not in verdict:
            raise BackupDamaged(file, f"its database is damaged ({verdict})")
        opened = open_connections(path, world, shipped_steps())
        with closing(opened.writing) as db, closing(opened.reading):
            dropped = _drop(db, world.time()) if manifest.was_running else None
            (sessions,) = db.execute("SELECT count(*) FROM sessions").fetchone()
    except sqlite3.Error as error:
        raise as_store_error(error, path) from error
    return sessions, dropped


def _drop(db: Db, at: float) -> Dropped:
    db.execute("BEGIN IMMEDIATE")
    dropped = drop_unfinished(db, at)
    db.execute("COMMIT")
    return dropped
