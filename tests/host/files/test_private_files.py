"""New files and directories are private; existing directories are left unchanged."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_trio.host.files.private_files import make_private_dir, open_private, sync_dir

posix_only = pytest.mark.skipif(os.name != "posix", reason="this system has no such modes")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(params=[0, 0o777, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@posix_only
def test_a_new_directory_and_its_new_parents_are_private(tmp_path: Path, umask: int) -> None:
    make_private_dir(tmp_path / "a" / "b" / "c")
    for directory in ("a", "a/b", "a/b/c"):
        assert mode(tmp_path / directory) == 0o700


@posix_only
def test_an_existing_directory_keeps_its_rights(tmp_path: Path) -> None:
    """A home that was set to a shared directory by mistake must not lock other users out of it."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    make_private_dir(shared)
    make_private_dir(shared / "ours")
    assert (mode(shared), mode(shared / "ours")) == (0o1777, 0o700)


@pytest.mark.parametrize("what", ["a file", "a file above", "a link to nothing"])
def test_a_path_that_is_no_directory_is_refused(tmp_path: Path, what: str) -> None:
    wanted = tmp_path / "home"
    if what == "a file":
        wanted.touch()
    elif what == "a file above":
        wanted.touch()
        wanted = wanted / "journal"
    else:
        wanted.symlink_to(tmp_path / "nothing")
    with pytest.raises(NotADirectoryError):
        make_private_dir(wanted)


def test_a_link_to_a_directory_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real", target_is_directory=True)
    make_private_dir(tmp_path / "home" / "journal")
    assert (tmp_path / "real" / "journal").is_dir()


@posix_only
def test_a_file_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    fd = open_private(tmp_path / "file", os.O_RDWR)
    os.write(fd, b"a secret")
    os.close(fd)
    assert mode(tmp_path / "file") == 0o600
    assert (tmp_path / "file").read_bytes() == b"a secret"


@posix_only
@pytest.mark.parametrize("before", [0o644, 0o666, 0o400, 0o755])
def test_an_existing_file_keeps_its_content_and_becomes_private(tmp_path: Path, before: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    path.chmod(before)
    if before == 0o400 and os.geteuid() != 0:
        with pytest.raises(PermissionError):
            open_private(path, os.O_RDWR)
        return
    os.close(open_private(path, os.O_RDWR | os.O_APPEND))
    assert (mode(path), path.read_bytes()) == (0o600, b"content")


@posix_only
def test_a_pipe_in_place_of_a_file_keeps_its_rights(tmp_path: Path) -> None:
    """The path may be a link to /dev/null, which the whole machine needs."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe").chmod(0o666)
    (tmp_path / "file").symlink_to(tmp_path / "pipe")
    os.close(open_private(tmp_path / "file", os.O_RDWR))
    assert mode(tmp_path / "pipe") == 0o666


@posix_only
def test_a_private_file_is_not_inherited_by_children(tmp_path: Path) -> None:
    fd = open_private(tmp_path / "file", os.O_RDWR)
    assert not os.get_inheritable(fd)
    os.close(fd)


@posix_only
def test_a_file_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(IsADirectoryError):
        open_private(tmp_path, os.O_RDWR)
    assert len(os.listdir("/dev/fd")) == before


@posix_only
def test_syncing_a_directory_leaves_no_descriptor_open(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = len(os.listdir("/dev/fd"))
    sync_dir(tmp_path)
    with pytest.raises(NotADirectoryError):
        sync_dir(tmp_path / "file")
    assert len(os.listdir("/dev/fd")) == before


@pytest.mark.skipif(sys.platform != "linux", reason="needs a file system that cannot sync")
def test_a_file_system_that_cannot_sync_a_directory_is_accepted() -> None:
    """Some network file systems refuse to sync; so does /proc."""
    sync_dir(Path("/proc/self"))
