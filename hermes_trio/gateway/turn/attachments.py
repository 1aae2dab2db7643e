"""Attachments: files that people send, and files that are sent to them.

A message is accepted before its files are downloaded, so that a large file delays nobody. They are downloaded
when the turn that answers them is next, stored in the home, and named in the text for the agent; a file that
cannot be downloaded is named with the reason. Each session has a directory of its own, and only its agent may
read there. The name of a file is made from its id, so downloading it again yields the same file.

It may touch the link of the chat and the files of the session.
"""

from __future__ import annotations

import hashlib
import mimetypes
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import trio

from ...agent.providers.pictures import is_picture, prepare
from ...base.errors import GatewayError
from ...base.messages import Attachment, AttachmentKind, StoredFile
from ...config.remote_section import REMOTE
from ...host.files.private_files import make_private_dir, open_private
from ...host.loop.worker import finished
from ...log import Log
from ...state.tables.inbox import Received
from ...tools.paths import files_of
from ..home.open_home import Home
from ..links.link import Connection, calling

MOST_BYTES = 20_000_000
MOST_FILES = 20
"""Limit of files per turn; the others are named and not downloaded."""
FETCH_WITHIN = 60.0
"""Seconds for all files of a turn."""

MOST_OF_A_PICTURE = 10_000_000
"""A larger picture is sent as a document."""

_PICTURES = ("image/png", "image/jpeg", "image/webp")
_UNUSUAL = re.compile(r"[^\w.-]+")
_ENDINGS = {"photo": ".jpg", "voice": ".ogg", "audio": ".mp3", "video": ".mp4", "sticker": ".webp"}

_NOTE = "[Sent along: "

log = Log(__name__)


async def with_files(
    home: Home, connection: Connection, session_id: str, rows: Sequence[Received]
) -> list[Received]:
    """Return the messages of a chat with their files downloaded, and named in their texts."""
    remaining, done = MOST_FILES, list[Received]()
    elsewhere = home.config.terminal.sandbox in REMOTE
    with trio.move_on_after(FETCH_WITHIN) as patience:
        for row in rows:
            files, notes = list[Attachment](), list[str]()
            for file in row.event.attachments:
                remaining -= 1
                if remaining >= 0:
                    fetched, trouble = await _fetch(home, connection, session_id, file)
                else:
                    fetched, trouble = file, ""
                files.append(fetched)
                notes.append(_describe(fetched, trouble, elsewhere=elsewhere))
            done.append(_with_notes(row, files, notes))
    if patience.cancelled_caught:
        log.warning("attachments not downloaded in time", session=session_id)
        for row in rows[len(done) :]:
            files = [*row.event.attachments]
            done.append(_with_notes(row, files, [_describe(one, "it did not come in time") for one in files]))
    return done


async def _fetch(
    home: Home, connection: Connection, session_id: str, file: Attachment
) -> tuple[Attachment, str]:
    """Return the downloaded file and an empty text; or the file unchanged, and why it was not downloaded."""
    if file.path:
        return file, await _prepare(home, Path(file.path))
    if file.url or not file.file_id:
        return file, ""
    if not connection.adapter.traits.fetches:
        return file, "this platform hands out no files"
    if file.size is not None and file.size > MOST_BYTES:
        return file, f"it has {_size(file.size)}, and the limit is {_size(MOST_BYTES)}"
    place = files_of(home.path, session_id) / _name(file)
    try:
        with calling(connection):
            data = await (await connection.up()).fetch(file.file_id, MOST_BYTES)
        await _store(home, place, data)
    except (GatewayError, OSError) as error:
        log.warning("attachment not downloaded", session=session_id, error=str(error))
        return file, connection.problem(error)
    return replace(file, path=str(place), size=len(data)), await _prepare(home, place)


async def _prepare(home: Home, place: Path) -> str:
    """Make the copy of a picture that models are shown. Return why they will not see it, or an empty text."""
    try:
        with home.worker("files") as runner:
            return await finished(runner, partial(prepare, place))
    except OSError as error:
        return error.strerror or str(error)


def reference(name: str, mime_type: str | None, data: bytes) -> StoredFile:
    """Return the reference to a file that a client sent. The same content under the same name is one file."""
    digest = hashlib.sha256(data).hexdigest()
    return StoredFile(_name(Attachment("document", name, file_id=digest)), mime_type, len(data))


async def keep_upload(home: Home, session_id: str, file: StoredFile, data: bytes) -> None:
    """Store a file that a client sent, in the directory of this session."""
    await _store(home, files_of(home.path, session_id) / file.name, data)


def attached(home: Path, session_id: str, file: StoredFile) -> Attachment:
    """Return a stored file as a part of a message."""
    kind: AttachmentKind = "photo" if is_picture(file.name, file.mime_type) else "document"
    place = files_of(home, session_id) / file.name
    return Attachment(kind, shown_name(file.name), file.mime_type, file.size, str(place))


def shown_name(stored: str) -> str:
    """Return the name of a stored file without the digest before it."""
    return stored.partition("-")[2] or stored


async def keep(home: Home, session_id: str, file_id: str, name: str, data: bytes) -> Attachment:
    """Store a copy of a file that is going to be sent."""
    mime_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    kind: AttachmentKind = "document"
    if mime_type in _PICTURES and len(data) <= MOST_OF_A_PICTURE:
        kind = "photo"
    elif mime_type == "audio/ogg":
        kind = "voice"
    file = Attachment(kind, name, mime_type, len(data), file_id=file_id)
    place = files_of(home.path, session_id) / _name(file)
    await _store(home, place, data)
    return replace(file, path=str(place), file_id=None)


async def _store(home: Home, place: Path, data: bytes) -> None:
    with home.worker("files") as runner:
        await finished(runner, partial(_write, place, data))


def _write(place: Path, data: bytes) -> None:
    make_private_dir(place.parent)
    with os.fdopen(open_private(place, os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)


def _name(file: Attachment) -> str:
    """Return the name under which a file is stored: made from its id, with the harmless characters of its own
    name."""
    given = _UNUSUAL.sub("_", file.name or file.kind).strip("._")[-60:] or file.kind
    if "." not in given:
        given += _ENDINGS.get(file.kind, "")
    return f"{hashlib.sha256((file.file_id or '').encode()).hexdigest()[:12]}-{given}"


def _describe(file: Attachment, trouble: str, *, elsewhere: bool = False) -> str:
    """Return the line that names a file to the agent, whose commands may run elsewhere. A name is data and
    cannot close the bracket."""
    name = _UNUSUAL.sub("_", file.name or "")
    what = " ".join(part for part in (file.kind, name) if part)
    facts = ", ".join(part for part in (file.mime_type, _size(file.size) if file.size else None) if part)
    what = f"{what} ({facts})" if facts else what
    if file.path and elsewhere:
        return f"{_NOTE}{what}; kept by the gateway, where your commands do not reach it]"
    if file.path or file.url:
        unseen = f"; you cannot see it: {trouble}" if trouble else ""
        return f"{_NOTE}{what}: {file.path or file.url}{unseen}]"
    return f"{_NOTE}{what}; not fetched{': ' + trouble if trouble else ''}]"


def _with_notes(row: Received, files: Sequence[Attachment], notes: Sequence[str]) -> Received:
    """Return the message with these files. After /retry its text may name them already."""
    new = [note for note in notes if note not in row.event.text]
    text = "\n".join([row.event.text, *new] if row.event.text else new)
    return replace(row, event=replace(row.event, text=text, attachments=tuple(files)))


def without_notes(text: str) -> str:
    """Return the text of a person without the lines that name the files."""
    return "\n".join(line for line in text.split("\n") if not line.startswith(_NOTE)).rstrip("\n")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{max(1, round(count / 1000))} kB"
