"""Listening sockets that systemd passes to the gateway, and takes back."""

from __future__ import annotations

import socket
import sys
from array import array
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import trio

from tests.machine import HERMES, PATIENCE, configure, environment, living

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform == "win32", reason="Windows passes no files on in this way"),
]

AS_SYSTEMD = """
import os, socket, sys
kind, name, number, *command = sys.argv[1:]
given = socket.create_server(("127.0.0.1", 0)) if kind == "listens" else socket.socket(type=socket.SOCK_DGRAM)
open(name, "w").write(str(given.getsockname()[1]))
os.dup2(given.fileno(), 3)
os.set_inheritable(3, True)
os.environ |= {"LISTEN_PID": str(os.getpid()) if number == "1" else number, "LISTEN_FDS": "1"}
os.execv(command[0], command)
"""
"""Opens a socket, writes its port into a file and runs the gateway with it, as systemd does."""


def as_systemd(port: Path, kind: str = "listens", pid: str = "1") -> tuple[str, ...]:
    return (sys.executable, "-c", AS_SYSTEMD, kind, str(port), pid, *HERMES)


def log_of(home: Path) -> str:
    return (home / "logs" / "gateway.log").read_text()


async def test_the_gateway_listens_with_the_socket_of_systemd(tmp_path: Path) -> None:
    home, port = tmp_path / "home", tmp_path / "port"
    configure(home)  # any port
    async with living(home, command=as_systemd(port)) as life:
        address = (await life.up()).web
        assert address == f"http://127.0.0.1:{port.read_text()}"
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"{address}/health")).status_code == 200


async def test_a_socket_at_another_address_is_closed_and_logged(tmp_path: Path) -> None:
    home, port = tmp_path / "home", tmp_path / "port"
    configure(home)
    config = home / "config.yaml"
    with socket.create_server(("127.0.0.1", 0)) as free:
        wanted = free.getsockname()[1]
    config.write_text(config.read_text().replace("port: 0", f"port: {wanted}"))
    async with living(home, command=as_systemd(port)) as life:
        assert (await life.up()).web == f"http://127.0.0.1:{wanted}"
        with pytest.raises(OSError, match="all attempts to connect"):
            await trio.open_tcp_stream("127.0.0.1", int(port.read_text()))
    assert "inherited socket closed; its address is not configured" in log_of(home)


@pytest.mark.parametrize(("kind", "pid"), [("datagram", "1"), ("listens", "999999999")])
async def test_what_is_no_listening_socket_of_ours_is_not_used(tmp_path: Path, kind: str, pid: str) -> None:
    home, port = tmp_path / "home", tmp_path / "port"
    configure(home)
    async with living(home, command=as_systemd(port, kind, pid)) as life:
        address = (await life.up()).web
        assert address is not None
        assert urlsplit(address).port != int(port.read_text())


async def test_the_service_manager_stores_the_listening_socket(tmp_path: Path) -> None:
    """So it stays open, and clients that connect before the next life are queued."""
    home, name = tmp_path / "home", str(tmp_path / "notify")
    configure(home)
    with trio.socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        await manager.bind(name)
        async with living(home, environ=environment(home, NOTIFY_SOCKET=name)) as life:
            stored = array("i")
            with trio.fail_after(PATIENCE):
                while not stored:
                    data, received, *_ = await manager.recvmsg(4096, socket.CMSG_SPACE(64))
                    for *_, content in received:
                        stored.frombytes(content)
            status = await life.up()
        assert data.decode().split("\n") == ["FDSTORE=1", "FDNAME=web"]
        (listening,) = (socket.socket(fileno=one) for one in stored)
        with listening:
            assert status.web is not None
            assert status.web.endswith(f":{listening.getsockname()[1]}")
            async with await trio.open_tcp_stream(*listening.getsockname()):
                pass
