"""A section of the configuration file as a struct: its keys, and a repr that masks secrets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from ..masking.secret_words import MASK, is_secret

_USER_IN_URL = re.compile(r"(?<=://)[^/@\s]+(?=@)")


def masked(key: str, value: object) -> object:
    """Return `value` with `***` in place of secrets, also nested ones, so that it can be shown."""
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
    """A mapping in the file. Its repr masks secrets, because a repr gets into logs and tracebacks."""

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"{type(self).__name__}({fields})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        return [(name, masked(name, getattr(self, name))) for name in self.__struct_fields__]


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file, as its field in the schema describes it."""

    name: str
    kind: Any
    help: str
    choices: tuple[str, ...]
    """The allowed words, if only certain words are allowed."""
    default: object
    section: type[Section] | None
    """The section below the key, if its value is a section."""
    named: type[Section] | None
    """The section below each name, if people choose the names below the key."""


def keys(section: type[Section]) -> list[Key]:
    """Return the keys of a section, in the order in which they are shown."""
    found = []
    for field in msgspec.structs.fields(section):
        if get_origin(field.type) is not Annotated:
            continue  # `options` is no key: it holds the keys that are not in the schema
        inner, *_, meta = get_args(field.type)
        default = field.default if field.default is not msgspec.NODEFAULT else {}
        choices = get_args(inner) if get_origin(inner) is Literal else ()
        section_below = inner if isinstance(inner, type) and issubclass(inner, Section) else None
        value = get_args(inner)[1] if get_origin(inner) is Mapping else None
        named = value if isinstance(value, type) and issubclass(value, Section) else None
        found.append(Key(field.name, field.type, meta.description, choices, default, section_below, named))
    return found
