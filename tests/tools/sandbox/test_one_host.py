"""A command that was granted one host reaches this host and nothing else, in each sandbox that this machine
has. The commands are those of real turns; web servers on this machine stand for the hosts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio.config.schema import ApprovalsConfig, TerminalConfig
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.processes import egress_proxy
from hermes_trio.host.loop.task_tree import task_tree
from hermes_trio.tools.sandbox.granted_hosts import Host
from hermes_trio.tools.sandbox.session_sandbox import SandboxKind, SessionSandbox
from hermes_trio.tools.sandbox.views import NOTHING, Room
from tests.logs import capture_logs
from tests.stage import Stage, everyone
from tests.tools.bench import Bench
from tests.tools.sandbox.corpus.users import NOBODY, acting_as, identity
from tests.tools.sandbox.internet import Internet, open_internet

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes are Linux's"),
    pytest.mark.timeout(120),
]

HOST = ["network example.org"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (site := tmp_path / "site").mkdir()
    (site / "page").write_text("the page\n")
    return site


@pytest.fixture
def internet(site: Path) -> Iterator[Internet]:
    with open_internet("example.org", "other.org", files=site) as internet:
        yield internet


@pytest.fixture(params=["bubblewrap", "landlock"])
def bench(real_stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """A gateway that grants what a command asks for."""
    (work := tmp_path / "work").mkdir()
    terminal = TerminalConfig(cwd=str(work), sandbox=request.param)
    config = msgspec.structs.replace(everyone(), approvals=ApprovalsConfig(mode="off"), terminal=terminal)
    real_stage.config = config
    return Bench(real_stage)


@pytest.fixture
async def gateway(bench: Bench, internet: Internet) -> AsyncIterator[RunningGateway]:
    async with bench.life() as gateway:
        internet.serves(gateway)
        yield gateway


def descriptors() -> set[str]:
    """Return the sockets of this process."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return {one for one in found if one.startswith("socket:")}


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def git_repository(site: Path) -> None:
    """Put a repository on the site, as a plain web server can serve it."""
    git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    made = site.parent / "made"
    subprocess.run([*git, "init", "-q", str(made)], check=True)
    (made / "letter").write_text("from the repository\n")
    subprocess.run([*git, "-C", str(made), "add", "letter"], check=True)
    subprocess.run([*git, "-C", str(made), "commit", "-qm", "A letter"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(made), str(site / "letters.git")], check=True)
    subprocess.run(["git", "-C", str(site / "letters.git"), "update-server-info"], check=True)


def python_package(site: Path) -> None:
    """Put a package on the site, as an index has it."""
    (folder := site / "packages" / "letters").mkdir(parents=True)
    name = "letters-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder / name, "w") as packed:
        packed.writestr("letters.py", "")
        info = "letters-1.0.dist-info"
        packed.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: letters\nVersion: 1.0\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", "")
    (folder / "index.html").write_text(f'<a href="{name}">{name}</a>')


def node_package(site: Path) -> None:
    """Put a package on the site, as a registry has it."""
    (made := site.parent / "package").mkdir()
    (made / "package.json").write_text('{"name": "letters", "version": "1.0.0"}')
    with tarfile.open(site / "letters-1.0.0.tgz", "w:gz") as packed:
        packed.add(made, "package")
    version = {
        "name": "letters",
        "version": "1.0.0",
        "dist": {"tarball": "http://example.org/letters-1.0.0.tgz"},
    }
    package = {"name": "letters", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
    (site / "letters").write_bytes(msgspec.json.encode(package))


EVERYDAY = {
    "curl": "curl -sS http://example.org/page",
    "curl through a tunnel": "curl -sS --proxytunnel http://example.org/page",
    "curl sends": "curl -sS -d 'the page' http://example.org/page | tr A-Z a-z",
    "wget": "wget -qO- http://example.org/page",
    "python": '/usr/bin/python3 -c "from urllib.request import *; '
    "print(urlopen('http://example.org/page').read().decode())\"",
    "git": "git clone -q http://example.org/letters.git && sed s/from.*/'the page'/ letters/letter",
    "pip": f"PIP_CONFIG_FILE=/dev/null {sys.executable} -m pip --disable-pip-version-check install -q "
    "--target got -i http://example.org/packages --trusted-host example.org letters && "
    "test -e got/letters.py && echo the page",
    "npm": "npm install --no-audit --no-fund --silent --registry http://example.org letters && "
    "grep -q letters node_modules/letters/package.json && echo the page",
}


@pytest.mark.parametrize("name", EVERYDAY)
async def test_everyday_programs_reach_the_granted_host(
    bench: Bench, gateway: RunningGateway, internet: Internet, site: Path, name: str
) -> None:
    if shutil.which(name.split()[0]) is None and name != "python":
        pytest.skip(f"this machine has no {name}")
    made = {"git": git_repository, "pip": python_package, "npm": node_package}
    if name in made:
        made[name](site)
    result = await bench.run(EVERYDAY[name], needs=HOST)
    assert result.content.startswith("the page"), result.content
    assert {host for host, _ in internet.asked} <= {"example.org"}


async def test_another_host_is_refused_with_the_remedy(
    bench: Bench, gateway: RunningGateway, internet: Internet
) -> None:
    plain = await bench.run("curl -sS http://other.org/page", needs=HOST)
    assert "Put `network other.org` into its `needs`" in plain.content
    tunnel = await bench.run("curl -sS -v https://other.org:8443/", needs=HOST)
    assert "403 Not granted, needs network other.org:8443" in tunnel.content
    port = await bench.run("curl -sS http://example.org:8080/page", needs=HOST)
    assert "Put `network example.org:8080` into its `needs`" in port.content
    assert internet.asked == []
    both = await bench.run("curl -sS http://other.org/page", needs=[*HOST, "network other.org:80"])
    assert both.content.startswith("the page")


PROBES = """
import socket, sys
v4, v6, datagrams, own = sys.argv[1:]
def attempt(family, kind, address):
    with socket.socket(family, kind) as one:
        one.settimeout(2)
        if kind == socket.SOCK_DGRAM:
            one.sendto(b"x", address)
        else:
            one.connect(address)
            one.sendall(b"x")
for probe in (
    lambda: attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int(v4))),
    lambda: attempt(socket.AF_INET, socket.SOCK_STREAM, (own, int(v4))),
    lambda: attempt(socket.AF_INET6, socket.SOCK_STREAM, ("::1", int(v6))),
    lambda: attempt(socket.AF_INET, socket.SOCK_DGRAM, (own, int(datagrams))),
    lambda: attempt(socket.AF_INET, socket.SOCK_STREAM, ("93.184.216.34", 80)),
    lambda: attempt(socket.AF_INET, socket.SOCK_DGRAM, ("8.8.8.8", 53)),
    lambda: socket.getaddrinfo("example.org", 80),
    # It is sent to the loopback device of the command itself, where nobody receives it.
    lambda: attempt(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", int(datagrams))),
):
    try:
        probe()
        print("out")
    except OSError:
        print("kept")
"""


async def test_nothing_but_the_proxy_leads_out(bench: Bench, gateway: RunningGateway, tmp_path: Path) -> None:
    """A raw connection, a datagram and a lookup of a name reach neither this machine nor another one."""
    (tmp_path / "work" / "probes.py").write_text(textwrap.dedent(PROBES))
    with (
        closing(socket.create_server(("0.0.0.0", 0))) as v4,  # noqa: S104 - also at an address that is no loopback
        closing(socket.create_server(("::1", 0), family=socket.AF_INET6)) as v6,
        closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as datagrams,
    ):
        datagrams.bind(("0.0.0.0", 0))  # noqa: S104
        sockets = (v4, v6, datagrams)
        for one in sockets:
            one.setblocking(False)
        own = own_address()
        places = " ".join(str(one.getsockname()[1]) for one in sockets)
        probes = f"/usr/bin/python3 probes.py {places} {own}"
        result = await bench.run(probes, needs=HOST)
        *others, datagram = result.content.splitlines()[:8]
        assert (set(others), datagram) == ({"kept"}, "out"), result.content
        for one in (v4, v6):
            with pytest.raises(BlockingIOError):
                one.accept()
        with pytest.raises(BlockingIOError):
            datagrams.recv(1)
        whole = await bench.run(probes, needs=["network"])
        assert whole.content.startswith("out\nout\nout\nout\n"), "the attempts can succeed"


def own_address() -> str:
    """Return an address of this machine that is not a loopback one, if there is one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError:
            return "127.0.0.1"
        return str(one.getsockname()[0])


async def test_a_server_that_a_command_starts_is_reached_by_it_alone(
    bench: Bench, gateway: RunningGateway
) -> None:
    result = await bench.run(
        "/usr/bin/python3 -m http.server -b 127.0.0.1 8000 > /dev/null 2>&1 & "
        "until curl -sf http://127.0.0.1:8000/ > list; do sleep 0.05; done; grep -c 'href=.list' list",
        needs=HOST,
    )
    assert result.content.startswith("1\n"), result.content


async def test_a_background_process_keeps_its_proxy_for_its_life(
    bench: Bench, gateway: RunningGateway, internet: Internet, tmp_path: Path
) -> None:
    before = descriptors()
    command = "until test -e go; do sleep 0.02; done; curl -sS http://example.org/page > got; sleep 600"
    await bench.run(command, needs=HOST, background=True)
    (tmp_path / "work" / "go").touch()
    await bench.until(lambda: text_of(tmp_path / "work" / "got") == "the page\n")
    await bench.do({"action": "kill", "process_id": "last"})
    await bench.until(lambda: not descriptors() - before)


TUNNEL = """
import os, socket
proxy = os.environ["https_proxy"].removeprefix("http://").split(":")
one = socket.create_connection((proxy[0], int(proxy[1])))
one.sendall(b"CONNECT example.org:443 HTTP/1.1\\r\\nHost: example.org\\r\\n\\r\\n")
assert one.recv(4096).startswith(b"HTTP/1.1 200 ")
one.sendall(b"hello\\n")
one.recv(1)
"""


async def test_a_turn_that_is_stopped_with_an_open_tunnel_leaves_nothing(
    bench: Bench, gateway: RunningGateway, internet: Internet, tmp_path: Path
) -> None:
    before = descriptors()
    heard, ended = trio.Event(), trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        assert await stream.receive_some() == b"hello\n"
        heard.set()
        assert await stream.receive_some() == b"", "the tunnel is closed"
        ended.set()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, serve, 0)
        internet.ports[Host("example.org", 443)] = listeners[0].socket.getsockname()[1]
        (tmp_path / "work" / "tunnel.py").write_text(TUNNEL)
        await bench.begin({"command": "/usr/bin/python3 tunnel.py", "needs": HOST})
        with trio.fail_after(30):
            await heard.wait()
            assert [line.name for line in task_tree() if egress_proxy.__name__ in line.name]
            await bench.stage.platform.says("/stop")
            await ended.wait()
        await bench.quiet()
        nursery.cancel_scope.cancel()
    await bench.until(lambda: not descriptors() - before)
    assert not [line.name for line in task_tree() if egress_proxy.__name__ in line.name]
    scratch = bench.stage.home / "scratch"
    assert not [path for path in scratch.rglob("*") if path.is_socket()]


async def test_the_log_says_which_hosts_were_reached_and_refused(
    bench: Bench, gateway: RunningGateway
) -> None:
    with capture_logs() as events:
        await bench.run(
            "curl -sS http://example.org/page http://example.org/page http://other.org/page", needs=HOST
        )
    told = [(one["event"], one["host"]) for one in events if "host" in one]
    assert told == [
        ("host reached", "example.org:80"),
        ("host refused", "other.org:80"),
        ("connections to a host closed", "example.org:80"),
    ]
    [total] = [one for one in events if one["event"] == "connections to a host closed"]
    assert total["connections"] == 2
    assert total["received"] > 2 * len("the page\n")


@pytest.mark.parametrize("kind", [SandboxKind.BUBBLEWRAP, SandboxKind.LANDLOCK])
@pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="only root runs a command as another user"
)
def test_a_command_of_another_user_gets_a_network_of_its_own(
    kind: SandboxKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    top = Path(tempfile.mkdtemp(prefix="hermes-host-", dir="/srv"))
    room = Room(top / "home", top / "work", top / "home" / "scratch", top / "home" / "files")
    for path in (top, room.home, room.work):
        path.mkdir(exist_ok=True)
        os.chown(path, NOBODY, NOBODY)
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(20)
        with acting_as(NOBODY):
            confined = SessionSandbox(kind, room).confine(
                "id -u; curl -sS http://example.org/page", room.work, NOTHING, theirs.fileno()
            )
        with theirs:
            command = subprocess.Popen(
                confined.command,
                cwd=confined.cwd,
                env={**os.environ, **confined.variables},
                stdout=subprocess.PIPE,
                pass_fds=[theirs.fileno()],
                **identity(NOBODY),
            )
        [listener] = socket.recv_fds(ours, 1, 1)[1]
        with socket.socket(fileno=listener) as proxy, proxy.accept()[0] as client:
            assert client.recv(4096).startswith(b"GET http://example.org/page HTTP/1.1\r\n")
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nthe page\n")
        assert command.communicate(timeout=20)[0] == b"65534\nthe page\n"
    shutil.rmtree(top)
