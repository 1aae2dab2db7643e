"""The file of a backup: `hermes-trio-<time>.tar.gz`, with the files of a home and, last, a manifest.

A backup is whole if it can be read to its manifest, and if each file is the one whose hash the manifest
names. It gets its name when it is written completely, so a file with this name that is not whole was damaged
later. A reader trusts nothing in it: names could lead out of the directory.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tarfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Protocol

import msgspec

from ...base.errors import GatewayError
from ...host.files.private_files import make_private_dir, open_private

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "gateway.db"
PIECE = 1 << 20
LARGEST_MANIFEST = 256 << 20

_NAME = re.compile(r"hermes-trio-(\d{8}T\d{6}Z)(?:-(\d+))?\.tar\.gz")
_PART = re.compile(r"[^/\\:\0\ud800-\udfff]+")


class BackupDamaged(GatewayError):
    """A file is no whole backup."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(f"{file.name} is not a whole backup: {problem}. Use another one.")
        self.file, self.problem = file, problem


class BackedUpFile(msgspec.Struct, frozen=True):
    """The size and the hash of one file."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The last file of a backup: what it holds, and what not."""

    format: int
    version: str
    """The version of hermes-trio that wrote it."""
    made_at: datetime
    was_running: bool
    """A gateway used the home, and went on after the backup."""
    with_secrets: bool
    variables: tuple[str, ...] = ()
    """Names of the variables whose values were left out."""
    files: dict[str, BackedUpFile]


class _Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class HashingReader:
    """A file that is hashed while it is read."""

    def __init__(self, file: _Readable) -> None:
        self._file, self._hash, self.size = file, hashlib.sha256(), 0

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        self._hash.update(data)
        self.size += len(data)
        return data

    @property
    def found(self) -> BackedUpFile:
        """The size and the hash of the part that was read so far."""
        return BackedUpFile(self.size, self._hash.hexdigest())


def free_name(folder: Path, at: datetime) -> Path:
    """Return a path for a backup of this time, at which there is no file."""
    stem = f"hermes-trio-{at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    path, number = folder / f"{stem}.tar.gz", 1
    while path.exists():
        number += 1
        path = folder / f"{stem}-{number}.tar.gz"
    return path


def backups_in(folder: Path) -> list[tuple[datetime, Path]]:
    """Return the backups in a folder by their names, the newest first."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = sorted(
        (datetime.strptime(match[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC), int(match[2] or 1), match[0])
        for match in map(_NAME.fullmatch, names)
        if match
    )
    return [(made_at, folder / name) for made_at, _, name in reversed(found)]


def read_backup(file: Path, into: Path | None = None) -> Manifest:
    """Read a backup to its end, check it, and return its manifest. With `into` write its files there. Raises
    `BackupDamaged`, or OSError if a file cannot be read or written."""
    try:
        found, manifest = _read(file, into)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise BackupDamaged(file, f"it ends early or was changed ({error})") from error
    if manifest is None:
        raise BackupDamaged(file, "its manifest is missing")
    for name in sorted(found.keys() ^ manifest.files.keys()):
        raise BackupDamaged(file, f"{name} is {'not in its manifest' if name in found else 'missing'}")
    for name, one in found.items():
        if one != manifest.files[name]:
            raise BackupDamaged(file, f"{name} is not the file that was backed up")
    return manifest


def _read(file: Path, into: Path | None) -> tuple[dict[str, BackedUpFile], Manifest | None]:
    """Read every file of a backup. Return what was found, and what should be there."""
    found: dict[str, BackedUpFile] = {}
    manifest: Manifest | None = None
    with file.open("rb") as raw:
        for name, content, mode in _members(file, raw):
            if manifest is not None:
                raise BackupDamaged(file, "it goes on after its manifest")
            if name == MANIFEST:
                manifest = _manifest(file, content.read(LARGEST_MANIFEST))
                continue
            reader = HashingReader(content)
            with open(_target(into, name, mode), "wb") as target:
                while data := reader.read(PIECE):
                    target.write(data)
            found[name] = reader.found
    return found, manifest


def _target(into: Path | None, name: str, mode: int) -> int | str:
    """Return the new file for a member; the file that swallows everything if nothing is to be written."""
    if into is None:
        return os.devnull
    path = into / name
    make_private_dir(path.parent)
    target = open_private(path, os.O_WRONLY | os.O_EXCL)
    if mode & stat.S_IXUSR:
        path.chmod(stat.S_IRWXU)
    return target


def can_be_in_a_backup(name: str) -> bool:
    """Return whether a file can have this name in a backup: it is text, and means the same everywhere."""
    return all(_PART.fullmatch(part) and part != ".." for part in name.split("/"))


def _manifest(file: Path, data: bytes) -> Manifest:
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BackupDamaged(file, f"its manifest cannot be read ({error})") from error
    if manifest.format != FORMAT:
        problem = f"it has the format {manifest.format} of version {manifest.version}, which is newer"
        raise BackupDamaged(file, problem)
    return manifest


def _members(file: Path, raw: IO[bytes]) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield each file of the archive with its content, which is to be read before the next one, and its
    mode."""
    with tarfile.open(fileobj=raw, mode="r|gz") as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or not can_be_in_a_backup(member.name):
                raise BackupDamaged(file, f"it holds {member.name[:100]!r}, which no backup does")
            yield member.name, content, member.mode
