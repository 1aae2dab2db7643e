"""HTTP of servers for tests: requests with parameters in the URL, as a form, as JSON or as multipart with
files, and answers in JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

ReceiveSome = Callable[[int], Awaitable[bytes | bytearray]]

_READ_AT_ONCE = 1 << 16


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file that came with a request."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request with its parameters."""

    method: str
    path: str
    params: Mapping[str, Any]
    files: Mapping[str, UploadedFile] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """By their names in small letters."""
    body: bytes = b""
    target: str = ""
    """Path and query as they came."""


class BadRequest(Exception):
    """The request is not valid HTTP, or its parameters cannot be read."""


class RequestReader:
    """Reader of requests from a byte stream. A cancelled read loses nothing."""

    def __init__(self, receive_some: ReceiveSome) -> None:
        self._receive_some, self._data = receive_some, bytearray()

    def rest(self) -> bytes:
        """Take the bytes that were received after the last request: they may be of another protocol."""
        rest = bytes(self._data)
        self._data.clear()
        return rest

    async def more(self) -> bool:
        """Receive more bytes; False at the end of the connection."""
        data = await self._receive_some(_READ_AT_ONCE)
        self._data += data
        return bool(data)

    async def read(self) -> HttpRequest | None:
        """Read the next request; None at the end of the connection, even within a request."""
        while (end := self._data.find(b"\r\n\r\n")) < 0:
            if not await self.more():
                return None
        first, *lines = self._data[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body_at = end + 4
        body_end = body_at + int(headers.get("content-length", 0))
        while len(self._data) < body_end:
            if not await self.more():
                return None
        body = bytes(self._data[body_at:body_end])
        del self._data[:body_end]
        return _request(first, headers, body)


def _request(first: str, headers: Mapping[str, str], body: bytes) -> HttpRequest:
    kind = headers.get("content-type", "")
    try:
        method, target, _ = first.split(" ")
        url = urlsplit(target)
        params: dict[str, Any] = dict(parse_qsl(url.query, keep_blank_values=True))
        files: dict[str, UploadedFile] = {}
        if body and kind.startswith("application/json"):
            content = json.loads(body)
            params |= content if isinstance(content, dict) else {"": content}
        elif kind.startswith("application/x-www-form-urlencoded"):
            params |= parse_qsl(body.decode(), keep_blank_values=True)
        elif kind.startswith("multipart/form-data"):
            _take_parts(kind, body, params, files)
    except (ValueError, TypeError) as error:
        raise BadRequest(str(error)) from error
    return HttpRequest(method, unquote(url.path), params, files, headers, body, target)


def _take_parts(kind: str, body: bytes, params: dict[str, Any], files: dict[str, UploadedFile]) -> None:
    head = f"Content-Type: {kind}\r\n\r\n".encode("latin-1")
    whole = BytesParser(policy=policy.HTTP).parsebytes(head + body)
    for part in whole.iter_parts():
        if not isinstance(part, EmailMessage):
            continue
        name = part.get_param("name", header="content-disposition")
        data, file_name = part.get_payload(decode=True), part.get_filename()
        if not isinstance(name, str) or not isinstance(data, bytes):
            raise ValueError("A part has no name.")
        if file_name is None:
            params[name] = data.decode()
        else:
            files[name] = UploadedFile(file_name, data)


def response(status: int, body: object, headers: Mapping[str, str] | None = None) -> bytes:
    """Return a response; the body is converted to JSON unless it is bytes."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
    lines = {"content-type": kind, "content-length": str(len(data)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode("latin-1") + data
