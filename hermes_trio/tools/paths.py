"""The files that tools may read and write, and an opening of files that cannot be tricked into others.

A path is resolved first, with its links and `..`, and only the result is judged. Then the file is opened by
walking down from the root, name by name, without following links: a link that appears between the judgement
and the opening is an error, not a way to another place. The judgement is pure; names are compared without
regard to case, because on some systems .SSH is .ssh.

Files that give access to more are not read: keys, tokens, passwords, and the gateway's own home with the
conversations of other people. A command can do more than the file tools; commands are judged elsewhere
(`safety`). A second name of a file (a hard link) is not recognised. Writing does not need that: a new file
replaces this name, and the other name keeps its content.

This module imports only the standard library, our errors and the list of protected paths, because the search
process starts with it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable
from contextlib import contextmanager, suppress
from pathlib import Path

from ..base.errors import GatewayError
from .safety.protected_paths import Level, folded, gateway_home, is_below, level_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NO_FILES = ("/proc", "/sys", "/dev")
_READABLE_AT_HOME = (("soul.md",),)

_BINARY = getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | _BINARY
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
"""With `O_PATH`, the right to pass through a directory is enough; it need not be readable."""
WALKS = os.open in os.supports_dir_fd
"""False on systems without `dir_fd`: there the path is resolved a second time after opening."""


class PathRefused(GatewayError):
    """A path that tools may not touch, or that is no file."""

    def __init__(self, path: Path | str, why: str) -> None:
        super().__init__(f"{path} {why}")
        self.path = path


def files_of(home: Path, session_id: str) -> Path:
    """Return the directory of the files that people sent in a session. Its agent may read them."""
    return home / "files" / session_id


def remove_files(home: Path, session_id: str) -> None:
    """Delete the files that people sent in a session."""
    shutil.rmtree(files_of(home, session_id), ignore_errors=True)


class Territory:
    """The paths that tools may use. Relative paths begin at `cwd`. The gateway's `home` is out of bounds,
    except for `temporary`, the session's own directory, and for what is `readable`."""

    def __init__(
        self,
        home: Path,
        cwd: Path,
        readable: Iterable[Path] = (),
        temporary: Path | None = None,
        outside: Callable[[Path], Path] = Path,
    ) -> None:
        """`outside` returns the name outside of the sandbox of a path that a command uses."""
        self.cwd, self._outside = cwd, outside
        self._readable = tuple(folded(os.path.realpath(one)) for one in readable)
        self._temporary = folded(os.path.realpath(temporary)) if temporary else None
        self._home = folded(os.path.realpath(home))
        self._other_home = folded(os.path.realpath(gateway_home(os.path.expanduser("~"))))
        self._cwd = folded(os.path.realpath(cwd))

    def find(self, text: str, *, writing: bool = False) -> Path:
        """Return the real path of a path, after every link, if it may be used. Raises `PathRefused`."""
        if "\0" in text or not text.strip():
            raise PathRefused(repr(text), "is no path.")
        try:
            real = Path(os.path.realpath(self._outside(self.cwd / Path(text).expanduser())))
        except (OSError, RuntimeError, ValueError) as error:
            raise PathRefused(text, f"cannot be resolved: {error}.") from error
        if why := self.judge(real, writing=writing):
            raise PathRefused(text, why)
        return real

    def judge(self, real: Path, *, writing: bool = False) -> str | None:
        """Return why a resolved path may not be used; None if it may."""
        parts = folded(real.as_posix())
        if any(is_below(parts, folded(top)) for top in _NO_FILES):
            return "belongs to the system and is no ordinary file."
        if not writing and any(is_below(parts, top) for top in self._readable):
            return None
        level = level_of(parts)
        if level is Level.SECRET:
            return "holds credentials, which tools neither read nor write."
        if writing and level is Level.SYSTEM:
            return "belongs to the system and is not written by tools."
        is_within = is_below(self._home, self._other_home) or is_below(self._cwd, self._other_home)
        if is_below(parts, self._other_home) and not is_within:
            return "is in the home of another gateway, which tools leave alone."
        if not is_below(parts, self._home):
            return None
        if self._cwd != self._home and is_below(self._cwd, self._home) and is_below(parts, self._cwd):
            return None  # the owner lets the agent work within the home
        if self._temporary and is_below(parts, self._temporary):
            return None
        if not writing and any(is_below(parts, self._home + each) for each in _READABLE_AT_HOME):
            return None
        return "is in the gateway's own home, which tools leave alone."


def runs_later(real: Path) -> bool:
    """Return whether the file at a resolved path runs later, or programs obey it. A file `.git` leads to
    hooks and settings elsewhere."""
    return real.name == ".git" or level_of(folded(real.as_posix())) is not None


def open_to_read(real: Path, *, walks: bool = WALKS) -> tuple[int, os.stat_result]:
    """Open a file at a path that `find` returned; return its descriptor and its status. Raises `PathRefused`,
    OSError."""
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
    """Return the status of a file at a path that `find` returned; None if there is none."""
    try:
        with _folder_of(real, walks) as (folder, name):
            facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _must_be_a_file(real, facts)
    return facts


def replace(real: Path, data: bytes, still: Callable[[], None], *, walks: bool = WALKS) -> os.stat_result:
    """Write a file at a path that `find` returned, in one step, and make the directories above it. A file
    that is replaced hands on its mode. `still` is called just before, and raises if the file is not to be
    written any more."""
    before = facts_of(real, walks=walks)
    with _folder_of(real, walks, make=True) as (folder, name):
        beside = os.path.join(os.path.dirname(name), f".hermes-{secrets.token_hex(8)}.tmp")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
        fd = os.open(beside, flags, 0o666, dir_fd=folder)  # the usual mode of a new file
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
    """Yield the open directory of a path and the name in it; without `dir_fd`, None and the whole path."""
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


_MOVED = "was replaced by a link to another place while it was opened. Try again."


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
