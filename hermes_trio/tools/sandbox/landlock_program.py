"""The program that a command starts with under Landlock: it gives up rights for good and becomes the command.

    python -I -S landlock_program.py RULES COMMAND...

`RULES` is JSON: `read`, `write` and `devices` are lists of paths, and `network` is a truth value. It imports
only the standard library and starts fast. What cannot be given up ends it with exit code 126: a command never
runs with more rights than it should.
"""

import ctypes
import json
import os
import signal
import struct
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
LEAST_VERSION = 6
"""The first version of Landlock that keeps signals inside."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
EVERYTHING = (1 << 16) - 1
READING = EXECUTE | READ_FILE | READ_DIR
WRITING = EVERYTHING & ~IOCTL_DEV
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
ABSTRACT_SOCKETS, SIGNALS = 1, 2

PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 24, 22, 2
KEPT_CAPABILITIES = (0, 1, 3, 4)
"""CHOWN, DAC_OVERRIDE, FOWNER and FSETID, for files of other users in the work directory of root."""
LAST_CAPABILITY = 63

SYSTEM_CALLS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}
"""The name of each machine in the filter, and its number of `socket`."""
OTHER_PROCESSES = {
    "x86_64": (
        *((302, 0, 0), (141, 0, 0), (141, 1, 0), (251, 0, 1), (251, 1, 0)),
        *((142, 0, 0), (144, 0, 0), (203, 0, 0), (314, 0, 0)),
    ),
    "aarch64": (
        *((261, 0, 0), (140, 0, 0), (140, 1, 0), (30, 0, 1), (30, 1, 0)),
        *((118, 0, 0), (119, 0, 0), (122, 0, 0), (274, 0, 0)),
    ),
}
"""Calls that change limits and priorities, as number, argument, and the only value of it that means the
process itself: `prlimit64`, `setpriority`, `ioprio_set`, and those that set the scheduling."""
KEYRINGS = {"x86_64": (248, 249, 250), "aarch64": (217, 218, 219)}
"""Calls for the keys that the kernel keeps."""
IO_URING_SETUP = 425
OTHER_NUMBERING = 0x40000000
FAMILIES = (2, 10, 16)
"""Addresses of IPv4, IPv6 and the kernel's network tables."""
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1  # with EPERM
LOAD, EQUAL, AT_LEAST, RETURN = 0x20, 0x15, 0x35, 0x06

libc = ctypes.CDLL(None, use_errno=True)


def version() -> int:
    """Return the version of Landlock of this kernel; 0 if there is none."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)))


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # it has gone, and needs no rule
    try:
        if not os.path.isdir(path):
            rights &= OF_A_FILE
        rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, fd))
        _checked(libc.syscall(ADD_RULE, ruleset, 1, rule, 0), f"rule for {path}")
    finally:
        os.close(fd)


def confine_files(rules: "dict[str, list[str]]") -> None:
    """Refuse all files but those of the rules, and signals to processes outside."""
    attributes = struct.pack("=QQQ", EVERYTHING, 0, ABSTRACT_SOCKETS | SIGNALS)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    ruleset = _checked(libc.syscall(CREATE_RULESET, buffer, ctypes.c_size_t(len(attributes)), 0), "ruleset")
    _allow(ruleset, "/", READ_DIR)  # names may be listed everywhere
    for path in rules["read"]:
        _allow(ruleset, path, READING)
    for path in rules["write"]:
        _allow(ruleset, path, WRITING)
    _allow(ruleset, "/dev/shm", WRITING)  # noqa: S108 - shared memory and semaphores
    for path in rules["devices"]:
        _allow(ruleset, path, READING | WRITE_FILE | TRUNCATE | IOCTL_DEV)
    _checked(libc.syscall(RESTRICT_SELF, ruleset, 0), "restriction")
    os.close(ruleset)


def confine_calls(network: bool) -> None:
    """Refuse what Landlock does not know: sockets, all of them or those that are no network's, because a
    socket of the file system leads to programs that run outside; the limits and priorities of other
    processes, through which they could be killed; the kernel's keys."""
    name = os.uname().machine
    machine, socket = SYSTEM_CALLS[name]
    allowed = FAMILIES if network else ()
    steps = [
        (LOAD, 0, 0, 4),
        (EQUAL, 1, 0, machine),
        (RETURN, 0, 0, REFUSE),
        (LOAD, 0, 0, 0),
        (AT_LEAST, 0, 1, OTHER_NUMBERING),
        (RETURN, 0, 0, REFUSE),
    ]
    for number in (IO_URING_SETUP, *KEYRINGS[name]):
        steps += [(EQUAL, 0, 1, number), (RETURN, 0, 0, REFUSE)]
    for number, argument, own in OTHER_PROCESSES[name]:
        steps += [(LOAD, 0, 0, 0), (EQUAL, 0, 3, number), (LOAD, 0, 0, 16 + 8 * argument)]
        steps += [(EQUAL, 1, 0, own), (RETURN, 0, 0, REFUSE)]
    steps += [
        (LOAD, 0, 0, 0),
        (EQUAL, 1, 0, socket),
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, 16),
        *((EQUAL, len(allowed) - number, 0, family) for number, family in enumerate(allowed)),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    _checked(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program, 0, 0), "filter of system calls")


def drop_capabilities() -> None:
    """Give up all capabilities, but for those that root keeps."""
    for number in range(LAST_CAPABILITY + 1):
        if number not in KEPT_CAPABILITIES:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # refused for a number that the kernel does not have
    kept = sum(1 << number for number in KEPT_CAPABILITIES) if os.geteuid() == 0 else 0
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
    data = ctypes.create_string_buffer(struct.pack("=6I", kept, kept, 0, 0, 0, 0))
    _checked(libc.capset(header, data), "capabilities")


def main() -> None:
    """Confine this process and become the command."""
    rules, command = json.loads(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the command would inherit that
    try:
        drop_capabilities()
        _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
        confine_files(rules)
        confine_calls(rules["network"])
        os.execvp(command[0], command)  # noqa: S606 - the command of the agent
    except (OSError, KeyError) as error:
        print(f"The sandbox could not be set up: {error}.", file=sys.stderr)
    sys.exit(126)


if __name__ == "__main__":
    main()
