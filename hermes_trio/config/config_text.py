"""Parse `config.yaml` and `.env` into plain values. This module knows none of our keys.

The YAML is read as a tree of nodes and not as Python objects, for three reasons: an id such as `+4912` or
`0042` keeps its spelling where text is needed, a tag cannot construct an object, and an alias that multiplies
itself is detected before it fills the memory. The messages of the parser are not passed on unchanged, because
they quote lines that may hold a secret.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from ..base.errors import ConfigInvalid

SIZE_LIMIT = 1024 * 1024
_NODE_LIMIT = 100_000
_DEPTH_LIMIT = 32

_TAG = "tag:yaml.org,2002:"
_SCALAR_TAGS = {f"{_TAG}{kind}" for kind in ("str", "timestamp", "value", "int", "float", "bool")}
_QUOTE = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*["]""")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value: its text in the file, and its value in YAML."""

    text: str
    value: str | int | float | bool


Tree = dict[str, "Tree"] | list["Tree"] | Scalar | None


def read_text(path: Path) -> str | None:
    """Return the text of a file, or None if there is no file. Raise `ConfigInvalid` if it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
    except FileNotFoundError as error:
        if path.is_symlink():  # settings are missing, and must not be ignored silently
            remedy = "Restore the file that it names, or remove the link."
            raise ConfigInvalid(str(path), "this is a link to a missing file", remedy) from error
        return None
    except OSError as error:
        # Windows reports "permission denied" for a directory.
        if os.path.isdir(path):  # `Path.is_dir` raises if a directory above is unreadable
            problem, remedy = "this is a directory", "Move it away: a file with this name is needed."
        else:
            problem = f"cannot be read ({error.strerror})"
            remedy = "Make it a file that your account can read."
        raise ConfigInvalid(str(path), problem, remedy) from error
    if len(content) > SIZE_LIMIT:
        remedy = "Check that this file is your configuration."
        raise ConfigInvalid(str(path), "larger than 1 MiB", remedy)
    try:
        # Editors on Windows write a byte order mark at the start.
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigInvalid(str(path), f"line {line} is not UTF-8", "Save the file as UTF-8.") from None


def parse_yaml(text: str, path: Path) -> dict[str, Tree]:
    """Return the mapping that a YAML text holds. Raise `ConfigInvalid`, with the place, if it holds none."""
    try:
        # A warning about a reused anchor would print lines of the file.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            root = YAML(typ="safe", pure=True).compose(text)
    except RecursionError:
        raise ConfigInvalid(str(path), "nested too deeply", "Use fewer levels.") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _refused(path, mark, _without_quotes(error), text) from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"line {line} holds a character that cannot be printed"
        raise ConfigInvalid(str(path), problem, "Remove it.") from None
    except (YAMLError, ValueError, OverflowError):
        # The parser raises the last two for `\U` and `%` escapes of characters that do not exist.
        raise ConfigInvalid(str(path), "not YAML", "Check its quotes and escapes.") from None
    if root is None:
        return {}
    tree = _tree(root, path, 0, iter(range(_NODE_LIMIT)))
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise _refused(path, root.start_mark, "expected a mapping, with lines such as `agent:`", text)
    return tree


def _tree(node: Node, path: Path, depth: int, budget: Iterator[int]) -> Tree:
    if depth > _DEPTH_LIMIT or next(budget, None) is None:
        raise _refused(path, node.start_mark, "too many values, or values nested too deeply")
    match node:
        case MappingNode(tag="tag:yaml.org,2002:map", value=list(pairs)):
            mapping: dict[str, Tree] = {}
            for key_node, value_node in pairs:
                key = _key(key_node, path)
                if key in mapping:
                    raise _refused(path, key_node.start_mark, f"the key {key} is repeated")
                mapping[key] = _tree(value_node, path, depth + 1, budget)
            return mapping
        case SequenceNode(tag="tag:yaml.org,2002:seq", value=list(items)):
            return [_tree(item, path, depth + 1, budget) for item in items]
        case ScalarNode(tag="tag:yaml.org,2002:null"):
            return None
        case ScalarNode(tag=str(tag), value=str(text)) if tag in _SCALAR_TAGS:
            if re.search("[\0\ud800-\udfff]", text):
                raise _refused(path, node.start_mark, "a character that is not allowed in text")
            return Scalar(text, _plain(tag.removeprefix(_TAG), text))
    raise _refused(path, node.start_mark, "a tag (`!…`), which has no meaning here")


def _key(node: Node, path: Path) -> str:
    match node:
        case ScalarNode(tag="tag:yaml.org,2002:merge"):
            raise _refused(path, node.start_mark, "`<<` is not supported; write the keys themselves")
        case ScalarNode(tag=str(tag), value=str(key)) if tag in _SCALAR_TAGS:
            if not key.isprintable() or not key:
                raise _refused(path, node.start_mark, "a key that cannot be printed")
            # Messages contain the names of keys. `{token:abc}` is a key named `token:abc`, with a secret in
            # it.
            if ":" in key and node.style is None:
                raise _refused(path, node.start_mark, "no space after the colon")
            return key
    raise _refused(path, node.start_mark, "a key must be a word")


def _plain(kind: str, text: str) -> str | int | float | bool:
    try:
        match kind:
            case "int":
                return int(text, 0) if text.lstrip("+-").startswith("0") else int(text)
            case "float":
                return float(text)
            case "bool":
                return text.lower() in ("true", "yes", "on")
    except ValueError:
        pass  # `0042`, `.inf` and a thousand digits stay text
    return text


def _without_quotes(error: MarkedYAMLError) -> str:
    """Return the message of the parser without longer pieces of the file. They may be secrets: YAML reads the
    password `*hunter2` as an alias."""
    problem = str(error.problem or error.context or "not YAML")
    problem = problem.replace("'<stream end>'", "the end of the file")
    return _QUOTE.sub(lambda found: found[0] if len(found[0]) <= 4 else "…", problem)


def _refused(path: Path, mark: StringMark | None, problem: str, text: str = "") -> ConfigInvalid:
    remedy = "Correct this place, and start again."
    if mark is not None:
        lines = text.split("\n")
        if mark.line < len(lines) and "${" in lines[mark.line]:
            remedy = 'Inside { } and [ ] a variable needs quotes: "${NAME}".'
        problem = f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
    return ConfigInvalid(str(path), problem, remedy)


_ENV_LINE = re.compile(
    r"""\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>[^\s'"#].*?)? )
    \s*(?:(?<=\s)\#.*)?""",
    re.VERBOSE,
)
_ENV_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def parse_env(text: str, path: Path) -> tuple[dict[str, str], list[str]]:
    """Return the variables of a `.env` file, and a warning for each malformed line."""
    variables: dict[str, str] = {}
    malformed: list[str] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _ENV_LINE.fullmatch(line)
        if found is None:
            malformed.append(f"{path}, line {number} is not KEY=value and is ignored")
            continue
        value = found["single"] or found["bare"] or ""
        if found["double"]:
            value = re.sub(r"\\(.)", lambda seen: _ENV_ESCAPES.get(seen[1], seen[1]), found["double"])
        variables[found["name"]] = value
    return variables, malformed
