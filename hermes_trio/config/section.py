"""A section of the configuration file as a struct: its keys, and a repr that masks secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

# A key named like this holds a secret wherever it stands, so a platform's own keys are covered
# before anybody has told us about them. `keys` or `monkey` are no such names, `apiKey` is.
_SECRET_NAME = re.compile(
    r"(?i:token|secret|passw|passphrase|pwd|credential|cookie|bearer|authorization|private|signing|hook_?url"
    r"|(?:^|[_-])(?:auth|key|pw|pin)$)|[a-z]Key$"
)
_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")

MASK = "***"


def is_secret(key: str) -> bool:
    """Whether the value of a key of this name is never to be shown."""
    return _SECRET_NAME.search(key) is not None


def masked(key: str, value: object) -> object:
    """`value` as it may be shown under `key`: secrets, also nested ones, are `***`."""
    if isinstance(value, Mapping):
        return {name: masked(str(name), inner) for name, inner in value.items()}
    if value is None or value == "":
        return value
    if is_secret(key):
        return MASK
    if isinstance(value, list | tuple):
        return [masked(key, inner) for inner in value]
    return _USER_IN_URL.sub(MASK, value) if isinstance(value, str) else value


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A mapping of the file. Its repr masks secrets, because a repr ends up in logs and traces."""

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [(name, masked(name, getattr(self, name))) for name in self.__struct_fields__]


@dataclass(frozen=True, slots=True)
class Key:
    """What the structs below say about one key of the file."""

    name: str
    kind: Any
    help: str
    choices: tuple[str, ...]
    """Its words, if it takes only certain ones."""
    default: object
    section: type[Section] | None
    """The section it opens, if it is no single value."""
    named: type[Section] | None
    """The section behind each name, where people choose the names."""


def keys(section: type[Section]) -> list[Key]:
    """The keys a section has in the file, in the order in which they are shown."""
    found = []
    for field in msgspec.structs.fields(section):
        if get_origin(field.type) is not Annotated:
            continue  # `options`: no key of its own, but what is left over
        inner, *_, meta = get_args(field.type)
        default = field.default if field.default is not msgspec.NODEFAULT else {}
        choices = get_args(inner) if get_origin(inner) is Literal else ()
        opens = inner if isinstance(inner, type) and issubclass(inner, Section) else None
        behind = get_args(inner)[1] if get_origin(inner) is Mapping else None
        named = behind if isinstance(behind, type) and issubclass(behind, Section) else None
        found.append(Key(field.name, field.type, meta.description, choices, default, opens, named))
    return found
