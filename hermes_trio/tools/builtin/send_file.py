"""The tool `send_file`: send the person a file in the chat."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from ..paths import PathRefused, Territory, open_to_read
from ..tool import Result, Tool, ToolFailed, Workplace

MOST_BYTES = 20_000_000
LONGEST_CAPTION = 900


class SendFileArguments(msgspec.Struct, frozen=True):
    path: Annotated[str, Meta(description="Which file.")]
    caption: Annotated[str, Meta(max_length=LONGEST_CAPTION, description="A few words about it.")] = ""


async def _send_file(arguments: SendFileArguments, place: Workplace) -> Result:
    territory = place.sandbox.territory
    name, data = await trio.to_thread.run_sync(
        partial(_read, territory, arguments.path), abandon_on_cancel=True
    )
    if not await place.send_file(name, data, arguments.caption):
        raise ToolFailed("This chat takes no files. Tell the person where the file is, or what is in it.")
    return Result(f"{name} ({len(data)} bytes) is on its way.")


def _read(territory: Territory, path: str) -> tuple[str, bytes]:
    try:
        real = territory.find(path)
        fd, facts = open_to_read(real)
        with open(fd, "rb") as file:
            if facts.st_size > MOST_BYTES:
                raise ToolFailed(f"{path} has {facts.st_size} bytes; the limit is {MOST_BYTES}.")
            data = file.read(MOST_BYTES + 1)
    except PathRefused as error:
        raise ToolFailed(str(error)) from error
    except OSError as error:
        raise ToolFailed(f"{path}: {error.strerror or error}.") from error
    if not data:
        raise ToolFailed(f"{path} is empty, and no chat takes an empty file.")
    return Path(real).name, data


SEND_FILE = Tool(
    "send_file",
    "Sends the person a file: a picture, a document, a recording. They see it in the chat.",
    SendFileArguments,
    _send_file,
)
