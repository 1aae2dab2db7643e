"""Places for commands: a real sshd on this machine, and containers of real engines. Each lives as long as a
block. A program on the PATH of the test leads to them, as the configuration of a person would.

The containers have a busybox and, where it says so, the programs of this machine; they have no network.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from hermes_trio.config.remote_section import DockerConfig, SshConfig
from hermes_trio.config.schema import TerminalConfig
from tests.host.children.kinds import soon

TOOLS = "sh sleep echo cat env mkdir true ls pwd yes setsid mkfifo mktemp grep awk rm printf touch kill"
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000")
"""An engine asks for higher limits than a machine for tests may give."""
READY_WITHIN = 20.0


@dataclass(frozen=True)
class Place:
    """A place for commands."""

    terminal: TerminalConfig
    """The configuration that leads there."""
    name: str
    programs: Path
    """A directory for PATH, with the program that connects."""
    has_reaper: bool
    """True if there is a python3."""
    shares_files: bool
    """True if commands there see the files of this machine."""
    sessions: Callable[[], list[int]] = list
    """The pids of the processes that keep the connections there."""


OpenPlace = Callable[[Path], AbstractContextManager[Place]]


def _needed(*programs: str) -> None:
    for program in programs:
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            pytest.skip(f"there is no {program}")


def _wrapper(folder: Path, name: str, command: Sequence[str]) -> Path:
    """Write a program that runs this command with its own arguments."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec {" ".join(command)} "$@"\n')
    path.chmod(0o755)
    return path


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def _ended_after(process: subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(command: Sequence[str | Path]) -> bool:
    done = subprocess.run(command, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=30)
    return done.returncode == 0


def _children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            rest = entry.read_text(errors="replace").rpartition(") ")[2].split()
            if int(rest[1]) == pid:
                found.append(int(entry.parent.name))
    return found


@contextmanager
def sshd(folder: Path, *, has_reaper: bool = True) -> Iterator[Place]:
    """Run an sshd on loopback with keys of its own, for the user of the test."""
    _needed("sshd", "ssh", "ssh-keygen")
    port = _free_port()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
    home, path = folder / "login", os.environ["PATH"] if has_reaper else str(_tools(folder / "tools"))
    home.mkdir()
    force = f'exec env -i HOME={home} PATH={path} sh -c "$SSH_ORIGINAL_COMMAND"'
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/authorized\nStrictModes no\nUsePAM no\nMaxStartups 100\n"
        f"PermitRootLogin yes\nPasswordAuthentication no\nForceCommand {force}\n"
    )
    key = " ".join((folder / "host.pub").read_text().split()[:2])
    (folder / "known").write_text(f"[127.0.0.1]:{port} {key}\n")
    (folder / "ssh_config").write_text(
        f"Host box\n HostName 127.0.0.1\n Port {port}\n IdentityFile {folder}/user\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {folder}/known\n"
    )
    real = shutil.which("ssh")
    assert real is not None
    ssh = _wrapper(folder / "programs", "ssh", [real, "-F", str(folder / "ssh_config")])
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    program = shutil.which("sshd", path="/usr/sbin:/sbin:/usr/bin")
    assert program is not None
    command = [program, "-D", "-e", "-f", str(folder / "sshd_config")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    with _ended_after(server):
        soon(lambda: _answers([ssh, "box", "true"]), within=READY_WITHIN)
        terminal = TerminalConfig(sandbox="ssh", ssh=SshConfig(host="box"))
        yield Place(terminal, "the host box", ssh.parent, has_reaper, True, lambda: _children(server.pid))


def _tools(folder: Path) -> Path:
    """Make a directory with the few programs that a supervisor without python3 needs."""
    folder.mkdir(parents=True)
    for name in TOOLS.split():
        program = shutil.which(name, path="/usr/bin:/bin")
        assert program is not None, name
        (folder / name).symlink_to(program)
    return folder


def _root_file_system(folder: Path) -> Path:
    """Make the files of a container: a busybox under its names."""
    busybox = shutil.which("busybox")
    if busybox is None or _answers(["ldd", busybox]):
        pytest.skip("there is no static busybox")
    for name in ("bin", "proc", "dev", "sys", "tmp", "etc", "root", "work"):
        (folder / name).mkdir(parents=True)
    (folder / "tmp").chmod(0o1777)
    shutil.copy(busybox, folder / "bin" / "busybox")
    for name in TOOLS.split():
        (folder / "bin" / name).symlink_to("busybox")
    return folder


@contextmanager
def podman(folder: Path) -> Iterator[Place]:
    """Run a container with a busybox, with an engine that needs no service."""
    _needed("podman", "runc")
    files = _root_file_system(folder / "files")
    options = ["--root", str(folder / "root"), "--runroot", str(folder / "run"), "--runtime", "runc"]
    options += ["--storage-driver", "vfs"]  # it mounts nothing that could stay
    program = _wrapper(folder / "programs", "own-podman", ["podman", *options])
    name = f"hermes-test-{os.getpid()}"
    run: list[str | Path] = [program, "run", "-d", "--rm", "--name", name, "--network", "none", *LIMITS]
    if not _answers([*run, "--rootfs", files, "/bin/sleep", "100000"]):
        pytest.skip("podman cannot run a container here")
    try:
        yield Place(_in_container(name, str(program)), f"the container {name}", program.parent, False, False)
    finally:
        _answers([program, "rm", "-f", "-t", "0", name])
        for mount in _mounts_below(folder):
            subprocess.run(["umount", "-l", mount], check=False)


@contextmanager
def docker(folder: Path) -> Iterator[Place]:
    """Run a container with the programs of this machine, with a Docker engine of the test."""
    _needed("docker", "dockerd", "containerd")
    if os.geteuid() != 0:
        pytest.skip("an engine of its own needs root")
    files = _root_file_system(folder / "files")
    state = Path(f"/tmp/hd-{os.getpid()}")  # noqa: S108 - the path of a socket is short
    state.mkdir()
    place = f"unix://{state}/socket"
    command = ["dockerd", "--data-root", str(state / "data"), "--exec-root", str(state / "exec")]
    command += ["-p", str(state / "pid"), "-H", place, "--iptables=false", "--ip6tables=false"]
    command += ["--bridge=none", "--storage-driver=vfs"]
    with (folder / "log").open("wb") as log:
        engine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    program = _wrapper(folder / "programs", "own-docker", ["docker", "-H", place])
    try:
        with _ended_after(engine):
            begun = time.monotonic()
            while not _answers([program, "info"]):
                if engine.poll() is not None or time.monotonic() - begun > READY_WITHIN:
                    pytest.skip("no Docker engine can run here")
                time.sleep(0.1)
            archive = folder / "files.tar"
            subprocess.run(["tar", "-C", files, "-cf", archive, "."], check=True)
            subprocess.run([program, "import", archive, "box"], check=True, capture_output=True)
            shared = [part for top in ("/usr", "/lib", "/lib64") for part in ("-v", f"{top}:{top}:ro")]
            run: list[str | Path] = [
                program,
                "run",
                "-d",
                "--name",
                "box",
                "--network",
                "none",
                *LIMITS,
                *shared,
            ]
            subprocess.run([*run, "box", "/bin/sleep", "100000"], check=True, capture_output=True)
            try:
                config = _in_container("box", str(program))
                yield Place(config, "the container box", program.parent, True, False)
            finally:
                _answers([program, "rm", "-f", "box"])
    finally:
        for mount in _mounts_below(state):
            subprocess.run(["umount", "-l", mount], check=False)
        shutil.rmtree(state, ignore_errors=True)


def _in_container(name: str, program: str) -> TerminalConfig:
    return TerminalConfig(sandbox="docker", docker=DockerConfig(container=name, program=program))


def _mounts_below(folder: Path) -> list[str]:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    return sorted((one for one in mounts if Path(one).is_relative_to(folder)), reverse=True)


@contextmanager
def sshd_without_python(folder: Path) -> Iterator[Place]:
    """The host, without a python3: a supervisor in the shell does the work."""
    with sshd(folder, has_reaper=False) as place:
        yield place


PLACES: dict[str, OpenPlace] = {
    "ssh": sshd,
    "ssh without python3": sshd_without_python,
    "podman": podman,
    "docker": docker,
}
