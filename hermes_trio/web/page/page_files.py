"""The page: files of the package, read once and served from memory under the names they have.

What is asked for is looked up in a table, so no path can lead anywhere else. Who has no cookie gets the page
on which the key is asked for; the other files hold no secret and are open.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from ..http.http_errors import NotThere

if TYPE_CHECKING:
    from ..app import Web

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A file."""

    content: bytes
    kind: str
    tag: str
    """Another one whenever the content is."""

    def answer(self, request: Request, status: int = 200) -> Response:
        """The file, unless the browser has it."""
        headers = {"etag": self.tag, "cache-control": "no-cache", "content-type": self.kind}
        if status == 200 and self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.content, status, headers)


class Pages:
    """All files of the page."""

    def __init__(self) -> None:
        self._parts = {
            file.name: Part(content, KINDS[suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')
            for file in files(__package__).joinpath("static").iterdir()
            if (suffix := f".{file.name.rpartition('.')[2]}") in KINDS and (content := file.read_bytes())
        }

    def part(self, name: str) -> Part:
        """The file of this name. Raises `NotThere`."""
        try:
            return self._parts[name]
        except KeyError:
            raise NotThere("page", "GET / is the page.") from None


async def page(web: Web, request: Request) -> Response:
    """`GET /`: the page, or where the key is asked for."""
    name = "index.html" if web.auth.is_let_in(request) else "login.html"
    response = web.pages.part(name).answer(request)
    response.headers["vary"] = "cookie"
    return response


async def part(web: Web, request: Request) -> Response:
    """`GET /page/{name}`: a file of it."""
    return web.pages.part(request.path_params["name"]).answer(request)
