"""The filter of system calls (seccomp) of confined commands: what no view of the file system can refuse.

A program with set-user-ID or set-group-ID in the work directory would give the rights of its owner to every
account of the machine. The keys that the kernel keeps belong to the account. Under Landlock there are also
sockets of programs that run outside, and the limits and priorities of other processes, through which they
could be killed.

A filter is a list of instructions of the kernel's own small machine. The kernel reads only numbers, so a call
whose mode lies in memory (`openat2`) is said to be missing, and programs use the older one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterator, Mapping

Step = tuple[int, int, int, int]
"""One instruction: its code, the steps to skip if it is true, those if it is false, and a number."""

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CALLS: Mapping[str, tuple[int | None, int | None]] = {
    "add_key": (248, 217),
    "chmod": (90, None),
    "creat": (85, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "io_uring_setup": (425, 425),
    "ioprio_set": (251, 30),
    "keyctl": (250, 219),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "open": (2, None),
    "openat": (257, 56),
    "openat2": (437, 437),
    "prlimit64": (302, 261),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "setpriority": (141, 140),
    "socket": (41, 198),
}
"""The number of each call on the two machines."""
REFUSED = ("add_key", "request_key", "keyctl", "io_uring_setup")
"""`io_uring` is refused because it opens files past every filter."""
MISSING = ("openat2",)
MODES = {
    "chmod": 1,
    "creat": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "mknod": 1,
    "mknodat": 2,
    "open": 2,
    "openat": 3,
}
"""Calls that give a file its mode, and which argument that is."""
SET_ID = 0o6000
OWN = (
    *(("prlimit64", 0, 0), ("setpriority", 0, 0), ("setpriority", 1, 0), ("ioprio_set", 0, 1)),
    *(("ioprio_set", 1, 0), ("sched_setparam", 0, 0), ("sched_setscheduler", 0, 0)),
    *(("sched_setaffinity", 0, 0), ("sched_setattr", 0, 0)),
)
"""Calls that change limits and priorities, an argument, and the only value of it that means the process
itself."""
OTHER_NUMBERING = 0x40000000
NETWORK = (2, 10, 16)
"""Families of sockets: IPv4, IPv6 and the kernel's network tables."""
PROGRAMS = (1,)
"""The family of sockets that have a path."""

LOAD, EQUAL, AT_LEAST, BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER, MACHINE, FIRST_ARGUMENT = 0, 4, 16
ALLOW, REFUSE, UNKNOWN = 0x7FFF0000, 0x00050000 | 1, 0x00050000 | 38  # EPERM and ENOSYS


def has_filter() -> bool:
    """Return True if the calls of this machine are known."""
    return os.uname().machine in MACHINES


def common_filter() -> bytes:
    """Return the filter of a command in namespaces of its own. It opens no socket of a family that the kernel
    does not divide between namespaces, such as those of virtual machines (vsock)."""
    return _packed([*_start(), *_common(), *_families((*NETWORK, *PROGRAMS))])


def full_filter(families: Collection[int]) -> bytes:
    """Return the filter of a command that shares the machine's processes with other programs. It may open
    sockets of these families only."""
    steps = [*_start(), *_common()]
    for name, argument, own in OWN:
        steps += _if_argument(name, argument, (EQUAL, 1, 0, own))
    return _packed([*steps, *_families(families)])


def _calls() -> dict[str, int]:
    column = list(MACHINES).index(os.uname().machine)
    return {name: number for name, numbers in CALLS.items() if (number := numbers[column]) is not None}


def _start() -> Iterator[Step]:
    """Yield the steps that refuse the calls of another machine, which have other numbers."""
    yield from ((LOAD, 0, 0, MACHINE), (EQUAL, 1, 0, MACHINES[os.uname().machine]), (RETURN, 0, 0, REFUSE))
    yield from ((LOAD, 0, 0, NUMBER), (AT_LEAST, 0, 1, OTHER_NUMBERING), (RETURN, 0, 0, REFUSE))


def _common() -> Iterator[Step]:
    calls = _calls()
    for answer, names in ((REFUSE, REFUSED), (UNKNOWN, MISSING)):
        for name in names:
            yield from ((EQUAL, 0, 1, calls[name]), (RETURN, 0, 0, answer))
    for name, argument in MODES.items():
        if name in calls:
            yield from _if_argument(name, argument, (BITS, 0, 1, SET_ID))


def _families(families: Collection[int]) -> Iterator[Step]:
    """Yield the last steps, which allow sockets of these families only."""
    yield from ((LOAD, 0, 0, NUMBER), (EQUAL, 1, 0, _calls()["socket"]), (RETURN, 0, 0, ALLOW))
    yield (LOAD, 0, 0, FIRST_ARGUMENT)
    yield from ((EQUAL, len(families) - number, 0, family) for number, family in enumerate(families))
    yield from ((RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW))


def _if_argument(name: str, argument: int, test: Step) -> Iterator[Step]:
    """Yield the steps that refuse a call if a test of one of its arguments leads to the next step."""
    yield from ((LOAD, 0, 0, NUMBER), (EQUAL, 0, 3, _calls()[name]))
    yield from ((LOAD, 0, 0, FIRST_ARGUMENT + 8 * argument), test, (RETURN, 0, 0, REFUSE))


def _packed(steps: list[Step]) -> bytes:
    return b"".join(struct.pack("=HBBI", *step) for step in steps)
