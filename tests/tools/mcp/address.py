"""An MCP server at an address of this machine. It answers by HTTP, and can forget its sessions, stop
answering, or require a key."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Address(ThreadingHTTPServer):
    """The server: the requests that it got, and how it answers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.key = "Bearer key-0123456789"
        self.sessions: set[str] = set()
        self.began = 0
        self.ended: list[str] = []
        self.asked: list[str] = []
        self.held = threading.Event()
        """When set, hanging requests are answered."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/mcp"


class _Handler(BaseHTTPRequestHandler):
    server: Address
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(message.get("method", "answer"))
        if self.headers["authorization"] != self.server.key:
            self._send(401, {"error": "who are you?"})
        elif "id" not in message:
            if message["method"] == "notifications/cancelled":
                self.server.held.wait(30)
            self._send(202)
        elif message["method"] == "server/discover":
            self._error(message, "no such method")
        elif message["method"] == "initialize":
            self.server.began += 1
            session = f"session-{self.server.began}"
            self.server.sessions.add(session)
            version = message["params"]["protocolVersion"]
            info = {"name": "far", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            self._send(200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, session=session)
        elif self.headers["mcp-session-id"] not in self.server.sessions:
            self._send(404)
        else:
            self._send(200, {"jsonrpc": "2.0", "id": message["id"], "result": self._result(message)})

    def _result(self, message: dict[str, Any]) -> dict[str, Any]:
        if message["method"] == "tools/list":
            word = {"type": "object", "properties": {"word": {"type": "string"}}}
            return {"tools": [{"name": name, "inputSchema": word} for name in ("spell", "hang")]}
        if message["params"]["name"] == "hang":
            self.server.held.wait(30)
        said = "-".join(message["params"]["arguments"]["word"])
        return {"content": [{"type": "text", "text": said}]}

    def _error(self, message: dict[str, Any], problem: str) -> None:
        error = {"code": -32601, "message": problem}
        self._send(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})

    def do_GET(self) -> None:
        self._send(405)

    def do_DELETE(self) -> None:
        self.server.ended.append(self.headers["mcp-session-id"])
        self._send(200)

    def _send(self, status: int, body: object = None, *, session: str = "") -> None:
        content = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        if session:
            self.send_header("mcp-session-id", session)
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def address() -> Iterator[Address]:
    """Run such a server for as long as the block."""
    with Address() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.held.set()
            server.shutdown()
            thread.join()
