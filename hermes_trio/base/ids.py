"""The rules for ids, and the functions that check them.

Session and run ids become names of directories and files; session keys become rows and log fields. Both
come from outside (the API, imported data), so each is checked when it arrives, and again when a path is
made: no path is made from a text that was not checked here.
"""

from __future__ import annotations

import re

from .errors import InvalidId

_PATH_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]", re.ASCII)
# Names of devices on Windows, with any suffix: `nul.jsonl` is the device too.
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.ASCII | re.IGNORECASE)
_KEY_LIMIT = 512


def path_safe_id(value: object, what: str = "session id") -> str:
    """Return `value` if it can name a file on every operating system. Raise `InvalidId` if not."""
    if not isinstance(value, str) or not _PATH_SAFE.fullmatch(value):
        raise InvalidId(
            what, value, "1 to 128 letters, digits, '_', '.' or '-', not beginning with '.' or '-'"
        )
    if ".." in value or value.endswith(".") or _DEVICE.fullmatch(value):
        raise InvalidId(what, value, "'..', a dot at the end and names of devices are not allowed")
    return value


def session_key(value: object) -> str:
    """Return `value` if it can be a session key. Raise `InvalidId` if not. A separator inside is legal,
    because the ids of some chats have one (`spaces/AAA` of Google Chat). A separator at the start, `..` or a
    drive letter is an attempt to leave a directory."""
    if not isinstance(value, str) or not value or len(value) > _KEY_LIMIT:
        raise InvalidId("session key", value, f"1 to {_KEY_LIMIT} characters")
    if ".." in value or value[0] in "/\\" or _DRIVE.match(value) or not value.isprintable():
        raise InvalidId(
            "session key", value, "no '..', no separator at the start, no drive, no control character"
        )
    return value
