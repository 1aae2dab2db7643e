"""Bubblewrap: a command in namespaces of its own, on a file system that shows what its session may see.

It has its own processes, its own `/tmp`, no capability, and no network unless one was granted. Process 1 of
its namespace ends with the command, and then the kernel kills everything that the command started.

`--die-with-parent` is not used: it would follow the thread that started the command.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import proxy_program
from .call_filter import common_filter, has_filter
from .views import TEMPORARY, FileAccess, Grants, Room, Views, access_to, views_of

PROGRAM = "bwrap"
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
        command = proxy_program.command_line(command, channel, own_network=False)
    views = views_of(room, grants)
    views = {**views, **dict.fromkeys(_sockets(views), FileAccess.HIDDEN)}
    return [
        *(_with_filter(room.scratch, channel) if has_filter() else (PROGRAM,)),
        *_NAMESPACES,
        *(() if grants.network else ("--unshare-net",)),
        *_rights(),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *(part for path in _READ_ONLY_PROC for part in ("--ro-bind-try", path, path)),
        *_mounts(views, str(room.temporary)),
        *("--chdir", str(cwd), "--", *command),
    ]


def _with_filter(scratch: Path, channel: int | None) -> Iterator[str]:
    """Yield the program with the filter of system calls, which it reads from a descriptor: not the one of the
    channel to the proxy, and one of those that every shell can open."""
    number = "8" if channel == 9 else "9"
    path, content = scratch / "calls", common_filter()
    if not path.exists() or path.read_bytes() != content:
        new = path.with_name(f"calls-{threading.get_ident()}")
        new.write_bytes(content)
        new.replace(path)
    open_file = f'exec {number}<"$0" && exec "$@"'
    yield from ("/bin/sh", "-c", open_file, str(path), PROGRAM, "--seccomp", number)


def _rights() -> Iterator[str]:
    if os.geteuid() != 0:
        yield "--unshare-user"
    yield from ("--cap-drop", "ALL")
    if os.geteuid() == 0:
        for name in _CAPABILITIES_OF_ROOT:
            yield from ("--cap-add", name)


def _mounts(views: Views, temporary: str) -> Iterator[str]:
    """Yield the options that put the views into effect: from the root down, so that the access to a directory
    inside of another one replaces that of the outer one."""
    hidden: list[str] = []
    shown = {"/": FileAccess.READ}
    for path in TEMPORARY:
        if path not in views:
            shown[path] = FileAccess.HIDDEN  # what lies there outside
            yield from ("--bind", temporary, path)
    views = _pinned(views)
    for path in sorted(views, key=lambda path: path.count("/")):
        access, outer = views[path], _access_above(path, shown)
        if path in shown or (access is FileAccess.HIDDEN and outer is FileAccess.HIDDEN):
            continue
        shown[path] = access
        if access is not FileAccess.HIDDEN:
            yield from ("--bind" if access is FileAccess.WRITE else "--ro-bind", path, path)
        elif os.path.isdir(path):
            hidden.append(path)
            yield from ("--tmpfs", path)
        else:
            yield from ("--ro-bind", "/dev/null", path)  # a device, which cannot be opened here
    if resolver := _resolver(shown):
        yield from ("--ro-bind", resolver, resolver)
    for path in hidden:  # after the directories inside of them were made
        yield from ("--remount-ro", path)


def _sockets(views: Views) -> Iterator[str]:
    """Yield the sockets of other programs that a command could reach, although it may not write there."""
    for line in Path("/proc/net/unix").read_text("utf-8", "replace").splitlines():
        path = line.split(maxsplit=7)[-1]
        if path.startswith("/") and os.path.lexists(path):
            real = os.path.realpath(path)
            if access_to(real, views) is FileAccess.READ:
                yield real


def _pinned(views: Views) -> Views:
    """Return the views with the directories that lie between a writable directory and a file in it which may
    only be read. Each becomes a mount: a directory that is none could be renamed, and another one with other
    files could take its name."""
    pinned = dict(views)
    for path, access in views.items():
        while access is FileAccess.READ and path != "/" and (path := os.path.dirname(path)) not in views:
            if access_to(path, views) is FileAccess.WRITE:
                pinned[path] = FileAccess.WRITE
    return pinned


def _access_above(path: str, shown: Views) -> FileAccess:
    while (path := os.path.dirname(path)) not in shown:
        pass
    return shown[path]


def _resolver(shown: Views) -> str | None:
    """Return the file that tells how names are resolved, if it is in a hidden directory."""
    path = os.path.realpath("/etc/resolv.conf")
    return path if os.path.isfile(path) and _access_above(path, shown) is FileAccess.HIDDEN else None
