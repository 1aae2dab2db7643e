"""The files of the page, and the routes that serve them.

The files are read once and served from memory. A requested name is looked up in a table, so no path can lead
to another file. A browser without a cookie gets the log-in page; the other files contain no secret and are
open.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response

from ..http.auth import Auth
from ..http.http_errors import NotThere, Refusal

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file of the page."""

    content: bytes
    kind: str
    tag: str
    """A digest of the content."""

    def response(self, request: Request, status: int = 200) -> Response:
        """Return the file; 304 if the browser has it."""
        headers = {"etag": self.tag, "cache-control": "no-cache", "content-type": self.kind}
        if status == 200 and self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, status, headers)


class PageFiles:
    """All files of the page, by name."""

    def __init__(self) -> None:
        self._files = {
            file.name: PageFile(content, KINDS[suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')
            for file in files(__package__).joinpath("static").iterdir()
            if (suffix := f".{file.name.rpartition('.')[2]}") in KINDS and (content := file.read_bytes())
        }

    def file(self, name: str) -> PageFile:
        """Return the file with this name. Raises `NotThere`."""
        try:
            return self._files[name]
        except KeyError:
            raise NotThere("page", "GET / is the page.") from None


class PageRoutes:
    """The handlers of the page."""

    def __init__(self, auth: Auth) -> None:
        self._auth = auth
        self._files = PageFiles()

    async def page(self, request: Request) -> Response:
        """`GET /`: the page, or the log-in page."""
        name = "index.html" if self._auth.is_let_in(request) else "login.html"
        response = self._files.file(name).response(request)
        response.headers["vary"] = "cookie"
        return response

    async def file(self, request: Request) -> Response:
        """`GET /page/{name}`: a file of the page."""
        return self._files.file(request.path_params["name"]).response(request)

    async def log_in_by_link(self, request: Request) -> Response:
        """`GET /login?token=`: log a browser in with the link that `run` or `link` printed. Without a token
        the log-in page, which asks for the key."""
        if "token" not in request.query_params:
            response = self._files.file("login.html").response(request)
            response.headers["cache-control"] = "no-store"
            return response
        try:
            return await self._auth.log_in_by_link(request)
        except Refusal as refusal:
            if "text/html" not in request.headers.get("accept", ""):
                raise
            return self._files.file("login.html").response(request, refusal.status)
