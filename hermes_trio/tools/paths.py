"""Which files the tools may touch, and how they are opened so that nothing gets around that.

A path is resolved first, links and `..` and all, and only what came of that is judged. Then it is opened by
walking down from the root, one name after the other, following no link: a link that was put there between
the look and the opening is an error, and no way into another place. Judging is pure; names count whatever
their case, because on some systems .SSH is .ssh.

What may not be read is what opens other doors: keys, tokens, passwords, and the gateway's own home, where
other people's conversations are. Whoever may run commands can do more than that: commands are judged
elsewhere. A second name of a file (a hard link) is not recognised. Where something is written it need not
be: a new file takes the place of that name, and the other name keeps its content.

Only the standard library, our errors and the list of places are imported here, because a process that
searches starts with it.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path

from ..base.errors import GatewayError
from .safety.protected_paths import Level, folded, is_below, level_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NO_FILES = ("/proc", "/sys", "/dev")
_READABLE_AT_HOME = (("soul.md",), ("memories",))

_BINARY = getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | _BINARY
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
"""Where it can be had, the right to walk through a directory is enough."""
WALKS = os.open in os.supports_dir_fd
"""Where the system cannot walk, the path is resolved again after opening instead."""


class PathRefused(GatewayError):
    """A path that the tools leave alone, or that is no file."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path = path


def files_of(home: Path, session_id: str) -> Path:
    """Where the files are that people have sent along in a session: its agent may read them."""
    return home / "files" / session_id


class Territory:
    """Where the tools work: relative paths begin at `cwd`; `home` is the gateway's and out of bounds, but for
    `files`, which may be read."""

    def __init__(self, home: Path, cwd: Path, files: Path | None = None) -> None:
        self.cwd = cwd
        self._files = folded(os.path.realpath(files)) if files else None
        self._home = folded(os.path.realpath(home))
        self._cwd = folded(os.path.realpath(cwd))

    def find(self, text: str, *, writing: bool = False) -> Path:
        """The place that this path names, after every link, if it may be touched. Raises `PathRefused`."""
        if "\0" in text or not text.strip():
            raise PathRefused(repr(text), "is no path.")
        try:
            real = Path(os.path.realpath(self.cwd / Path(text).expanduser()))
        except (OSError, RuntimeError, ValueError) as error:
            raise PathRefused(text, f"cannot be resolved: {error}.") from error
        if why := self.judge(real, writing=writing):
            raise PathRefused(text, why)
        return real

    def judge(self, real: Path, *, writing: bool = False) -> str | None:
        """Why a resolved path may not be touched; None if it may."""
        parts = folded(real.as_posix())
        if any(is_below(parts, folded(top)) for top in _NO_FILES):
            return "is of the system, no file."
        level = level_of(parts)
        if level is Level.SECRET:
            return "holds credentials, which tools neither read nor write."
        if writing and level is Level.SYSTEM:
            return "belongs to the system and is not written by tools."
        if not is_below(parts, self._home):
            return None
        if self._cwd != self._home and is_below(self._cwd, self._home) and is_below(parts, self._cwd):
            return None  # somebody gave the agent a place to work within the home
        if not writing and self._files and is_below(parts, self._files):
            return None
        if not writing and any(is_below(parts, self._home + each) for each in _READABLE_AT_HOME):
            return None
        return "is in the gateway's own home, which tools leave alone."


def needs_yes(real: Path) -> bool:
    """Whether a resolved path is written only with a person's yes."""
    return level_of(folded(real.as_posix())) is not None


def open_to_read(real: Path, *, walks: bool = WALKS) -> tuple[int, os.stat_result]:
    """A file at a path that `find` returned, open, and its facts. Raises `PathRefused` or OSError."""
    with _folder_of(real, walks) as (folder, name):
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        _must_be_a_file(real, facts)
        fd = os.open(name, os.O_RDONLY | _NO_LINK, dir_fd=folder)
    try:
        facts = os.fstat(fd)
        _must_be_a_file(real, facts)
        _must_not_have_moved(real, walks)
    except BaseException:
        os.close(fd)
        raise
    return fd, facts


def facts_of(real: Path, *, walks: bool = WALKS) -> os.stat_result | None:
    """The facts of a file at a path that `find` returned; None if there is none."""
    try:
        with _folder_of(real, walks) as (folder, name):
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _must_be_a_file(real, facts)
    return facts


def replace(real: Path, data: bytes, still: Callable[[], None], *, walks: bool = WALKS) -> os.stat_result:
    """Put a file at a path that `find` returned, whole, and make the directories above it. What was there
    keeps its mode. `still` is asked in the last moment, and raises if the file is not wanted any more."""
    before = facts_of(real, walks=walks)
    with _folder_of(real, walks, make=True) as (folder, name):
        beside = os.path.join(os.path.dirname(name), f".hermes-{secrets.token_hex(8)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
        fd = os.open(beside, flags, 0o666, dir_fd=folder)  # as any new file of this account
        try:
            with open(fd, "wb") as file:
                file.write(data)
                if before is not None and os.chmod in os.supports_fd:
                    os.chmod(fd, stat.S_IMODE(before.st_mode))
                file.flush()
                facts = os.fstat(fd)
            _must_not_have_moved(real, walks)
            still()
            os.replace(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            raise
    return facts


@contextmanager
def _folder_of(real: Path, walks: bool, *, make: bool = False) -> Iterator[tuple[int | None, str]]:
    """The directory of a path, open, and the name in it; without a directory the name is the whole path."""
    if not walks:
        if make:
            real.parent.mkdir(parents=True, exist_ok=True)
        yield None, str(real)
        return
    if real == real.parent:
        raise PathRefused(real, "is a directory.")
    folder = os.open(real.anchor, _FOLDER)
    try:
        for part in real.parts[1:-1]:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            try:
                inner = os.open(part, _FOLDER, dir_fd=folder)
            except OSError as error:
                if _is_link(part, folder):
                    raise PathRefused(real, _MOVED) from error
                raise
            os.close(folder)
            folder = inner
        yield folder, real.parts[-1]
    finally:
        os.close(folder)


_MOVED = "was changed into a link to another place while it was looked at. Look again."


def _is_link(name: str, folder: int) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _must_be_a_file(real: Path, facts: os.stat_result) -> None:
    if stat.S_ISREG(facts.st_mode):
        return
    if stat.S_ISLNK(facts.st_mode):
        raise PathRefused(real, _MOVED)
    raise PathRefused(
        real, "is a directory." if stat.S_ISDIR(facts.st_mode) else "is no file but a device, pipe or socket."
    )


def _must_not_have_moved(real: Path, walks: bool) -> None:
    if not walks and os.path.realpath(real) != str(real):
        raise PathRefused(real, _MOVED)
