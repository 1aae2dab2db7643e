"""Write a backup of a home, also while a gateway runs in it.

The database is copied first, by SQLite's own backup, so the copy is one committed state. Then the files are
read. A journal may therefore be newer than the copy, as after a kill between the two, and never older.

The archive gets its name when it is complete and on the disk. A kill before that leaves files that end in
`.partial`, which are no backups; the next backup in the folder removes them.
"""

from __future__ import annotations

import io
import os
import sqlite3
import stat
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ...base.errors import ConfigInvalid, GatewayError, home_error
from ...base.world import World
from ...config.config_file import load_config
from ...config.config_text import parse_env, read_text
from ...config.known_secrets import WEB_KEY_FILE, masking_of
from ...config.schema import GatewayConfig
from ...config.secret_references import with_references
from ...host.files.file_lock import close_locked, try_lock
from ...host.files.private_files import make_private_dir, open_private, sync_dir
from ...host.home.home_lock import is_locked
from ..db.opening import connect_reading
from ..db.sqlite_errors import as_store_error
from .backup_file import (
    DATABASE,
    FORMAT,
    MANIFEST,
    BackedUpFile,
    HashingReader,
    Manifest,
    backups_in,
    can_be_in_a_backup,
    free_name,
)

FILES = ("SOUL.md", "terminal_history")
FOLDERS = ("files", "journal", "memories", "skills")
SECRETS = (".env", WEB_KEY_FILE)
CONFIG = "config.yaml"

_PARTIAL = ".partial"
_PAGES = 4096
"""Pages that are copied in one step, between which Ctrl-C is heard."""


class BackupRefused(GatewayError):
    """No backup was made."""

    def __init__(self, home: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{home} was not backed up: {problem}. {remedy}")


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup that was written."""

    path: Path
    manifest: Manifest
    left_out: tuple[str, ...]
    """Names of everything else in the home."""


def backup_folder(home: Path, config: GatewayConfig | None) -> Path:
    """Return the folder for backups: that of the configuration, or `backups` in the home."""
    chosen = config.backup.folder if config else None
    return Path(chosen).expanduser() if chosen else home / "backups"


def write_backup(
    home: Path,
    folder: Path,
    environ: Mapping[str, str],
    world: World,
    *,
    version: str,
    with_secrets: bool = False,
    keep: int | None = None,
) -> Backup:
    """Write a backup of `home` into `folder`. With `keep` remove all but this many of the newest backups in
    the folder afterwards. Raises `GatewayError`; then there is no new backup."""
    if not home.is_dir():
        raise BackupRefused(home, "there is no such directory", "Set HERMES_HOME to the home of a gateway.")
    config, variables = _without_secrets(home, environ) if not with_secrets else (None, ())
    try:
        with _sole_writer(home, folder):
            path = free_name(folder, world.now())
            partial = path.with_name(path.name + _PARTIAL)
            with open(open_private(partial, os.O_WRONLY | os.O_TRUNC), "wb") as file:
                manifest = Manifest(
                    format=FORMAT,
                    version=version,
                    made_at=world.now(),
                    was_running=is_locked(home),
                    with_secrets=with_secrets,
                    variables=variables,
                    files={},
                )
                with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as archive:
                    _add_all(archive, home, partial, config, manifest, world)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(path)
            sync_dir(folder)
            for _, old in backups_in(folder)[keep:] if keep else ():
                old.unlink(missing_ok=True)
    except OSError as error:
        raise home_error(folder, error, "the backup") from error
    known = {DATABASE, CONFIG, *FILES, *FOLDERS, *(SECRETS if with_secrets else ())}
    return Backup(path, manifest, tuple(sorted({one.name for one in home.iterdir()} - known)))


def _add_all(
    archive: tarfile.TarFile,
    home: Path,
    partial: Path,
    config: str | None,
    manifest: Manifest,
    world: World,
) -> None:
    """Add the files of the home and the manifest, which learns each of them."""
    if (home / DATABASE).exists():
        copy = partial.with_name(f"database-of-{partial.name}")
        copy_database(home / DATABASE, copy)
        with copy.open("rb") as content:
            manifest.files[DATABASE] = _add(archive, DATABASE, content, copy.stat())
        copy.unlink()
    names = (*FILES, *SECRETS, CONFIG) if manifest.with_secrets else FILES
    for path in (*(home / name for name in names), *_files_below(home)):
        with suppress(FileNotFoundError, NotADirectoryError), path.open("rb") as content:  # deleted just now
            name = path.relative_to(home).as_posix()
            manifest.files[name] = _add(archive, name, content, os.fstat(content.fileno()))
    if config is not None:
        manifest.files[CONFIG] = _add_text(archive, CONFIG, config.encode(), world)
    _add_text(archive, MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)), world)


def _files_below(home: Path) -> Iterator[Path]:
    """Yield the regular files of the folders that are backed up."""
    for folder in FOLDERS:
        for place, _, names in os.walk(home / folder):
            for path in (Path(place, name) for name in sorted(names)):
                name = path.relative_to(home).as_posix()
                if path.is_file() and not path.is_symlink() and can_be_in_a_backup(name):
                    yield path


def _add(
    archive: tarfile.TarFile, name: str, content: io.BufferedIOBase, facts: os.stat_result
) -> BackedUpFile:
    """Add as much of a file as it holds now: a journal grows. Raises OSError for a file that shrinks."""
    member = tarfile.TarInfo(name)
    member.size, member.mtime = facts.st_size, int(facts.st_mtime)
    member.mode = 0o600 | facts.st_mode & stat.S_IXUSR  # a skill may have programs
    reader = HashingReader(content)
    archive.addfile(member, reader)
    return reader.found


def _add_text(archive: tarfile.TarFile, name: str, data: bytes, world: World) -> BackedUpFile:
    member = tarfile.TarInfo(name)
    member.size, member.mtime, member.mode = len(data), int(world.time()), 0o600
    reader = HashingReader(io.BytesIO(data))
    archive.addfile(member, reader)
    return reader.found


def copy_database(path: Path, copy: Path) -> None:
    """Copy an SQLite database that may be in use to a new file, as one committed state. Raises
    `StoreError`."""
    os.close(open_private(copy, os.O_WRONLY | os.O_TRUNC))
    try:
        with closing(connect_reading(path)) as source, closing(sqlite3.connect(copy)) as target:
            # Without the transaction a write between two steps would begin the copy anew.
            source.execute("BEGIN")
            source.execute("SELECT 1 FROM sqlite_schema").fetchone()
            source.backup(target, pages=_PAGES)
            target.execute("PRAGMA journal_mode = DELETE")  # one file without a log
            (verdict,) = target.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        raise as_store_error(error, path) from error
    # A search index is made again from the messages when it is used.
    if verdict != "ok" and "FTS5" not in verdict:
        remedy = "Run `hermes-trio doctor`. Keep your older backups."
        raise BackupRefused(path.parent, f"its database is damaged ({verdict})", remedy)


def _without_secrets(home: Path, environ: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """Return the text of the configuration without its secrets, and the names of the variables that are left
    out: those that stand for its secrets, and those of `.env`."""
    remedy = "Correct it, or back up everything with --with-secrets."
    try:
        variables, _ = parse_env(read_text(home / ".env") or "", home / ".env")
        text = read_text(home / CONFIG)
        if text is None:
            return None, tuple(variables)
        loaded = load_config(home, environ)
        shared, added = with_references(text, masking_of(home, loaded.config, loaded.environ))
    except ConfigInvalid as error:
        problem = f"its secrets cannot be told from the rest, because {error.key}: {error.problem}"
        raise BackupRefused(home, problem, remedy) from error
    return shared, (*variables, *added)


@contextmanager
def _sole_writer(home: Path, folder: Path) -> Iterator[None]:
    """Be the only one who writes a backup into the folder, and remove what killed ones and this one left
    unfinished."""
    make_private_dir(folder)
    lock = open_private(folder / ".lock", os.O_RDWR)
    try:
        if not try_lock(lock):
            remedy = "Wait until it is done, or name another folder with --to."
            raise BackupRefused(home, f"another backup is being written into {folder}", remedy)
        _remove_partial(folder)
        try:
            yield
        finally:
            _remove_partial(folder)
    finally:
        close_locked(lock)


def _remove_partial(folder: Path) -> None:
    for path in folder.glob(f"*hermes-trio-*{_PARTIAL}*"):
        path.unlink(missing_ok=True)
