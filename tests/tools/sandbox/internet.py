"""A small internet for tests: web servers on this machine that stand for hosts by their names."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import trio

from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.tools.sandbox.granted_hosts import Host
from hermes_trio.tools.web.addresses import HostUnknown


@dataclass
class Internet:
    """The hosts that exist."""

    ports: dict[Host, int] = field(default_factory=dict)
    """The port of this machine at which each is served."""
    asked: list[tuple[str, str]] = field(default_factory=list)
    """The name of the host and the path of each request that arrived at a web server."""

    async def reach(self, host: Host) -> trio.SocketStream:
        """Connect to a host, as the function of the gateway does."""
        if host not in self.ports:
            await trio.lowlevel.checkpoint()
            raise HostUnknown(host.name, "cannot be found: this test does not have it.")
        return await trio.open_tcp_stream("127.0.0.1", self.ports[host])

    def serves(self, gateway: RunningGateway) -> None:
        """Let the commands of a gateway reach these hosts and no others."""
        background = gateway.work.background
        background.commands = replace(background.commands, reach=self.reach)


@contextmanager
def open_internet(*hosts: str, files: Path) -> Iterator[Internet]:
    """Serve the same files at port 80 of each of these hosts, for as long as the block."""
    internet = Internet()

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            internet.asked.append((self.headers["Host"], self.path))
            super().do_GET()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.upper())

        def log_message(self, *_: Any) -> None:
            pass

    with ExitStack() as stack:
        for host in hosts:
            server = stack.enter_context(
                ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(files)))
            )
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.shutdown)
            internet.ports[Host(host, 80)] = server.server_port
        yield internet
