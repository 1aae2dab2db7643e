"""The members of a process group, and the guard process that ends our groups after us.

A group is a command and everything that came of it. Its members are found in four ways, each of which finds
processes that the others miss:

- the session in which the command was started: a session holds every process group within it, and a process
  that forks twice stays in it;
- the marker in the environment, which a process keeps also after `setsid`;
- being the child of a member;
- having been a member at an earlier look.

Not found, as the documentation says: a process that left the session, lost its parent *and* emptied its
environment; a process that another daemon started for the command (systemd-run, docker, at, a tmux that was
already running). Another user's process (sudo) is found but cannot be ended.

The pid of a command is not reused while its dead leader is not reaped, nor while its session has members:
POSIX forbids that. So a session is ours if its leader was born when we started it, or if it has no leader
any more.

This file is also a program, `python -I -S sweep.py <pid of the gateway>`. It imports only the standard
library: it must start fast, stay small, and never depend on an installation that an update is changing.
Where there is no /proc, psutil lists the processes; there the program runs with `-I` alone.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # `typing` is half of the start of a small program
if TYPE_CHECKING:
    from collections.abc import Iterable

MARKER = "HERMES_TRIO_GROUP"
TERM = signal.SIGTERM
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has only one way to end a process
HAS_PROC = os.path.exists("/proc/self/stat")
HAS_GROUPS = hasattr(os, "killpg")
CAN_PEEK = hasattr(os, "waitid") and hasattr(os, "pidfd_open")
KERNEL_THREAD = 0x00200000  # PF_KTHREAD of Linux

# The guard is fast: nobody reads the last output of a command whose gateway was killed. One second after the
# kill no process of ours is alive, the guard included.
POLITE = 0.3
LONGEST_START = 0.8
WITHIN = 5.0
LOOK_EVERY = 0.02
MOST_LISTS = 10
BEGINS_WITHIN = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008)
"""Seconds between looks at a process that is replacing its program."""


class SeenProcess:
    """One process as the system showed it; `born` is its start time in the system's own notation."""

    __slots__ = ("alive", "born", "group", "marker", "parent", "pid", "session")

    def __init__(
        self, pid: int, parent: int, group: int, session: int, born: str, alive: bool, marker: str | None
    ) -> None:
        self.pid, self.parent, self.group, self.session = pid, parent, group, session
        self.born, self.alive, self.marker = born, alive, marker


class ProcessTable:
    """A snapshot of all processes."""

    def __init__(self, seen: Iterable[SeenProcess]) -> None:
        self.by_pid = {one.pid: one for one in seen}
        self._living: dict[int, SeenProcess] = {}
        self._by_session: dict[int, list[SeenProcess]] = {}
        self._by_parent: dict[int, list[SeenProcess]] = {}
        self._by_marker: dict[str, list[SeenProcess]] = {}
        # An agent may have started this gateway with a command of the group that we look for. A gateway never
        # ends itself, nor a process that waits for it.
        mine = _with_ancestors(os.getpid(), self.by_pid)
        for one in self.by_pid.values():
            if one.alive and one.pid not in mine:
                self._living[one.pid] = one
                self._by_session.setdefault(one.session, []).append(one)
                self._by_parent.setdefault(one.parent, []).append(one)
                if one.marker:
                    self._by_marker.setdefault(one.marker, []).append(one)

    def is_ours(self, pid: int, born: str) -> bool:
        """Return True if the pid still means the session leader that we started. Where its birth could not be
        read, because no descriptor was left, it does as long as the process is our child."""
        leader = self.by_pid.get(pid)
        return leader is None or leader.born == born or (not born and leader.parent == os.getpid())

    def members(self, group: ProcessGroup) -> list[SeenProcess]:
        """Return the living members of the group."""
        known = (self._living.get(pid) for pid in group.known)
        waiting = [one for one in known if one and group.known[one.pid] == one.born]
        waiting += self._by_marker.get(group.id, [])
        if group.pid and self.is_ours(group.pid, group.born):
            waiting += self._by_session.get(group.pid, [])
            if leader := self._living.get(group.pid):
                waiting.append(leader)
        found: dict[int, SeenProcess] = {}
        while waiting:
            one = waiting.pop()
            if one.pid not in found:
                found[one.pid] = one
                waiting += self._by_parent.get(one.pid, [])
        return list(found.values())


class System:
    """The operating system as process groups use it: it shows processes and sends signals.

    `THIS_SYSTEM` is the real one. A test hands in a system that lacks something or refuses a call.
    """

    def __init__(
        self,
        *,
        has_proc: bool = HAS_PROC,
        has_groups: bool = HAS_GROUPS,
        can_peek: bool = CAN_PEEK,
        kill_signal: int = KILL,
    ) -> None:
        self.has_proc = has_proc
        """Processes are shown in /proc. Elsewhere psutil lists them."""
        self.has_groups = has_groups
        """The system has POSIX process groups and sessions."""
        self.can_peek = can_peek
        """The end of a child process can be seen without reaping the child."""
        self.kill_signal = kill_signal
        """The signal that no process can ignore."""

    def look(self) -> ProcessTable:
        """Return all processes as they are now; takes some 20 microseconds for each. Raises OSError."""
        return ProcessTable(_from_proc() if self.has_proc else _from_psutil(self.has_groups))

    def find(self, pid: int) -> SeenProcess | None:
        """Return the process with this pid, without its marker; None if there is none. Raises OSError."""
        return _read_stat(pid) if self.has_proc else self.look().by_pid.get(pid)

    def born(self, pid: int) -> str | None:
        """Return the start time of a process in the system's own notation; None if it cannot be read."""
        try:
            seen = self.find(pid)
        except OSError:
            return None
        return seen.born if seen else None

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to one process. Raises OSError."""
        os.kill(pid, number)

    def signal_group(self, pid: int, number: int) -> None:
        """Send a signal to the POSIX process group that this process leads. Raises OSError."""
        os.killpg(pid, number)


THIS_SYSTEM = System()


class ProcessGroup:
    """A group that is to be ended; `pid` is 0 while only its marker is known."""

    def __init__(self, id: str, pid: int = 0, born: str = "", system: System = THIS_SYSTEM) -> None:
        self.id, self.pid, self.born, self.system = id, pid, born, system
        self.known: dict[int, str] = {}
        """The members that were seen so far, and their start times."""
        self._asked: set[int] = set()

    def living(self, table: ProcessTable) -> list[SeenProcess]:
        """Return the living members of the group, and remember them."""
        members = table.members(self)
        self.known.update((one.pid, one.born) for one in members)
        return members

    def signal(self, number: int, members: Iterable[SeenProcess], table: ProcessTable) -> None:
        """Send a signal to these members. A signal other than KILL reaches each of them once: a second
        TERM makes many programs abandon their cleanup."""
        fresh = [one for one in members if number == self.system.kill_signal or one.pid not in self._asked]
        self._asked.update(one.pid for one in fresh)
        led = self.system.has_groups and self.pid and any(one.group == self.pid for one in fresh)
        whole = led and table.is_ours(self.pid, self.born) and self.signal_whole(number)
        for one in fresh:
            try:
                # It may have left the process group since the look: daemons call `setsid` early.
                if not whole or os.getpgid(one.pid) != self.pid:
                    self.system.signal(one.pid, number)
            except OSError:  # it has ended, or belongs to another user; the next look tells
                continue

    def signal_whole(self, number: int) -> bool:
        """Signal the POSIX process group in one call, which reaches also a member that forks at this moment.
        Return False if the system refuses."""
        try:
            self.system.signal_group(self.pid, number)
        except OSError:
            return False
        return True


def _with_ancestors(pid: int, by_pid: dict[int, SeenProcess]) -> set[int]:
    chain: set[int] = set()
    while pid in by_pid and pid not in chain:
        chain.add(pid)
        pid = by_pid[pid].parent
    return chain


def _from_proc() -> Iterable[SeenProcess]:
    listed: set[str] = set()
    for _ in range(MOST_LISTS):
        names = [name for name in os.listdir("/proc") if name.isdigit() and name not in listed]
        for name in names:
            seen = _read_stat(int(name))
            if seen:
                if seen.alive:
                    seen.marker = _read_marker(seen.pid)
                yield seen
        # A process that becomes a daemon forks and ends, perhaps before we read it, and its child may be
        # missing in this list: so list again until there is no new process.
        if not names:
            return
        listed.update(names)


def _read_stat(pid: int) -> SeenProcess | None:
    data = _read(f"/proc/{pid}/stat")
    if not data:
        return None
    # The name is in parentheses and may hold any byte, so the next field begins after the last parenthesis.
    rest = data[data.rindex(b")") + 2 :].split()
    # A process whose first thread has ended is shown as dead, but has other threads. A kernel thread is no
    # member of any group. (It has no session, but in a container other processes have none either.)
    alive = (rest[0] not in (b"Z", b"X") or int(rest[17]) > 1) and not int(rest[6]) & KERNEL_THREAD
    return SeenProcess(pid, int(rest[1]), int(rest[2]), int(rest[3]), rest[19].decode(), alive, None)


def _read_marker(pid: int) -> str | None:
    environ = _read(f"/proc/{pid}/environ")
    for pause in BEGINS_WITHIN:
        if environ:
            break
        if begins := _is_replacing_program(pid):
            time.sleep(pause)
        environ = _read(f"/proc/{pid}/environ")  # also if it has begun in the meantime
        if not begins:
            break
    _, found, rest = (b"\0" + environ).partition(f"\0{MARKER}=".encode())
    return rest.partition(b"\0")[0].decode("ascii", "replace") if found else None


def _is_replacing_program(pid: int) -> bool:
    """Return True while a process is replacing its program (`exec`): during that moment it has memory, but
    neither code nor an end of its environment. Where we may not see that, its code address reads 1."""
    rest = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    return len(rest) > 48 and rest[20] != b"0" and rest[23] == rest[48] == b"0"


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        return _empty_if_gone(error)
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError as error:
        return _empty_if_gone(error)
    finally:
        os.close(fd)


def _empty_if_gone(error: OSError) -> bytes:
    """Return no data for a process that ended meanwhile or is another user's, else raise the error: no
    process counts as dead because the machine has no descriptor left."""
    if error.errno in (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM):
        return b""
    raise error


def _from_psutil(has_groups: bool) -> Iterable[SeenProcess]:
    import psutil

    for one in psutil.process_iter(["pid", "ppid", "create_time", "status"]):
        pid, parent, time_born, status = (one.info[key] for key in ("pid", "ppid", "create_time", "status"))
        try:
            group, session = (os.getpgid(pid), os.getsid(pid)) if has_groups else (0, 0)
            marker = one.environ().get(MARKER)
        except (psutil.Error, OSError):  # another user's, or just gone
            group, session, marker = 0, 0, None
        alive = status not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        yield SeenProcess(pid, parent or 0, group, session, repr(time_born), alive, marker)


def end_all(
    groups: list[ProcessGroup], within: float = WITHIN, system: System = THIS_SYSTEM
) -> list[ProcessGroup]:
    """Send TERM, a moment later KILL, until no member is alive or `within` seconds are over. Return the
    groups that still have members. Wait a while for a group that was only announced: it may yet appear."""
    start = time.monotonic()
    left = groups
    while (elapsed := time.monotonic() - start) < within:
        try:
            table = system.look()
        except OSError:  # the machine lacks a resource; a process that we cannot see is not dead
            time.sleep(LOOK_EVERY)
            continue
        members = {group: group.living(table) for group in groups}
        left = [group for group in groups if members[group]]
        for group in left:
            group.signal(TERM if elapsed < POLITE else system.kill_signal, members[group], table)
        announced = any(not group.pid for group in groups)
        if not left and (not announced or elapsed > LONGEST_START):
            break
        time.sleep(LOOK_EVERY)
    return left


def listen(gateway: int) -> list[ProcessGroup]:
    """Read messages until the gateway has ended; return the groups that were not over by then."""
    groups: dict[str, ProcessGroup] = {}
    rest = b""
    for data in _read_until_dead(gateway):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            what, group_id, *more = line.decode("ascii").split()
            if what == "over":
                groups.pop(group_id, None)
            else:
                groups[group_id] = ProcessGroup(group_id, *((int(more[0]), more[1]) if more else ()))
    return list(groups.values())


def _read_until_dead(gateway: int) -> Iterable[bytes]:
    """Yield the data from the pipe until it closes or the gateway is dead. A process that the gateway forked
    without exec keeps the pipe open; where the system allows it, the death itself is noticed."""
    death = _open_pidfd(gateway)
    if death is not None:
        os.set_blocking(0, False)
        waiting = select.poll()
        waiting.register(0, select.POLLIN)
        waiting.register(death, select.POLLIN)
    dead = False
    while True:
        if death is not None and not dead:
            dead = any(fd == death for fd, _ in waiting.poll())
        try:
            data = os.read(0, 1 << 16)
        except BlockingIOError:
            if dead:
                return
            continue
        if not data:
            return
        yield data


def _open_pidfd(pid: int) -> int | None:
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or already dead: then the pipe is closed
        return None
    return fd if os.getppid() == pid else None


def main() -> None:
    """Run as the guard of our parent process, the gateway."""
    # A service manager signals every process of a service, a terminal every process in it. The guard ends
    # after its gateway, and not before.
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGPIPE", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    gateway = int(sys.argv[1])
    groups = listen(gateway)
    if groups:
        left = end_all(groups)
        said = f"hermes-trio guard: gateway {gateway} left {len(groups)} process groups behind; "
        said += f"could not end {[group.pid for group in left]}\n" if left else "all are ended\n"
        try:
            os.write(2, said.encode())
        except OSError:
            return


if __name__ == "__main__":
    main()
    os._exit(0)  # the gateway waits for this process, and shutting an interpreter down takes longest of all
