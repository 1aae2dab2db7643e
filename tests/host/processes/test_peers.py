"""The process at the other end of a connection on this machine, with real sockets of real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from hermes_trio.host.processes.peers import Place, Sender, is_on_this_machine, senders_of
from hermes_trio.host.processes.sweep import MARKER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's list of sockets is read")

CONNECTS = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family) as one:
    one.connect((sys.argv[1], int(sys.argv[2])))
    print("connected", flush=True)
    sys.stdin.read()
"""


@contextmanager
def listening(host: str = "127.0.0.1") -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.bind((host, 0))
        listener.listen()
        yield listener


@contextmanager
def connected(
    listener: socket.socket, *before: str, marker: str | None = None, to: str = ""
) -> Iterator[tuple[Place, Place]]:
    """Yield the two addresses of a connection that another process has made."""
    host, port = listener.getsockname()[:2]
    environ = {name: value for name, value in os.environ.items() if name != MARKER}
    if marker is not None:
        environ[MARKER] = marker
    command = [*before, sys.executable, "-S", "-c", CONNECTS, to or host, str(port)]
    with subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"connected\n"
        connection, peer = listener.accept()
        with closing(connection):
            yield peer[:2], connection.getsockname()[:2]
            process.stdin.close()


@pytest.mark.parametrize(
    ("host", "to"),
    [("127.0.0.1", ""), ("127.0.0.1", "127.0.0.1"), ("::1", ""), ("127.0.0.1", "::ffff:127.0.0.1")],
)
def test_a_process_with_a_marker_is_the_agents(host: str, to: str) -> None:
    with listening(host) as listener, connected(listener, marker="group-1", to=to) as peer:
        assert senders_of([peer], children=False) == [Sender.AGENT]
    with listening(host) as listener, connected(listener, to=to) as peer:
        assert senders_of([peer], children=False) == [Sender.OTHER]


def test_a_descendant_of_a_process_with_a_marker_is_the_agents_without_one() -> None:
    below = ("sh", "-c", '"$@"; true', "sh")
    for wiped in (("env", "-u", MARKER), ("env", "-i"), ("setsid", "-w", "env", "-i")):
        with listening() as listener, connected(listener, *below, *wiped, marker="group-1") as peer:
            assert senders_of([peer], children=False) == [Sender.AGENT], wiped


def test_a_child_is_the_agents_if_the_process_runs_only_the_gateway() -> None:
    with listening() as listener, connected(listener) as peer:
        assert senders_of([peer], children=True) == [Sender.AGENT]
        assert senders_of([peer], children=False) == [Sender.OTHER]


def test_the_marker_of_the_gateway_itself_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MARKER, "the-command-that-started-us")
    with listening() as listener, connected(listener, marker="the-command-that-started-us") as peer:
        assert senders_of([peer], children=False) == [Sender.OTHER]
    with listening() as listener, connected(listener, marker="a-command-of-ours") as peer:
        assert senders_of([peer], children=False) == [Sender.AGENT]


def test_connections_that_are_looked_at_together_are_told_apart() -> None:
    with (
        listening() as listener,
        connected(listener, marker="group-1") as of_agent,
        connected(listener) as of_person,
        socket.create_connection(listener.getsockname()) as gone,
    ):
        left = gone.getsockname(), listener.getsockname()
        gone.close()
        peers = [of_person, of_agent, left, of_person]
        expected = [Sender.OTHER, Sender.AGENT, Sender.GONE, Sender.OTHER]
        assert senders_of(peers, children=False) == expected


def test_our_own_process_is_not_the_agents() -> None:
    with (
        listening() as listener,
        connected(listener, marker="group-1"),
        socket.create_connection(listener.getsockname()) as own,
    ):
        assert senders_of([(own.getsockname(), listener.getsockname())], children=True) == [Sender.OTHER]


def test_a_connection_whose_other_end_is_closed_is_gone() -> None:
    with listening() as listener:
        with socket.create_connection(listener.getsockname()) as gone:
            left = gone.getsockname()
        assert senders_of([(left, listener.getsockname())], children=True) == [Sender.GONE]


def test_the_addresses_of_this_machine_are_recognised() -> None:
    assert all(map(is_on_this_machine, ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1")))
    assert not any(map(is_on_this_machine, ("192.0.2.1", "2001:db8::1", "", "nonsense")))
