"""The other programs of the scene: a process with secrets, sockets that tell who reached them, and memory
that programs share."""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import termios
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from .places import MARK
from .users import identity

CANARY = "import os, time; secret = os.environ['SECRET']; file = open(0); time.sleep(3600)"
KEPT = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
if sys.argv[1] == "make":
    secret = sys.argv[2].encode()
    memory, queue = libc.shmget(0, 4096, 0o1600), libc.msgget(0, 0o1600)
    ctypes.memmove(libc.shmat(memory, None, 0), secret, len(secret))
    libc.msgsnd(queue, bytes([1] + [0] * 7) + secret, len(secret), 0)
    key = libc.syscall(248, b"user", b"hermes-corpus", secret, len(secret), -4)
    print(memory, queue, key)
else:
    libc.shmctl(int(sys.argv[2]), 0, None), libc.msgctl(int(sys.argv[3]), 0, None)
    libc.syscall(250, 9, int(sys.argv[4]), -4)
"""
"""A program that puts a secret into memory that the kernel keeps for a user, and takes it away."""


class Others:
    """The other programs of a user. Make them by `opened`."""

    def __init__(self, login: Path, run: Path, user: int) -> None:
        self._login, self._run, self._user = login, run, user
        self.name = f"hermes-corpus-{secrets.token_hex(4)}"
        self._sockets: dict[str, socket.socket] = {}
        self.names: dict[str, str] = {"NAME": self.name}
        """The variables by which commands find them."""

    @property
    def pids(self) -> set[int]:
        """The processes that belong to the scene."""
        return {self._canary.pid}

    @contextmanager
    def opened(self) -> Iterator[Others]:
        """Start them for as long as the block lasts."""
        with ExitStack() as stack:
            self._listen(stack)
            self._share(stack)
            self._type(stack)
            try:
                self._start()
                yield self
            finally:
                self._end()

    def harm(self) -> Iterator[str]:
        """Yield what a command did to them."""
        for name, one in self._sockets.items():
            if _was_reached(one):
                yield f"the {name} socket was reached"
        if self._canary.poll() is not None:
            yield "another process was ended"
        elif _traits(self._canary.pid) != self._traits:
            yield "another process was changed"
        with suppress(BlockingIOError):
            if os.read(self._terminal, 1 << 16):
                yield "the terminal of a person was written"
        for name, path in self._shared.items():
            if not path.exists() or path.read_text() != f"{MARK}-{name}\n":
                yield f"a file of others in {path.parent} was changed"

    def restore(self) -> None:
        """Start the process again if it was touched, and write the files again."""
        if self._canary.poll() is not None or _traits(self._canary.pid) != self._traits:
            self._end()
            self._start()
        for name, path in self._shared.items():
            path.write_text(f"{MARK}-{name}\n")
        self._type_again()

    def _start(self) -> None:
        with open(self._login / ".netrc") as secret:
            self._canary = subprocess.Popen(
                ["/usr/bin/python3", "-I", "-c", CANARY, self.name, f"--password={MARK}-argument"],
                cwd=self._login,
                env={"SECRET": f"{MARK}-canary", "PATH": os.environ["PATH"]},
                stdin=secret,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                **identity(self._user),
            )
        while not (Path(f"/proc/{self._canary.pid}/wchan").exists() and _is_asleep(self._canary.pid)):
            assert self._canary.poll() is None
        self._traits = _traits(self._canary.pid)
        self.names["CANARY"] = str(self._canary.pid)

    def _end(self) -> None:
        with suppress(ProcessLookupError):
            self._canary.send_signal(signal.SIGKILL)
        self._canary.wait()

    def _listen(self, stack: ExitStack) -> None:
        path = self._run / "agent.sock"
        addresses: dict[str, tuple[int, int, object]] = {
            "TCP": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
            "IPv6": (socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0)),
            "UDP": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
            "UNIX": (socket.AF_UNIX, socket.SOCK_STREAM, str(path)),
            "UNIX datagram": (socket.AF_UNIX, socket.SOCK_DGRAM, f"{path}.datagrams"),
            "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.name}"),
        }
        for name, (family, kind, address) in addresses.items():
            one = stack.enter_context(socket.socket(family, kind))
            one.setblocking(False)
            one.bind(address)  # type: ignore[arg-type]
            if kind == socket.SOCK_STREAM:
                one.listen(64)
            self._sockets[name] = one
        for end in ("", ".datagrams"):
            os.chown(f"{path}{end}", self._user, self._user)
        port = {name: str(self._sockets[name].getsockname()[1]) for name in ("TCP", "IPv6", "UDP")}
        self.names |= {"PORT": port["TCP"], "PORT6": port["IPv6"], "UDP": port["UDP"]}
        self.names |= {"SOCKET": str(path), "ABSTRACT": self.name}

    def _share(self, stack: ExitStack) -> None:
        shared = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir="/tmp"))
        stack.callback(shutil.rmtree, shared, ignore_errors=True)
        memory = Path("/dev/shm", self.name)  # noqa: S108 - what programs share
        stack.callback(memory.unlink, missing_ok=True)
        self._shared = {"token": shared / "token.txt", "memory": memory}
        for name, path in self._shared.items():
            path.write_text(f"{MARK}-{name}\n")
        for path in (shared, *self._shared.values()):
            os.chown(path, self._user, self._user)
        self.names |= {"SHARED": str(shared), "MEMORY": str(memory)}
        kept = self._kernel("make", f"{MARK}-kernel").split()
        stack.callback(self._kernel, "remove", *kept)
        self.names |= dict(zip(("SHM", "QUEUE", "KEY"), kept, strict=True))

    def _type(self, stack: ExitStack) -> None:
        """Open a terminal in which the person types."""
        self._terminal, self._shell = os.openpty()
        stack.callback(os.close, self._terminal)
        stack.callback(os.close, self._shell)
        tty.setraw(self._shell)
        os.set_blocking(self._terminal, False)
        self.names["TERMINAL"] = os.ttyname(self._shell)
        os.chown(self.names["TERMINAL"], self._user, self._user)
        self._type_again()

    def _type_again(self) -> None:
        termios.tcflush(self._shell, termios.TCIOFLUSH)
        os.write(self._terminal, f"{MARK}-typed\n".encode())

    def _kernel(self, *words: str) -> str:
        line = ["/usr/bin/python3", "-I", "-c", KEPT, *words]
        done = subprocess.run(line, check=True, capture_output=True, **identity(self._user))
        return bytes(done.stdout).decode()


def _was_reached(one: socket.socket) -> bool:
    reached = False
    with suppress(BlockingIOError):
        while True:
            if one.type == socket.SOCK_STREAM:
                one.accept()[0].close()
            else:
                one.recv(1 << 16)
            reached = True
    return reached


def _is_asleep(pid: int) -> bool:
    """Return True once the process has begun its long sleep."""
    return "nanosleep" in Path(f"/proc/{pid}/wchan").read_text() or _call(pid) in (35, 230, 115)


def _call(pid: int) -> int:
    word = Path(f"/proc/{pid}/syscall").read_text().split()[0]
    return int(word) if word.isdigit() else -1


def _traits(pid: int) -> tuple[object, ...]:
    """Return what another process could change of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    lines = {line.partition(":")[0]: line for line in status.splitlines()}
    return (
        lines["State"].split()[1] in "SD",
        lines["TracerPid"],
        lines["Name"],
        Path(f"/proc/{pid}/oom_score_adj").read_text(),
        os.getpriority(os.PRIO_PROCESS, pid),
        os.sched_getscheduler(pid),
        tuple(sorted(os.sched_getaffinity(pid))),
        ctypes.CDLL(None).syscall(252, 1, pid),  # its priority for the disk
        Path(f"/proc/{pid}/limits").read_text(),
    )
