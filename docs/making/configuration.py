"""The page about the keys of `config.yaml`, made from their schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from hermes_trio.config.config_values import allowed_values
from hermes_trio.config.schema import GatewayConfig
from hermes_trio.config.section import Key, Section, keys

from .markdown import code, escaped, table


def configuration() -> Iterator[str]:
    """Yield the lines of the page about `config.yaml`."""
    yield "# Configuration keys\n"
    yield (
        "The file is `config.yaml` in the home directory. `${NAME}` in a value is replaced by the variable "
        "NAME of `.env` or of the environment. A wrong value stops the start with exit code 78. An unknown "
        "key causes a warning; in security settings it is an error. `hermes-trio config show` prints this "
        "list with the values in effect, and `hermes-trio config check` names every mistake.\n"
    )
    alone = [key for key in keys(GatewayConfig) if not (key.section or key.named)]
    yield "## Keys at the top level\n"
    yield from table(("Key", "Takes", "Default", "Meaning"), _key_rows(alone, ""))
    for key in keys(GatewayConfig):
        if key.section is not None:
            yield from _section(key.name, key.help, key.section)
        elif key.named is not None:
            yield from _section(f"{key.name}.NAME", key.help, key.named)


def _section(path: str, help_: str, section: type[Section]) -> Iterator[str]:
    """Yield one section, and each section in it after it."""
    yield f"## {path}\n"
    yield f"{escaped(help_)}\n"
    found = keys(section)
    yield from table(
        ("Key", "Takes", "Default", "Meaning"),
        _key_rows([key for key in found if not key.section], f"{path}."),
    )
    for key in found:
        if key.section is not None:
            yield from _section(f"{path}.{key.name}", key.help, key.section)


def _key_rows(found: Iterable[Key], prefix: str) -> Iterator[tuple[str, ...]]:
    for key in found:
        yield code(prefix + key.name), escaped(allowed_values(key)), _default(key.default), escaped(key.help)


def _default(value: object) -> str:
    if value is None:
        return "left out"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return code(msgspec.json.encode(value).decode())
