"""Files of this machine that are sent with a message."""

from __future__ import annotations

import trio

from hermes_trio.platform import Attachment, Refused


async def read_attached(file: Attachment, service: str) -> tuple[str, bytes]:
    """Return the name and the content of a file. Raises `Refused`."""
    if file.path is None:
        raise Refused(f"{service} takes files of this machine only.")
    try:
        data = await trio.Path(file.path).read_bytes()
    except OSError as error:
        raise Refused(f"{file.path} cannot be read: {error.strerror}.") from error
    return file.name or trio.Path(file.path).name, data
