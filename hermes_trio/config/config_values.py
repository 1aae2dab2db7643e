"""From a tree of what was written to checked values; each mistake names the whole path of its key, and all
mistakes of a tree are told together."""

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
    """The path of a key; the top of the file has the empty path."""
    return f"{path}.{name}" if path else name


def section(
    kind: type[_Section], tree: Tree, path: str, environ: Mapping[str, str], findings: list[ConfigFinding]
) -> _Section:
    """Return a section made from its part of the tree. A key without a value counts as left out. A key with
    a wrong value is added to `findings` and gets its default."""
    if tree is None:
        return kind()
    if not isinstance(tree, dict):
        problem = f"{_described(tree)} stands where its keys should"
        names = ", ".join(key.name for key in keys(kind))
        findings.append(
            ConfigFinding(path, problem, f"Below it goes a line `key: value` for any of {names}.")
        )
        return kind()
    values: dict[str, Any] = {}
    for key in keys(kind):
        value, where = tree.get(key.name), join(path, key.name)
        if value is None:
            continue
        if key.section:
            values[key.name] = section(key.section, value, where, environ, findings)
        elif key.named:
            values[key.name] = _named(key.named, value, where, environ, findings)
        else:
            with collected(findings):
                values[key.name] = _value(key, value, where, environ)
    return kind(**values)


@contextmanager
def collected(findings: list[ConfigFinding]) -> Iterator[None]:
    """Add what a `ConfigInvalid` raised in the block has found to `findings`, and go on after the block."""
    try:
        yield
    except ConfigInvalid as error:
        findings.extend(error.findings)


def _named(
    kind: type[Section], tree: Tree, path: str, environ: Mapping[str, str], findings: list[ConfigFinding]
) -> dict[str, Section]:
    if not isinstance(tree, dict):
        problem = f"{_described(tree)} stands where names should"
        findings.append(
            ConfigFinding(path, problem, "Below it goes a line `name:` with its keys below that.")
        )
        return {}
    if kind is PlatformConfig:
        return {name: _platform(name, tree[name], join(path, name), environ, findings) for name in tree}
    return {name: section(kind, tree[name], join(path, name), environ, findings) for name in tree}


def _platform(
    name: str, tree: Tree, path: str, environ: Mapping[str, str], findings: list[ConfigFinding]
) -> PlatformConfig:
    if not _PLATFORM_NAME.fullmatch(name):
        findings.append(ConfigFinding(path, "not a name of a platform", "Write it small, such as telegram."))
    own: dict[str, Tree] = {}
    if isinstance(tree, dict):
        home = tree.get("home_channel")
        if isinstance(home, Scalar):
            home = {"chat_id": home}
        if isinstance(home, dict):
            tree = {**tree, "home_channel": {**home, "platform": Scalar(name, name)}}
        ours = {key.name for key in keys(PlatformConfig)}
        own = {key: value for key, value in tree.items() if key not in ours}
    config = section(PlatformConfig, tree, path, environ, findings)
    options: dict[str, object] = {}
    for key in own:
        with collected(findings):
            options[key] = _expanded(own[key], join(path, key), environ, typed=True)
    return msgspec.structs.replace(config, options=options)


def _value(key: Key, tree: Tree, path: str, environ: Mapping[str, str]) -> Any:
    """A single value or a list. The text as written goes first, so that an id keeps its spelling;
    then what YAML makes of it, which knows more ways to write a number."""
    value = _expanded(tree, path, environ)
    try:
        return msgspec.convert(value, key.kind, strict=False)
    except msgspec.ValidationError as error:
        if isinstance(tree, Scalar) and value == tree.text:
            with suppress(msgspec.ValidationError):
                return msgspec.convert(tree.value, key.kind, strict=False)
        raise _wrong(key, tree, path, str(error)) from None


def _wrong(key: Key, tree: Tree, path: str, problem: str) -> ConfigInvalid:
    # The validator says where in the value it stumbled, as "- at `$[1]`" or "- at `$.chat_id`".
    # Shown is what the file says, not what a variable put in its place: that may be a secret.
    verdict, place = "is not", re.search(r"`\$(?:\[(\d+)\]|\.(\w+))`$", problem)
    if place and isinstance(tree, list | dict):
        verdict = "inside it is wrong, it takes"
        tree = tree[int(place[1])] if isinstance(tree, list) else tree.get(place[2])
    default = ""
    if isinstance(key.default, str | int | float):
        default = f" for the default, {json.dumps(key.default)}"
    return ConfigInvalid(
        path,
        f"{_described(tree, key.name)} {verdict} {wanted(key)}",
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


def wanted(key: Key) -> str:
    """What a key takes, in words."""
    return f"one of {', '.join(key.choices)}" if key.choices else _wanted(inspect.type_info(key.kind))


def _wanted(kind: inspect.Type) -> str:
    match kind:
        case inspect.Metadata(extra={"wants": str(wants)}):
            return wants
        case inspect.Metadata():
            return _wanted(kind.type)
        case inspect.UnionType():
            known = (one for one in kind.types if not isinstance(one, inspect.NoneType))
            return " or ".join(map(_wanted, known))
        case inspect.IntType() | inspect.FloatType():
            what = "a whole number" if isinstance(kind, inspect.IntType) else "a number"
            return f"{what} from {kind.ge:,} to {kind.le:,}"
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
    """The tree as plain values, with variables put in; `typed` keeps numbers as YAML reads them."""
    if isinstance(tree, dict):
        return {
            name: _expanded(value, join(path, name), environ, typed=typed) for name, value in tree.items()
        }
    if isinstance(tree, list):
        return [_expanded(value, path, environ, typed=typed) for value in tree]
    if tree is None or (typed and not isinstance(tree.value, str)):
        return tree and tree.value

    def put_in(found: re.Match[str]) -> str:
        if found["dollar"]:
            return "$"
        if found["odd"]:
            remedy = "Write ${NAME} or ${NAME:-default}; $$ is a plain $."
            raise ConfigInvalid(path, "it has a ${…} that cannot be read", remedy)
        value = environ.get(found["name"])
        if not value and found["default"] is not None:
            return found["default"]
        if value is None:
            problem = f"the environment variable {found['name']} is not set"
            remedy = f"Set it, here or in .env, or write ${{{found['name']}:-default}}."
            raise ConfigInvalid(path, problem, remedy)
        return value

    return _REFERENCE.sub(put_in, tree.text)
