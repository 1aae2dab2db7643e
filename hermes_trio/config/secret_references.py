"""A `config.yaml` that can leave the machine: a reference to a variable stands for each secret in it.

Everything else in the file stays as it is, with its comments. A start with the new file names each variable
that is not set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ..masking.redaction import Masking
from .config_text import parse_yaml

_COMMENT = re.compile(r"#.*")
_NO_NAME = re.compile(r"\W+", re.ASCII)


def with_references(text: str, masking: Masking) -> tuple[str, tuple[str, ...]]:
    """Return the text of a configuration with a reference such as `${PLATFORMS_TELEGRAM_TOKEN}` in place of
    each value that holds a known secret, and the names of these variables. Raise `ConfigInvalid` if the text
    is no configuration, before or after."""
    path = Path("config.yaml")
    parse_yaml(text, path)
    parts, names, end = list[str](), list[str](), 0
    for name, node in _scalars(YAML(typ="safe", pure=True).compose(text), ""):
        start, stop = node.start_mark.index, node.end_mark.index
        if start < end:
            continue  # an alias: its value stands elsewhere
        parts.append(_COMMENT.sub(lambda comment: masking(comment[0]), text[end:start]))
        if masking.known(node.value) != node.value:
            names.append(name)
            line_end = "\n" if text[start:stop].endswith("\n") else ""
            parts.append(f'"${{{name}}}"{line_end}')
        else:
            parts.append(text[start:stop])
        end = stop
    parts.append(_COMMENT.sub(lambda comment: masking(comment[0]), text[end:]))
    shared = "".join(parts)
    parse_yaml(shared, path)
    return shared, tuple(names)


def _scalars(node: Node | None, name: str) -> Iterator[tuple[str, ScalarNode]]:
    """Yield each scalar of a tree in the order of the text, with the name of a variable for it."""
    match node:
        case ScalarNode():
            yield name, node
        case SequenceNode(value=list(items)):
            for number, item in enumerate(items, 1):
                yield from _scalars(item, f"{name}_{number}")
        case MappingNode(value=list(pairs)):
            for key, value in pairs:
                part = _NO_NAME.sub("_", str(key.value)).upper()
                yield from _scalars(value, f"{name}_{part}" if name else part)
