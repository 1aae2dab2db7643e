"""Prosody of Debian on this machine, and a relay in front of it whose connections a test cuts."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio

from hermes_platforms.xmpp.settings import XmppSettings
from hermes_trio.testing import in_background
from tests.platforms.email.test_dovecot import CERTIFICATE
from tests.platforms.irc.irc_servers import free_port

PROSODY = shutil.which("prosody", path="/usr/sbin:/usr/bin:/bin")
MAY_RUN = PROSODY is not None and os.name == "posix" and os.geteuid() == 0
PATIENCE = 40.0
ROOM = "ours@rooms.localhost"
PASSWORD = "password-of-nobody"
CONFIG = """
run_as_root = true
pidfile = "{home}/prosody.pid"
data_path = "{home}/data"
log = {{ debug = "{home}/log" }}
interfaces = {{ "127.0.0.1" }}
c2s_ports = {{ {port} }}
http_ports = {{}}
https_ports = {{}}
modules_enabled = {{ "roster", "saslauth", "tls", "disco", "smacks", "ping" }}
modules_disabled = {{ "s2s" }}
authentication = "internal_plain"
c2s_require_encryption = true
ssl = {{ key = "{home}/key.pem", certificate = "{home}/cert.pem" }}
VirtualHost "localhost"
  modules_enabled = {{ "mam" }}
VirtualHost "127.0.0.1"
Component "rooms.localhost" "muc"
  modules_enabled = {{ "muc_mam" }}
  muc_room_locking = false
  muc_room_default_public_jids = true
"""


@dataclass(frozen=True, slots=True)
class Prosody:
    """A server that runs."""

    port: int
    certificate: str

    def settings(self, name: str, *, port: int = 0, password: str = PASSWORD) -> XmppSettings:
        """Return the settings of an account, perhaps by way of a relay."""
        return XmppSettings(
            address=f"{name}@localhost",
            password=password,
            host="127.0.0.1",
            port=port or self.port,
            tls_ca=self.certificate,
            rooms=(ROOM,),
            nick=name,
            allow_from=("ann@localhost",),
        )


@contextmanager
def running_prosody() -> Iterator[Prosody]:
    """Run the server while inside."""
    assert PROSODY is not None
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="prosody-") as folder:
        home = Path(folder)
        subprocess.run(CERTIFICATE, cwd=home, check=True, capture_output=True)
        for name in ("hermes", "ann", "lee"):
            accounts = home / "data" / "localhost" / "accounts"
            accounts.mkdir(parents=True, exist_ok=True)
            (accounts / f"{name}.dat").write_text(f'return {{ ["password"] = "{PASSWORD}" }};')
        place = home / "prosody.cfg.lua"
        place.write_text(CONFIG.format(home=home, port=port))
        with (home / "output").open("wb") as output:
            process = subprocess.Popen(
                [PROSODY, "-F", "--config", str(place)], stdout=output, stderr=output, cwd=home
            )
        try:
            end = time.monotonic() + PATIENCE
            while not _listens(port):
                assert process.poll() is None, (home / "output").read_text()
                assert time.monotonic() < end, "Prosody does not listen."
                time.sleep(0.05)
            yield Prosody(port, str(home / "cert.pem"))
        finally:
            process.kill()
            process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


class Relay:
    """A relay in front of a server."""

    def __init__(self, to: int) -> None:
        self._to, self._open = to, set[trio.CancelScope]()
        self.port = 0
        self.is_deaf = False
        """What the server says is dropped from now on."""

    def cut(self) -> None:
        """Cut every connection."""
        self.is_deaf = False
        for one in self._open:
            one.cancel(reason="cut by the test")

    async def serve(self, client: trio.SocketStream) -> None:
        with trio.CancelScope() as scope:
            self._open.add(scope)
            server = await trio.open_tcp_stream("127.0.0.1", self._to)
            async with client, server, trio.open_nursery() as nursery:
                nursery.start_soon(self._pump, client, server, scope, False)
                nursery.start_soon(self._pump, server, client, scope, True)
        self._open.discard(scope)

    async def _pump(
        self, source: trio.SocketStream, to: trio.SocketStream, scope: trio.CancelScope, from_server: bool
    ) -> None:
        try:
            while data := await source.receive_some(1 << 16):
                if not (from_server and self.is_deaf):
                    await to.send_all(data)
        except trio.BrokenResourceError:
            pass
        scope.cancel(reason="one side has ended")


@asynccontextmanager
async def relay_to(port: int) -> AsyncIterator[Relay]:
    """Run a relay while inside."""
    relay = Relay(port)
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    relay.port = listener.socket.getsockname()[1]
    async with in_background(partial(trio.serve_listeners, relay.serve, [listener])):
        yield relay
