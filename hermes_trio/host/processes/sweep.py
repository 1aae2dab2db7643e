"""Who belongs to a process group of ours, and the guard process that ends all of them after us.

A group is all that came of one command. Its members are found in four ways, each catching what the
others miss: the session that the command was started in (a session holds every process group within
it, and a double fork stays in it); the marker in the environment, which also a `setsid` inherits;
being the child of a member; and having been a member when we looked before. Not found, and said so in
the docs: a process that left the session, has lost its parent *and* wiped its environment; one that
another daemon started for the command (systemd-run, docker, at, a tmux that ran already). Another
user's process (sudo) is found but cannot be ended.

The pid of a command cannot become somebody else's while its dead leader is not reaped, and not while
its session has members: POSIX does not reuse such a number. So a session is ours if its leader was born
when we started it, or if it has no leader any more.

The file is also a program, `python -I -S sweep.py <pid of the gateway>`, and so imports nothing that an
interpreter does not have in it: it must start fast, stay small, and never depend on an installation that
an update is just changing. Off Linux, where there is no /proc, psutil looks for us; there it is `-I`.
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
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has one way to end a process
HAS_PROC = os.path.exists("/proc/self/stat")
HAS_GROUPS = hasattr(os, "killpg")
KERNEL_THREAD = 0x00200000  # PF_KTHREAD of Linux

# The guard is fast: nobody waits for the last words of a command whose gateway was killed, and a second
# after the kill nothing of ours is alive, the guard neither.
POLITE = 0.3
LONGEST_START = 0.8
WITHIN = 5.0
LOOK_EVERY = 0.02
MOST_LISTS = 10
BEGINS_WITHIN = (0.0, 0.0005, 0.001, 0.002, 0.004, 0.008)
"""Seconds between looks at a process that is just becoming another program."""


class SeenProcess:
    """One process as the system showed it; `born` names its start in the system's own words."""

    __slots__ = ("alive", "born", "group", "marker", "parent", "pid", "session")

    def __init__(
        self, pid: int, parent: int, group: int, session: int, born: str, alive: bool, marker: str | None
    ) -> None:
        self.pid, self.parent, self.group, self.session = pid, parent, group, session
        self.born, self.alive, self.marker = born, alive, marker


class ProcessTable:
    """All processes of one moment."""

    def __init__(self, seen: Iterable[SeenProcess]) -> None:
        self.by_pid = {one.pid: one for one in seen}
        self._living: dict[int, SeenProcess] = {}
        self._by_session: dict[int, list[SeenProcess]] = {}
        self._by_parent: dict[int, list[SeenProcess]] = {}
        self._by_marker: dict[str, list[SeenProcess]] = {}
        # A gateway may itself run below a group that it looks for: an agent started it. It never
        # ends itself, nor who waits for it.
        mine = _and_above(os.getpid(), self.by_pid)
        for one in self.by_pid.values():
            if one.alive and one.pid not in mine:
                self._living[one.pid] = one
                self._by_session.setdefault(one.session, []).append(one)
                self._by_parent.setdefault(one.parent, []).append(one)
                if one.marker:
                    self._by_marker.setdefault(one.marker, []).append(one)

    def is_ours(self, pid: int, born: str) -> bool:
        """Whether the number of a leader still means the session that it was given for. If its birth could
        not be seen, because no descriptor was left, it does as long as that is a child of ours."""
        leader = self.by_pid.get(pid)
        return leader is None or leader.born == born or (not born and leader.parent == os.getpid())

    def members(self, group: ProcessGroup) -> list[SeenProcess]:
        """Who of the group is alive."""
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


class ProcessGroup:
    """A group that is to be ended; `pid` is 0 while only its marker is known."""

    def __init__(self, id: str, pid: int = 0, born: str = "") -> None:
        self.id, self.pid, self.born = id, pid, born
        self.known: dict[int, str] = {}
        self._asked: set[int] = set()

    def living(self, table: ProcessTable) -> list[SeenProcess]:
        """Who of the group is alive, remembered from now on."""
        members = table.members(self)
        self.known.update((one.pid, one.born) for one in members)
        return members

    def signal(self, number: int, members: Iterable[SeenProcess], table: ProcessTable) -> None:
        """Send a signal to these members. A politer one than KILL reaches each of them once: a second
        TERM makes many programs drop what they were tidying up."""
        fresh = [one for one in members if number == KILL or one.pid not in self._asked]
        self._asked.update(one.pid for one in fresh)
        led = HAS_GROUPS and self.pid and any(one.group == self.pid for one in fresh)
        whole = led and table.is_ours(self.pid, self.born) and self.signal_whole(number)
        for one in fresh:
            try:
                # It may have left the process group since we looked: `setsid` does as one of its first acts.
                if not whole or os.getpgid(one.pid) != self.pid:
                    os.kill(one.pid, number)
            except OSError:  # it has ended by itself, or belongs to another user; the next look tells
                continue

    def signal_whole(self, number: int) -> bool:
        """Signal the process group in one go: a member that forks in this moment is caught too."""
        try:
            os.killpg(self.pid, number)
        except OSError:
            return False
        return True


def look() -> ProcessTable:
    """All processes as they are now: some 20 microseconds for each. Raises OSError."""
    return ProcessTable(_from_proc() if HAS_PROC else _from_psutil())


def born(pid: int) -> str | None:
    """When a process was born, in the system's own words; None if that is not to be seen."""
    try:
        seen = _read_stat(pid) if HAS_PROC else look().by_pid.get(pid)
    except OSError:
        return None
    return seen.born if seen else None


def _and_above(pid: int, by_pid: dict[int, SeenProcess]) -> set[int]:
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
        # Who becomes a daemon forks and goes, perhaps before we came to it, and after its child was to be
        # listed: until nobody is new, not everybody has been seen.
        if not names:
            return
        listed.update(names)


def _read_stat(pid: int) -> SeenProcess | None:
    data = _read(f"/proc/{pid}/stat")
    if not data:
        return None
    # The name is in parentheses and may hold any byte, so what follows begins behind the last one.
    rest = data[data.rindex(b")") + 2 :].split()
    # A process whose first thread has ended looks like a dead one, but has other threads. A thread of the
    # kernel is nobody's. (It has no session, but in a container that is true of others, too.)
    alive = (rest[0] not in (b"Z", b"X") or int(rest[17]) > 1) and not int(rest[6]) & KERNEL_THREAD
    return SeenProcess(pid, int(rest[1]), int(rest[2]), int(rest[3]), rest[19].decode(), alive, None)


def _read_marker(pid: int) -> str | None:
    environ = _read(f"/proc/{pid}/environ")
    for pause in BEGINS_WITHIN:
        if environ:
            break
        if begins := _begins(pid):
            time.sleep(pause)
        environ = _read(f"/proc/{pid}/environ")  # also when it has begun in this very moment
        if not begins:
            break
    _, found, rest = (b"\0" + environ).partition(f"\0{MARKER}=".encode())
    return rest.partition(b"\0")[0].decode("ascii", "replace") if found else None


def _begins(pid: int) -> bool:
    """Whether a process is just becoming another program (`exec`): for that moment it has memory, and in it
    neither code nor an end of its environment. Where that is not shown to us, its code begins at 1."""
    rest = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    return len(rest) > 48 and rest[20] != b"0" and rest[23] == rest[48] == b"0"


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError as error:
        return _nothing(error)
    try:
        parts = []
        while part := os.read(fd, 1 << 16):
            parts.append(part)
        return b"".join(parts)
    except OSError as error:
        return _nothing(error)
    finally:
        os.close(fd)


def _nothing(error: OSError) -> bytes:
    """What there is to read of a process that ended meanwhile, or is another user's. Any other trouble
    (no descriptor is left) must not look like that: nobody is proven dead by it."""
    if error.errno in (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM):
        return b""
    raise error


def _from_psutil() -> Iterable[SeenProcess]:
    import psutil

    for one in psutil.process_iter(["pid", "ppid", "create_time", "status"]):
        pid, parent, time_born, status = (one.info[key] for key in ("pid", "ppid", "create_time", "status"))
        try:
            group, session = (os.getpgid(pid), os.getsid(pid)) if HAS_GROUPS else (0, 0)
            marker = one.environ().get(MARKER)
        except (psutil.Error, OSError):  # another user's, or just gone
            group, session, marker = 0, 0, None
        alive = status not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
        yield SeenProcess(pid, parent or 0, group, session, repr(time_born), alive, marker)


def end_all(groups: list[ProcessGroup], within: float = WITHIN) -> list[ProcessGroup]:
    """TERM, a moment later KILL, until nobody of these groups is left or the time is over; returns the
    groups of which somebody is. A group that was only announced may be about to appear."""
    start = time.monotonic()
    left = groups
    while (elapsed := time.monotonic() - start) < within:
        try:
            table = look()
        except OSError:  # the machine is out of something; what we could not see is not dead
            time.sleep(LOOK_EVERY)
            continue
        members = {group: group.living(table) for group in groups}
        left = [group for group in groups if members[group]]
        for group in left:
            group.signal(TERM if elapsed < POLITE else KILL, members[group], table)
        announced = any(not group.pid for group in groups)
        if not left and (not announced or elapsed > LONGEST_START):
            break
        time.sleep(LOOK_EVERY)
    return left


def listen(gateway: int) -> list[ProcessGroup]:
    """The groups that were not over when the gateway fell silent."""
    groups: dict[str, ProcessGroup] = {}
    rest = b""
    for data in _heard(gateway):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            what, group_id, *more = line.decode("ascii").split()
            if what == "over":
                groups.pop(group_id, None)
            else:
                groups[group_id] = ProcessGroup(group_id, *((int(more[0]), more[1]) if more else ()))
    return list(groups.values())


def _heard(gateway: int) -> Iterable[bytes]:
    """What comes down the pipe until it closes or the gateway is dead. A process that the gateway forked
    without exec holds the pipe open after it; the death itself is seen all the same, where it can be."""
    death = _death_of(gateway)
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


def _death_of(pid: int) -> int | None:
    try:
        fd = os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or gone already: then the pipe is closed
        return None
    return fd if os.getppid() == pid else None


def main() -> None:
    """Be the guard of the gateway that is our parent."""
    # A service manager signals every process of a service, a terminal every process in it. The guard
    # goes when its gateway does, and not before.
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
    os._exit(0)  # the gateway waits for it, and taking an interpreter down takes longer than all the rest
