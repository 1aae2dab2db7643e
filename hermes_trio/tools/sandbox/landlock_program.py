"""The program that a command starts with under Landlock.

Its child gives up rights for good and becomes the command. It stays itself until every process that came of
the command has ended.

    python -I -S landlock_program.py RULES COMMAND...

`RULES` is base64 of what `marshal` makes of a dictionary: `read`, `write` and `devices` are lists of paths,
`calls` is the filter of system calls, and `cwd` the directory in which the command begins. With `mounts` it
gets a file system and shared memory of its own, as `mounts.py` says; with `own_network` a network of its own.
It imports only the standard library and starts fast. What cannot be given up ends it with exit code 126: a
command never runs with more rights than it should.
"""

# `signal` and `json` need `enum` and `re`, a third of the time of the start.
import _signal as signal  # type: ignore[import-not-found]
import ctypes
import marshal
import os
import stat
import struct
import sys
import time
from binascii import a2b_base64

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
OPEN_TREE, MOVE_MOUNT, OPENAT2, MOUNT_SETATTR = 428, 429, 437, 442
LEAST_VERSION = 6
"""The first version of Landlock that keeps signals inside."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
EVERYTHING = (1 << 16) - 1
READING = EXECUTE | READ_FILE | READ_DIR
WRITING = EVERYTHING & ~IOCTL_DEV
OF_A_FILE = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
ABSTRACT_SOCKETS, SIGNALS = 1, 2

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x08000000, 0x10000000, 0x40000000
AT_FDCWD, AT_EMPTY_PATH, AT_RECURSIVE, OPEN_TREE_CLONE, RESOLVE_NO_SYMLINKS = -100, 0x1000, 0x8000, 1, 4
MOVE_FROM_EMPTY_PATH, MOVE_TO_EMPTY_PATH = 0x04, 0x40
READ_ONLY, NO_DEVICES, PRIVATE = 1, 4, 1 << 18
MS_NOSUID, MS_NODEV, MS_BIND = 2, 4, 4096
AF_INET, SOCK_DGRAM, SIOCSIFFLAGS, IFF_UP = 2, 2, 0x8914, 1
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - shared memory and semaphores

NETWORK_REMEDY = "To get single hosts, the owner has to install bubblewrap. Ask for `network`."

PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 24, 22, 2
PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 4, 36
KEPT_CAPABILITIES = (0, 1, 3, 4)
"""CHOWN, DAC_OVERRIDE, FOWNER and FSETID, for files of other users in the work directory of root."""
LAST_CAPABILITY = 63

ASKED_BY = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
"""Signals that ask a process to end."""
POLITE, LONGEST = 2.0, 4.0
"""Seconds from asking what a command left to killing it, and to giving up."""
LOOK_EVERY = 0.01
MOST_DESCRIPTORS = 1 << 16

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


def enter_namespaces(rules: "dict[str, object]") -> None:
    """Leave the mounts and the network of the machine, as far as the rules say so. A user who is not root may
    do it in a namespace of users only."""
    files, network = rules["mounts"] is not None, rules["own_network"]
    flags = (CLONE_NEWNS | CLONE_NEWIPC if files else 0) | (CLONE_NEWNET if network else 0)
    user, group = os.geteuid(), os.getegid()
    if flags == 0:
        return
    _checked(libc.unshare(flags if user == 0 else flags | CLONE_NEWUSER), "namespaces")
    if user != 0:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    if network:
        device = _checked(libc.socket(AF_INET, SOCK_DGRAM, 0), "network")
        request = ctypes.create_string_buffer(struct.pack("16sh14x", b"lo", IFF_UP))
        _checked(libc.ioctl(device, SIOCSIFFLAGS, request), "network")
        os.close(device)


def make_mounts(mounts: "list[list[str]]") -> None:
    """Put these mounts in the place of what is there. Each is a kind, a path and a source."""
    _change("/", propagation=PRIVATE)  # or they would be seen outside
    trees = [_tree(kind, path, source) for kind, path, source in mounts]  # later mounts may hide them
    _change("/", READ_ONLY)
    empty: list[str] = []
    new: list[str] = []
    _make_empty(SHARED_MEMORY, "mode=1777")
    _make_terminals()
    for (kind, path, source), tree in zip(mounts, trees, strict=True):
        if tree is None:
            continue  # it has gone
        if source != path:
            new.append(path)
        if kind == "directory":
            _make_empty(path, "mode=755,size=64k")
            empty.append(path)
            continue
        if any(path.startswith(f"{top}/") for top in new) and not os.path.lexists(path):
            _make_place(path, tree)
        place = _opened(path)
        flags = MOVE_FROM_EMPTY_PATH | MOVE_TO_EMPTY_PATH
        _checked(libc.syscall(MOVE_MOUNT, tree, b"", place, b"", flags), path)
        os.close(place)
    for path in empty:
        _change(path, READ_ONLY, those_below=0)


def _opened(path: str) -> int:
    """Return a descriptor of a real path. A link that took the place of a directory meanwhile is refused."""
    how = ctypes.create_string_buffer(struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS))
    size = ctypes.c_size_t(24)
    return _checked(libc.syscall(OPENAT2, AT_FDCWD, os.fsencode(path), how, size), path)


def _tree(kind: str, path: str, source: str) -> "int | None":
    """Return a copy of the mount of a source, which is nowhere yet; None if the path has gone."""
    try:
        place = _opened(source or path)
    except FileNotFoundError:
        return None
    if kind == "directory":
        return place
    if kind == "file":
        os.close(place)
        place = _opened("/dev/null")
    flags = OPEN_TREE_CLONE | os.O_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE
    tree = _checked(libc.syscall(OPEN_TREE, place, b"", flags), path)
    os.close(place)
    if kind != "write":
        _change(tree, READ_ONLY if kind == "read" else READ_ONLY | NO_DEVICES)
    return tree


def _change(
    mount: "str | int", attributes: int = 0, propagation: int = 0, those_below: int = AT_RECURSIVE
) -> None:
    """Give a mount, and those below it, attributes. No attribute is taken away."""
    value = ctypes.create_string_buffer(struct.pack("=QQQQ", attributes, 0, propagation, 0), 32)
    at, path = (AT_FDCWD, os.fsencode(mount)) if isinstance(mount, str) else (mount, b"")
    size = ctypes.c_size_t(32)
    result = libc.syscall(MOUNT_SETATTR, at, path, those_below | AT_EMPTY_PATH, value, size)
    _checked(result, f"mount {mount}")


def _make_empty(path: str, options: str) -> None:
    _checked(libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", MS_NOSUID | MS_NODEV, options.encode()), path)


def _make_terminals() -> None:
    """Hide the terminals of others, in which people type."""
    options = b"newinstance,ptmxmode=0666,mode=620"
    _checked(libc.mount(b"devpts", b"/dev/pts", b"devpts", MS_NOSUID, options), "terminals")
    if not os.path.islink("/dev/ptmx"):
        _checked(libc.mount(b"/dev/pts/ptmx", b"/dev/ptmx", None, MS_BIND, None), "terminals")


def _make_place(path: str, tree: int) -> None:
    """Make the directory or file that shows a mount, below a directory that is not the machine's."""
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.makedirs(path)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "x"):
            pass


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
    _allow(ruleset, SHARED_MEMORY, WRITING)
    for path in rules["devices"]:
        _allow(ruleset, path, READING | WRITE_FILE | TRUNCATE | IOCTL_DEV)
    _checked(libc.syscall(RESTRICT_SELF, ruleset, 0), "restriction")
    os.close(ruleset)


def confine_calls(steps: bytes) -> None:
    """Refuse the system calls of this filter."""
    code = ctypes.create_string_buffer(steps, len(steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps) // 8, ctypes.addressof(code)))
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


def go_on_in_a_child() -> None:
    """Fork, and return in the child. This process becomes the parent of every process that loses its own, so
    none can leave the gateway's sight by leaving its session and emptying its environment. It ends them
    after the child, and then ends as the child did."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ASKED_BY)  # the command ends of them, and then this process
    _checked(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "care for processes that lose their parent")
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ASKED_BY)
        return
    os.closerange(0, MOST_DESCRIPTORS)  # its pipes, and its channel to a proxy, are the command's
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    end_children()
    if code < 0:
        libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # the command has written its core already
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ASKED_BY)
        os.kill(os.getpid(), -code)
    os._exit(code)


def end_children() -> None:
    """Ask all children to end, unless the gateway has; kill them later, and those that come to us then."""
    begun, asked = time.monotonic(), set[int]()
    while (elapsed := time.monotonic() - begun) < LONGEST:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        for pid in _children():
            if elapsed > POLITE:
                os.kill(pid, signal.SIGKILL)
            elif pid not in asked and not signal.sigpending():
                os.kill(pid, signal.SIGTERM)
                asked.add(pid)
        time.sleep(LOOK_EVERY)


def _children() -> "list[int]":
    """Return the children of this process. They are not reaped meanwhile, so their numbers are theirs."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b") ")[2].split()[1])
            except OSError:  # it has ended
                continue
            if parent == os.getpid():
                found.append(int(name))
    return found


def main() -> None:
    """Confine a child of this process, which becomes the command."""
    rules, command = marshal.loads(a2b_base64(sys.argv[1])), sys.argv[2:]  # noqa: S302 - the gateway's
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and the command would inherit that
    go_on_in_a_child()
    try:
        enter_namespaces(rules)
        if rules["mounts"] is not None:
            make_mounts(rules["mounts"])
        os.chdir(rules["cwd"])
        drop_capabilities()
        _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
        confine_files(rules)
        confine_calls(rules["calls"])
        os.execvp(command[0], command)  # noqa: S606 - the command of the agent
    except (OSError, KeyError) as error:
        remedy = "" if rules["mounts"] is not None or not rules["own_network"] else f" {NETWORK_REMEDY}"
        print(f"The sandbox could not be set up: {error}.{remedy}", file=sys.stderr)
    sys.exit(126)


if __name__ == "__main__":
    main()
