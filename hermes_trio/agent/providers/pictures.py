"""Pictures that a model is shown.

A conversation has a picture by reference. A model gets a copy of a limited size, which is made once, beside
the file, when the picture arrives. Without the package Pillow no copy can be made, and a picture within the
limits is sent as it is.
"""

from __future__ import annotations

import os
from base64 import b64encode
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.extras import install_command
from ...host.files.private_files import open_private

if TYPE_CHECKING:
    from PIL.Image import Image

TOKENS = 1_600
"""About the length of a picture of the largest size, in tokens."""

_LONGEST_EDGE = 1_568
"""In pixels. Models scale larger pictures down themselves, after they were sent and paid for."""
_LARGEST = 3_700_000
"""In bytes; 5 MB when it is encoded, which every provider accepts."""
_LARGE = 1_000_000
"""A larger picture is encoded anew."""
_MOST_PIXELS = 60_000_000
"""A larger picture is not decoded: its pixels need memory, whatever the size of its file."""
_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_COPY = ".shown.jpg"


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture in a message, by its name in the directory of the session's files."""

    name: str


@dataclass(frozen=True, slots=True)
class EncodedPicture:
    """A picture as the wire formats send it."""

    mime_type: str
    base64: str


def picture_type(data: bytes) -> str | None:
    """Return the MIME type of a picture that models accept, by its first bytes; None for another file."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def is_picture(name: str, mime_type: str | None) -> bool:
    """Return True if a stored file is a picture that models accept, by its name and its declared type."""
    return mime_type in _TYPES or name.lower().endswith(_ENDINGS)


def is_copy(name: str) -> bool:
    """Return True for the name of a copy that was made for models."""
    return name.endswith(_COPY)


def prepare(path: Path) -> str:
    """Make the copy of a picture for models, if it needs one. Return why no model will see the picture, or
    an empty text. A file that is no picture is left alone."""
    data = path.read_bytes()
    if picture_type(data) is None:
        return ""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        if len(data) <= _LARGEST:
            return ""
        return f"it is too large for a model; `{install_command('pictures')}` lets it be scaled"
    try:
        with Image.open(BytesIO(data)) as image:
            if image.width * image.height > _MOST_PIXELS:
                return f"it has more than {_MOST_PIXELS // 1_000_000} million pixels"
            if max(image.size) > _LONGEST_EDGE or len(data) > _LARGE:
                _write(path, _scaled(image))
    except (OSError, ValueError, SyntaxError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        return f"it cannot be read as a picture ({error.__class__.__name__})"
    return ""


def encoded(folder: Path | None, picture: Picture) -> EncodedPicture | None:
    """Return a picture of a session's directory; None if it is not kept any more, or is too large.

    This reads a file of at most 4 MB that was mostly written a moment ago, once for each conversation."""
    if folder is None:
        return None
    for name in (picture.name + _COPY, picture.name):
        try:
            with (folder / name).open("rb") as file:
                data = file.read(_LARGEST + 1)
        except OSError:
            continue
        mime_type = picture_type(data)
        if mime_type is not None and len(data) <= _LARGEST:
            return EncodedPicture(mime_type, b64encode(data).decode())
    return None


def _scaled(image: Image) -> bytes:
    """Return the picture as a JPEG of the size for models, upright, and without its metadata."""
    from PIL import Image as Images
    from PIL import ImageOps

    image.draft("RGB", (_LONGEST_EDGE, _LONGEST_EDGE))  # decodes a JPEG at a smaller size
    upright = ImageOps.exif_transpose(image)
    upright.thumbnail((_LONGEST_EDGE, _LONGEST_EDGE))
    if upright.mode != "RGB":
        coloured = upright.convert("RGBA")
        upright = Images.new("RGB", coloured.size, "white")
        upright.paste(coloured, mask=coloured.getchannel("A"))
    out = BytesIO()
    upright.save(out, "JPEG", quality=85)
    return out.getvalue()


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(open_private(path.with_name(path.name + _COPY), os.O_WRONLY | os.O_TRUNC), "wb") as file:
        file.write(data)
