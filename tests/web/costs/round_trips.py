"""Counts on the wire how often clients wait for a PostgreSQL server: a relay reads their messages."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.postgres import PostgresServer

SOCKET = ".s.PGSQL.5432"
SYNC, QUERY = b"S", b"Q"
UNWAITED = b"COMMIT\0"
"""The text of a query whose answer nobody waits for: the end of a transaction that has only read."""


class RoundTrips:
    """The number of times that a server was asked for an answer. A client sends the statements before that
    together, and waits once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        """The directory of the socket, for the address of the database."""
        self._count = 0

    def take(self) -> int:
        """Return the number since the last call."""
        count, self._count = self._count, 0
        return count

    def relay(self, client: socket.socket, server: socket.socket) -> None:
        """Send on what a client sends, and count its messages."""
        unread, at_start = b"", True
        with suppress(OSError), client, server:
            while data := client.recv(65536):
                unread += data
                while len(unread) >= (head := 4 if at_start else 5):
                    size = int.from_bytes(unread[head - 4 : head], "big") + head - 4
                    if len(unread) < size:
                        break
                    kind, content, unread = unread[: head - 4], unread[head:size], unread[size:]
                    self._count += kind == SYNC or (kind == QUERY and content != UNWAITED)
                    at_start = False
                server.sendall(data)

    def answer(self, client: socket.socket, server: socket.socket) -> None:
        """Send on what the server answers."""
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)

    def accept(self, listener: socket.socket, behind: Path) -> None:
        """Connect each client with the server."""
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(behind / SOCKET))
                for work in (self.relay, self.answer):
                    threading.Thread(target=work, args=(client, server), daemon=True).start()


@contextmanager
def counted_server(server: PostgresServer) -> Iterator[RoundTrips]:
    """Yield the counts of a relay before a server."""
    with tempfile.TemporaryDirectory(prefix="pg-") as directory, socket.socket(socket.AF_UNIX) as listener:
        trips = RoundTrips(Path(directory))
        listener.bind(str(trips.directory / SOCKET))
        listener.listen()
        threading.Thread(target=trips.accept, args=(listener, server.directory), daemon=True).start()
        yield trips
        listener.shutdown(socket.SHUT_RDWR)
