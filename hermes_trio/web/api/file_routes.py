"""The files of a session: sent by a client before the message that they belong to, and read again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

import trio
from starlette.requests import Request
from starlette.responses import Response

from ...agent.providers.pictures import is_copy, picture_type
from ...gateway.operations.gateway_actions import KeepFile
from ...gateway.turn.attachments import MOST_BYTES, reference, shown_name
from ...tools.paths import files_of
from ..http.http_errors import NotThere, Refusal, json_response, read_body
from .session_lookup import id_of

_LONGEST_NAME = 255
_NO_FILE = ("file", "Its session names its files. They are kept for `retention.files_days` days.")


@dataclass(frozen=True, slots=True)
class FileRoutes:
    """The handlers of files."""

    home: Path
    keep: KeepFile

    async def send(self, request: Request) -> Response:
        """`POST /api/sessions/{id}/files?name=`: store the body as a file, for the attachments of a message.
        201, with its name in the session; the same content under the same name is one file."""
        name = request.query_params.get("name", "")[:_LONGEST_NAME] or "file"
        data = await read_body(request, MOST_BYTES)
        if not data:
            raise Refusal(400, "empty_file", "The file is empty.", "Choose another file.")
        declared = request.headers.get("content-type", "").partition(";")[0].strip().lower() or None
        file = reference(name, picture_type(data) or declared, data)
        await self.keep(id_of(request), file, data)
        return json_response({"file": file}, 201)

    async def one(self, request: Request) -> Response:
        """`GET /api/sessions/{id}/files/{file}`: the content of a file, as a download unless it is a
        picture."""
        name = request.path_params["file"]
        if name.startswith(".") or is_copy(name) or "\0" in name or "\\" in name:
            raise NotThere(*_NO_FILE)
        data = await trio.to_thread.run_sync(
            partial(_read, files_of(self.home, id_of(request)) / name), abandon_on_cancel=True
        )
        kind = picture_type(data)
        disposition = "inline" if kind else f"attachment; filename*=UTF-8''{quote(shown_name(name), safe='')}"
        headers = {"content-disposition": disposition, "content-type": kind or "application/octet-stream"}
        return Response(data, headers=headers)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotThere(*_NO_FILE) from error
