"""Bubblewrap: a command in namespaces of its own, on a file system that shows what its session may see.

It has its own processes, its own `/tmp`, no capability, and no network unless one was granted. Process 1 of
its namespace ends with the command, and then the kernel kills everything that the command started.

`--die-with-parent` is not used: it would follow the thread that started the command.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from . import proxy_program
from .call_filter import common_filter, has_filter
from .mounts import Mount, MountKind, mounts_of
from .views import Grants, Room, views_of

PROGRAM = "bwrap"
_REPLACED = "The sandbox was not set up: a directory was replaced meanwhile."
NOT_SET_UP = (b"bwrap: Can't ", _REPLACED.encode())
"""The beginnings of the output if a path was not found any more, or is another one."""
_CHECK = f"""
mounts=$(command -p cat /proc/self/mountinfo)
while [ "$1" != -- ]; do
    case $mounts in *" $1 "*) shift ;; *) echo '{_REPLACED}' >&2; exit 1 ;; esac
done
shift
exec "$@"
"""
"""The script that a command starts with: it looks whether each writable mount shows the directory that is
meant. Bubblewrap follows links, and a process of an earlier command may have put one in the place of it."""
_ESCAPED = {ord(character): f"\\{ord(character):03o}" for character in " \t\n\\"}
_NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
_READ_ONLY_PROC = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi")
"""Parts of `/proc` through which root could change the machine without any capability."""
_CAPABILITIES_OF_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")
"""Root keeps what it needs for files of other users in its work directory."""


def command_line(
    command: Sequence[str], cwd: Path, room: Room, grants: Grants, channel: int | None = None
) -> list[str]:
    """Return the command line that runs a command in this sandbox. `cwd` is a path in the sandbox, and
    `channel` the one to its proxy."""
    if channel is not None:
        command = proxy_program.command_line(command, channel)
    program = _program(room)
    mounts = list(mounts_of(views_of(room, grants), str(room.temporary)))
    return [
        *(_with_filter(room.scratch, channel, program) if has_filter() else (program,)),
        *_NAMESPACES,
        *(() if grants.network else ("--unshare-net",)),
        *_rights(),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(part for path in _READ_ONLY_PROC for part in ("--ro-bind-try", path, path)),
        *_options(mounts),
        *("--chdir", str(cwd), "--", "/bin/sh", "-c", _CHECK, "sh", *_writable(mounts), "--", *command),
    ]


def _program(room: Room) -> str:
    """Return bubblewrap of the first directory of PATH in which a command cannot put another one."""
    places = (f"{directory}/{PROGRAM}" for directory in os.get_exec_path())
    found = (one for one in places if os.access(one, os.X_OK))
    return next(
        (one for one in found if not (room.can_change(one) or room.can_change(os.path.dirname(one)))), PROGRAM
    )


def _with_filter(scratch: Path, channel: int | None, program: str) -> Iterator[str]:
    """Yield the program with the filter of system calls, which it reads from a descriptor: not the one of the
    channel to the proxy, and one of those that every shell can open."""
    number = "8" if channel == 9 else "9"
    path, content = scratch / "calls", common_filter()
    if not path.exists() or path.read_bytes() != content:
        new = path.with_name(f"calls-{threading.get_ident()}")
        new.write_bytes(content)
        new.replace(path)
    open_file = f'exec {number}<"$0" && exec "$@"'
    yield from ("/bin/sh", "-c", open_file, str(path), program, "--seccomp", number)


def _rights() -> Iterator[str]:
    if os.geteuid() != 0:
        yield "--unshare-user"
    yield from ("--cap-drop", "ALL")
    if os.geteuid() == 0:
        for name in _CAPABILITIES_OF_ROOT:
            yield from ("--cap-add", name)


def _options(mounts: Iterable[Mount]) -> Iterator[str]:
    """Yield the options that make these mounts."""
    hidden: list[str] = []
    for mount in mounts:
        match mount.kind:
            case MountKind.READ | MountKind.WRITE:
                bind = "--bind" if mount.kind is MountKind.WRITE else "--ro-bind"
                yield from (bind, mount.source, mount.path)
            case MountKind.DIRECTORY:
                hidden.append(mount.path)
                yield from ("--tmpfs", mount.path)
            case MountKind.FILE:
                yield from ("--ro-bind", "/dev/null", mount.path)  # a device, which cannot be opened here
    for path in hidden:  # after the directories inside of them were made
        yield from ("--remount-ro", path)


def _writable(mounts: Iterable[Mount]) -> Iterator[str]:
    """Yield what the kernel is to say of each writable mount: its root in its file system, and its path."""
    roots: dict[str, str] = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            _, _, _, root, at, *_ = line.split(" ")
            roots[at.rstrip("/")] = root.rstrip("/")
    for mount in mounts:
        if mount.kind is MountKind.WRITE:
            at = source = mount.source.translate(_ESCAPED)
            while at not in roots:
                at = at.rpartition("/")[0]
            yield f"{roots[at] + source[len(at) :] or '/'} {mount.path.translate(_ESCAPED)}"
