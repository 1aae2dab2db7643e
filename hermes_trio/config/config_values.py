"""Turn the parsed tree of a file into checked values. Each mistake names the whole path of its key, and all
mistakes of a tree are reported together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from ..base.errors import ConfigFinding, ConfigInvalid
from .config_text import Scalar, Tree
from .schema import PlatformConfig
from .section import Key, Section, keys, masked

_PLATFORM_NAME = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_REFERENCE = re.compile(
    r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<odd>\{))"
)
_Section = TypeVar("_Section", bound=Section)


def join(path: str, name: str) -> str:
    """Return the path of a key. The top level of the file has the empty path."""
    return f"{path}.{name}" if path else name


def read_section(
    kind: type[_Section], tree: Tree, path: str, environ: Mapping[str, str], findings: list[ConfigFinding]
) -> _Section:
    """Return a section from its part of the tree. A key without a value counts as left out. A key with a
    wrong value is added to `findings` and gets its default."""
    if tree is None:
        return kind()
    if not isinstance(tree, dict):
        problem = f"expected keys below it, found {_described(tree)}"
        names = ", ".join(key.name for key in keys(kind))
        findings.append(ConfigFinding(path, problem, f"Write lines `key: value` below it. Keys: {names}."))
        return kind()
    values: dict[str, Any] = {}
    for key in keys(kind):
        value, where = tree.get(key.name), join(path, key.name)
        if value is None:
            continue
        if key.section:
            values[key.name] = read_section(key.section, value, where, environ, findings)
        elif key.named:
            values[key.name] = _named_sections(key.named, value, where, environ, findings)
        else:
            with collect_findings(findings):
                values[key.name] = _value(key, value, where, environ)
    return kind(**values)


@contextmanager
def collect_findings(findings: list[ConfigFinding]) -> Iterator[None]:
    """Add the findings of a `ConfigInvalid` raised in the block to `findings`, and continue after the
    block."""
    try:
        yield
    except ConfigInvalid as error:
        findings.extend(error.findings)


def _named_sections(
    kind: type[Section], tree: Tree, path: str, environ: Mapping[str, str], findings: list[ConfigFinding]
) -> dict[str, Section]:
    if not isinstance(tree, dict):
        problem = f"expected names below it, found {_described(tree)}"
        findings.append(ConfigFinding(path, problem, "Write lines `name:` below it, each with its keys."))
        return {}
    if kind is PlatformConfig:
        return {name: _platform(name, tree[name], join(path, name), environ, findings) for name in tree}
    return {name: read_section(kind, tree[name], join(path, name), environ, findings) for name in tree}


def _platform(
    name: str, tree: Tree, path: str, environ: Mapping[str, str], findings: list[ConfigFinding]
) -> PlatformConfig:
    if not _PLATFORM_NAME.fullmatch(name):
        remedy = "Write it in lower-case letters, such as telegram."
        findings.append(ConfigFinding(path, "not a name of a platform", remedy))
    own: dict[str, Tree] = {}
    if isinstance(tree, dict):
        home = tree.get("home_channel")
        if isinstance(home, Scalar):
            home = {"chat_id": home}
        if isinstance(home, dict):
            tree = {**tree, "home_channel": {**home, "platform": Scalar(name, name)}}
        in_schema = {key.name for key in keys(PlatformConfig)}
        own = {key: value for key, value in tree.items() if key not in in_schema}
    config = read_section(PlatformConfig, tree, path, environ, findings)
    options: dict[str, object] = {}
    for key in own:
        with collect_findings(findings):
            options[key] = _expanded(own[key], join(path, key), environ, typed=True)
    return msgspec.structs.replace(config, options=options)


def _value(key: Key, tree: Tree, path: str, environ: Mapping[str, str]) -> Any:
    """Return a single value or a list. The text in the file is tried first, so that an id keeps its spelling;
    then the value in YAML, which has more ways to write a number."""
    value = _expanded(tree, path, environ)
    try:
        return msgspec.convert(value, key.kind, strict=False)
    except msgspec.ValidationError as error:
        if isinstance(tree, Scalar) and value == tree.text:
            with suppress(msgspec.ValidationError):
                return msgspec.convert(tree.value, key.kind, strict=False)
        raise _wrong(key, tree, path, str(error)) from None


def _wrong(key: Key, tree: Tree, path: str, problem: str) -> ConfigInvalid:
    # The validator names the place in the value, as "- at `$[1]`" or "- at `$.chat_id`". The message shows
    # the text of the file and not the value of a variable in it, which may be a secret.
    verdict, place = "is not", re.search(r"`\$(?:\[(\d+)\]|\.(\w+))`$", problem)
    if place and isinstance(tree, list | dict):
        verdict = "inside it is wrong, it takes"
        tree = tree[int(place[1])] if isinstance(tree, list) else tree.get(place[2])
    default = ""
    if isinstance(key.default, str | int | float):
        default = f" for the default, {json.dumps(key.default)}"
    return ConfigInvalid(
        path,
        f"{_described(tree, key.name)} {verdict} {allowed_values(key)}",
        f"Correct it, or leave {key.name} out{default}.",
    )


def _described(tree: Tree, name: str = "") -> str:
    match tree:
        case Scalar() if name:
            text = str(masked(name, tree.text))
            return repr(text if len(text) <= 60 else text[:60] + "…")
        case Scalar():
            return "a single value"
        case list():
            return "a list"
        case dict():
            return "a mapping"
    return "nothing"


def allowed_values(key: Key) -> str:
    """Return a description of the values that a key takes."""
    return f"one of {', '.join(key.choices)}" if key.choices else _allowed_values(inspect.type_info(key.kind))


def _allowed_values(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(extra={"allowed": str(allowed)}):
            return allowed
        case inspect.Metadata():
            return _allowed_values(kind.type)
        case inspect.UnionType():
            known = (one for one in kind.types if not isinstance(one, inspect.NoneType))
            return " or ".join(map(_allowed_values, known))
        case inspect.IntType() | inspect.FloatType():
            number = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
            return f"{number} from {kind.ge:,} to {kind.le:,}"
        case inspect.BoolType():
            return "true or false"
        case inspect.VarTupleType():
            return "a list of names such as [one, two]"
        case inspect.DictType():
            return "a mapping of names to text such as {NAME: text}"
        case inspect.StrType(min_length=1):
            return "text of at least one character"
    return "text"


def _expanded(tree: Tree, path: str, environ: Mapping[str, str], *, typed: bool = False) -> Any:
    """Return the tree as plain values, with variables replaced. `typed` keeps the types that YAML reads."""
    if isinstance(tree, dict):
        return {
            name: _expanded(value, join(path, name), environ, typed=typed) for name, value in tree.items()
        }
    if isinstance(tree, list):
        return [_expanded(value, path, environ, typed=typed) for value in tree]
    if tree is None or (typed and not isinstance(tree.value, str)):
        return tree and tree.value

    def value_of(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        if found["odd"]:
            remedy = "Write ${NAME} or ${NAME:-default}; $$ is a plain $."
            raise ConfigInvalid(path, "it has a malformed ${…}", remedy)
        value = environ.get(found["name"])
        if not value and found["default"] is not None:
            return found["default"]
        if value is None:
            problem = f"the environment variable {found['name']} is not set"
            remedy = f"Set it in the environment or in .env, or write ${{{found['name']}:-default}}."
            raise ConfigInvalid(path, problem, remedy)
        return value

    return _REFERENCE.sub(value_of, tree.text)
