"""What may be an id.

Session and run ids become names of directories and files, session keys become rows and log fields.
Both come from outside (the API, imported data), so each is checked at the door and again where a
path is built: a path is never made from text that did not pass here.
"""

from __future__ import annotations

import re

from .errors import InvalidId

_PATH_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]", re.ASCII)
# Names that Windows gives to devices, with any ending: `nul.jsonl` is the device too.
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.ASCII | re.IGNORECASE)
_KEY_LIMIT = 512


def path_safe_id(value: object, what: str = "session id") -> str:
    """`value` if it can name a file on every operating system; `InvalidId` if not."""
    if not isinstance(value, str) or not _PATH_SAFE.fullmatch(value):
        raise InvalidId(
            what, value, "1 to 128 letters, digits, '_', '.' or '-', not beginning with '.' or '-'"
        )
    if ".." in value or value.endswith(".") or _DEVICE.fullmatch(value):
        raise InvalidId(what, value, "'..', a dot at the end and names of devices are not allowed")
    return value


def session_key(value: object) -> str:
    """`value` if it can be a session key. A separator inside is legal: some chats have one in their
    ids (Google Chat's `spaces/AAA`); one at the start, `..` or a drive letter is an attempt to leave
    a directory."""
    if not isinstance(value, str) or not value or len(value) > _KEY_LIMIT:
        raise InvalidId("session key", value, f"1 to {_KEY_LIMIT} characters")
    if ".." in value or value[0] in "/\\" or _DRIVE.match(value) or not value.isprintable():
        raise InvalidId(
            "session key", value, "no '..', no separator in front, no drive, no control character"
        )
    return value
