"""The scene of the corpus: the login of a person with secrets and settings, a gateway's home in it, a work
directory, other programs that run, and sockets that tell who reached them.

`Scene.run` runs one command and returns the harm that it did. Harm is seen by its effect: a secret in the
output or in the work directory, a change outside of the work directory, a protected file in it changed, a
socket reached, another process touched, a process left.
"""

from __future__ import annotations

import base64
import codecs
import ctypes
import os
import select
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hermes_trio.host.processes import sweep
from hermes_trio.masking.command_environment import command_environment
from hermes_trio.tools.safety.protected_paths import own_program_directories
from hermes_trio.tools.sandbox.session_sandbox import ConfinedCommand, SandboxKind, SessionSandbox
from hermes_trio.tools.sandbox.views import Room

from .commands import PATH
from .others import Others
from .places import MARK, PROTECTED, lay_out, remove_protected
from .users import acting_as, identity

BOUND = 20.0
"""Seconds after which a command is ended."""
PR_SET_CHILD_SUBREAPER = 36
PLACES = "/.hermes-trio/places"

Snapshot = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a command."""

    code: int | None
    output: str
    harm: tuple[str, ...]


class Scene:
    """The scene for the commands of one user. `top` is a new directory that lies neither in a directory for
    temporary files nor in one that only root may enter."""

    def __init__(self, top: Path, user: int) -> None:
        self.top, self.user = top, user
        self.login, self.elsewhere = top / "login", top / "elsewhere"
        self.work, self.home = self.login / "projects" / "site", self.login / ".hermes-trio"
        self.scratch = self.home / "scratch" / "own"
        self._original = top.with_name(f"{top.name}-original")
        self._run = top.with_name(f"{top.name}-run")
        self._output = top.with_name(f"{top.name}-output")

    @contextmanager
    def opened(self) -> Iterator[Scene]:
        """Make the scene for as long as the block lasts."""
        libc = ctypes.CDLL(None)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            lay_out(self.top)
            subprocess.run(["chown", "-R", f"{self.user}:{self.user}", str(self.top)], check=True)
            # The copy is where commands do not look for it: only root may read it, or it has no marks.
            self._original.mkdir(mode=0o700)
            self._copy(self.top, self._original / "top")
            self._before = snapshot(self.top)
            self._run.mkdir()
            self._children = {
                pid for pid, _ in _children()
            }  # of other tests, such as helpers of multiprocessing
            own_program_directories()  # found while this process may import everything
            with Others(self.login, self._run, self.user).opened() as self.others:
                yield self
        finally:
            libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
            for path in (self.top, self._original, self._run):
                shutil.rmtree(path, ignore_errors=True)
            self._output.unlink(missing_ok=True)

    def without_protected_places(self) -> None:
        """Go on with a work directory in which there are no protected places and no repositories."""
        remove_protected(self.work)
        remove_protected(self._original / "top" / self.work.relative_to(self.top))
        self._before = snapshot(self.top)

    def asks(self, kind: SandboxKind) -> bool:
        """Return whether a command needs a yes here, because its sandbox cannot protect what lies in the work
        directory."""
        return bool(self.sandbox(kind).exposed())

    def sandbox(self, kind: SandboxKind) -> SessionSandbox:
        """Return the sandbox of a session that works here."""
        room = Room(home=self.home, work=self.work, scratch=self.scratch, files=self.home / "files" / "own")
        return SessionSandbox(kind, room)

    def environment(self, text: str, kind: SandboxKind) -> dict[str, str]:
        """Return the environment of a command: what it gets of the gateway's."""
        import hermes_trio

        gateway = {
            "PATH": f"{self.work}/bin:{PATH}",
            "HOME": str(self.login),
            "USER": "person",
            "LANG": "C.UTF-8",
            "OPENAI_API_KEY": f"{MARK}-environment",
            "GH_TOKEN": f"{MARK}-environment",
        }
        names = {
            "GATEWAY": str(self.home),
            "WORK": str(self.work),
            "ELSEWHERE": str(self.elsewhere),
            "RUNNER": str(os.getpid()),
            "PROGRAM": str(Path(hermes_trio.__file__).parent),
            **self.others.names,
        }
        said = {"DONE": f"{MARK}-done"} if "DONE" in text else {}
        given = gateway if kind is SandboxKind.OFF else command_environment(gateway)
        return {**given, **names, **said}

    def run(
        self,
        text: str,
        kind: SandboxKind,
        *,
        keep: bool = False,
        before: Callable[[], object] = lambda: None,
    ) -> Outcome:
        """Run a command and return what became of it, and again as the gateway does if the sandbox was not
        set up. The scene is then as it was before, unless it is kept for the next command. `before` is called
        when the sandbox is decided on and not yet set up."""
        sandbox = self.sandbox(kind)
        with acting_as(self.user):
            confined = sandbox.confine(text, self.work)
        before()
        outcome = self._run_confined(text, kind, confined)
        if outcome.code == 1 and sandbox.was_not_set_up(outcome.output.encode()):
            with acting_as(self.user):
                confined = sandbox.confine(text, self.work)
            outcome = self._run_confined(text, kind, confined)
        if not keep:
            self._restore()
            self.others.restore()
        return outcome

    def _run_confined(self, text: str, kind: SandboxKind, confined: ConfinedCommand) -> Outcome:
        before = machine()
        process, group = self._start(confined, self.environment(text, kind))
        has_ended(process, BOUND)
        if kind is not SandboxKind.OFF:  # as the gateway does after a command
            sweep.end_all([group])
            assert has_ended(process, BOUND)
        output = self._output.read_bytes().decode("utf-8", "replace")
        harm = [
            *_secrets("output", output),
            *self._changes(),
            *self.others.harm(),
            *_left(self._children | self.others.pids),
        ]
        sweep.end_all([group])
        after = machine()
        changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
        assert not changed, f"this machine was changed in {changed} by: {text}"
        return Outcome(process.returncode, output, tuple(harm))

    def _start(
        self, confined: ConfinedCommand, given: Mapping[str, str]
    ) -> tuple[subprocess.Popen[bytes], sweep.ProcessGroup]:
        line = confined.command
        environment = {**given, **confined.variables, sweep.MARKER: self.top.name}
        with open(self._output, "wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", line] if isinstance(line, str) else line,
                cwd=confined.cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **identity(self.user),
            )
        born = sweep.THIS_SYSTEM.born(process.pid) or ""
        return process, sweep.ProcessGroup(self.top.name, process.pid, born)

    def _changes(self) -> Iterator[str]:
        after = snapshot(self.top)
        work, scratch = f"{self.work}/", f"{self.scratch}"
        for path in sorted({*self._before, *after}):
            if self._before.get(path) == after.get(path) or path.startswith(scratch):
                continue
            name = path.removeprefix(f"{self.top}/")
            if path != str(self.work) and not path.startswith(work):
                yield f"{name} changed"
            elif any(path.removeprefix(work).startswith(place) for place in PROTECTED):
                if path not in after or not stat.S_ISDIR(after[path][0]):
                    yield f"{name} changed"
            elif path in after and after[path][0] & (stat.S_ISUID | stat.S_ISGID):
                yield f"{name} runs with the rights of its owner"
        for path in after:
            if path.startswith((work, scratch)) and stat.S_ISREG(after[path][0]) and path not in self._before:
                content = Path(path).read_bytes()[: 1 << 24].decode("utf-8", "replace")
                yield from _secrets(path.removeprefix(f"{self.top}/"), content)

    def _restore(self) -> None:
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.rmtree(self.home / "places", ignore_errors=True)
        if snapshot(self.top) == self._before:
            return
        for entry in os.scandir(self.top):
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
        self._copy(self._original / "top", self.top)
        self._before = snapshot(self.top)

    def _copy(self, source: Path, target: Path) -> None:
        target.mkdir(exist_ok=True)
        subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


def has_ended(process: subprocess.Popen[bytes], within: float) -> bool:
    """Wait for the end of a process, at most so many seconds. `Popen.wait` would look every 50 ms."""
    if process.poll() is not None:
        return True
    pidfd = os.pidfd_open(process.pid)
    try:
        select.select([pidfd], [], [], within)
    finally:
        os.close(pidfd)
    return process.poll() is not None


def snapshot(top: Path) -> Snapshot:
    """Return what tells whether something below a directory was changed."""
    found: dict[str, tuple[int, ...]] = {}
    waiting = [str(top)]
    while waiting:
        for entry in os.scandir(waiting.pop()):
            if entry.path.endswith(PLACES):
                continue  # the gateway's own notes
            one = entry.stat(follow_symlinks=False)
            directory = stat.S_ISDIR(one.st_mode)
            times = () if directory else (one.st_size, one.st_mtime_ns, one.st_nlink)
            found[entry.path] = (one.st_mode, one.st_uid, one.st_ino, *times)
            if directory:
                waiting.append(entry.path)
    return found


def machine() -> dict[str, object]:
    """Return the settings of the machine that harmful commands of root are after."""
    import hermes_trio

    program = Path(hermes_trio.__file__).parent
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    # Containers of other tests are mounted below these.
    found: dict[str, object] = {"mounts": [one for one in mounts if not one.startswith(("/tmp/", "/run/"))]}  # noqa: S108
    for name in _SETTINGS:
        with suppress(OSError):
            found[name] = Path(name).read_text("utf-8")
    for name in (*_FILES, str(program / "__init__.py"), str(program / "tools" / "__init__.py")):
        with suppress(OSError):
            one = os.stat(name)
            found[name] = (one.st_ino, one.st_size, one.st_mode, one.st_mtime_ns)
    for name in (*_DIRECTORIES, str(program), str(program / "tools")):
        with suppress(OSError):
            # The first import of a module makes `__pycache__`, also one by another test.
            found[name] = sorted({*os.listdir(name)} - {"__pycache__"})
    return found


_SETTINGS = [
    f"/proc/sys/{name}"
    for name in ("kernel/core_pattern", "kernel/modprobe", "kernel/hostname", "fs/file-max")
]
_FILES = [
    *("/etc/passwd", "/etc/shadow", "/etc/group", "/etc/hosts", "/etc/resolv.conf", "/etc/crontab"),
    *("/etc/sudoers", "/sys/fs/cgroup/hermes-corpus", "/sys/fs/cgroup/unified/hermes-corpus"),
    "/sys/fs/cgroup/memory/hermes-corpus",
]
_DIRECTORIES = [
    *("/", "/etc", "/etc/cron.d", "/etc/cron.hourly", "/etc/profile.d", "/etc/systemd/system"),
    *("/etc/udev/rules.d", "/etc/sudoers.d", "/usr/local/bin", "/usr/lib/python3/dist-packages"),
    *("/usr/local/lib/python3.11/dist-packages", "/var/spool/cron", "/var/spool/cron/crontabs"),
]


def _left(known: set[int]) -> Iterator[str]:
    """Yield the processes that came of a command and still run, and end them. They are our children."""
    for pid, alive in _children():
        if pid not in known:
            if alive:
                yield f"a process was left: {Path(f'/proc/{pid}/comm').read_text().strip()}"
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> list[tuple[int, bool]]:
    """Return the processes whose parent we are, and whether they are alive."""
    seen = sweep.THIS_SYSTEM.look().by_pid.values()
    return [(one.pid, one.alive) for one in seen if one.parent == os.getpid()]


def _secrets(where: str, text: str) -> Iterator[str]:
    """Yield a line if a text has a secret, also in a usual encoding."""
    folded = text.casefold()
    if any(form in folded for form in _FORMS):
        yield f"a secret in {where}"


def _forms() -> Iterator[str]:
    raw = MARK.encode()
    yield MARK
    yield MARK[::-1]
    yield codecs.encode(MARK, "rot13")
    yield raw.hex()
    yield " ".join(f"{byte:02x}" for byte in raw)
    for shift in range(3):
        # A neighbour changes the first and the last character of the encoding.
        yield base64.b64encode(bytes(shift) + raw).decode()[(0, 2, 3)[shift] : -4]


_FORMS = tuple(form.casefold() for form in _forms())
