"""`hermes-trio config`: the configuration in effect, with every secret masked."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import click
import msgspec

from ...base.errors import ConfigInvalid
from ...base.messages import HomeChannel
from ...config.config_file import Loaded, home_directory, load_config
from ...config.config_values import allowed_values
from ...config.schema import PlatformConfig
from ...config.section import Key, Section, keys, masked

_BARE = re.compile(r"(?!(?:null|true|false)$)[A-Za-z/][\w./-]*", re.ASCII | re.IGNORECASE)


@click.group(no_args_is_help=True)
def command() -> None:
    """Print the configuration, and check it."""


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(as_json: bool) -> None:
    """Print every key with its value and its meaning."""
    if not as_json:
        click.echo(as_yaml(load_and_warn()))
        return
    loaded = _load()
    report = {
        "path": str(loaded.path),
        "warnings": loaded.warnings,
        "set": loaded.origins,
        "config": masked("", _as_in_the_file(loaded.config)),
    }
    click.echo(json.dumps(report, indent=2))


@command.command()
def check() -> None:
    """Check whether the gateway would start with the configuration.

    The exit code is 0 if it would start, and 78 if not.
    """
    from ..start_check import check_start  # imported here: it imports the web and the adapters

    loaded = _load_and_report(check_start, err=False)
    click.echo(f"ok: {config_source(loaded)}")


@command.command()
def path() -> None:
    """Print the path of the file, even if it does not exist."""
    click.echo(home_directory(os.environ) / "config.yaml")


def load_and_warn(check: Callable[[Loaded], object] | None = None) -> Loaded:
    """Load the configuration, and print its warnings to standard error. `check` is the argument of
    `load_config`."""
    return _load_and_report(check, err=True)


def _load_and_report(check: Callable[[Loaded], object] | None, *, err: bool) -> Loaded:
    warnings: Sequence[str] = ()
    try:
        loaded = _load(check)
        warnings = loaded.warnings
    except ConfigInvalid as error:
        warnings = error.warnings
        raise
    finally:
        for warning in warnings:
            click.echo(f"warning: {warning}", err=err)
    return loaded


def _load(check: Callable[[Loaded], object] | None = None) -> Loaded:
    return load_config(home_directory(os.environ), os.environ, check)


def as_yaml(loaded: Loaded) -> str:
    """Return the configuration in effect, as YAML with comments."""
    head = [
        f"# {config_source(loaded)}",
        "# A line with 'changed' differs from the default; *** is a secret.",
    ]
    return "\n".join([*head, *_lines(loaded.config, "", loaded.origins)])


def config_source(loaded: Loaded) -> str:
    """Return the path of the configuration, or a sentence that there is none."""
    if loaded.path.exists():
        return str(loaded.path)
    return f"{loaded.path} does not exist, so every key has its default"


def _lines(section: Section, path: str, origins: Mapping[str, str]) -> Iterator[str]:
    indent = "  " * len(path.split(".")) if path else ""
    for key in keys(type(section)):
        value, where = getattr(section, key.name), f"{path}.{key.name}".lstrip(".")
        if not indent:
            yield ""
        yield f"{indent}# {key.help}"
        if isinstance(value, Section):
            yield f"{indent}{key.name}:"
            yield from _lines(value, where, origins)
        elif key.named and value:
            yield f"{indent}{key.name}:"
            for name, each in value.items():
                yield f"{indent}  {name}:"
                yield from _lines(each, f"{where}.{name}", origins)
        else:
            if not key.named:
                yield f"{indent}# {_takes(key)}"
            shown = _yaml(masked(key.name, value))
            yield f"{indent}{key.name}: {shown}{_mark(key, value, origins.get(where))}"
    if isinstance(section, PlatformConfig) and section.options:
        yield f"{indent}# Own keys of this platform."
        for name, value in section.options.items():
            yield f"{indent}{_yaml(name)}: {_yaml(masked(name, value))}"


def _takes(key: Key) -> str:
    """Return a sentence about the allowed values of a key."""
    kind = allowed_values(key)
    default = "left out" if key.default is None else _yaml(key.default)
    return f"{kind[0].upper()}{kind[1:]}; default: {default}."


def _mark(key: Key, value: object, origin: str | None) -> str:
    """Return a comment with the origin of a value that was set."""
    if value != key.default:
        return f"  # changed by {origin or 'config.yaml'}"
    return f"  # set by {origin}, to the default" if origin else ""


def _yaml(value: object) -> str:
    """Return a value on one line, in the syntax of the file."""
    match value:
        case HomeChannel():
            return _yaml(_home_channel(value))
        case Mapping():
            return "{" + ", ".join(f"{_yaml(k)}: {_yaml(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return f"[{', '.join(map(_yaml, value))}]"
        case float() if value.is_integer():
            return str(int(value))
        case str() if not _BARE.fullmatch(value):
            # A character that is not printable may control the terminal.
            return json.dumps(value, ensure_ascii=not value.isprintable())
        case str():
            return value
    return json.dumps(value)


def _as_in_the_file(section: Section) -> dict[str, object]:
    plain: dict[str, object] = {}
    for key in keys(type(section)):
        value = getattr(section, key.name)
        if isinstance(value, Section):
            value = _as_in_the_file(value)
        elif key.named:
            value = {name: _as_in_the_file(each) for name, each in value.items()}
        elif isinstance(value, HomeChannel):
            value = _home_channel(value)
        plain[key.name] = value
    return plain | dict(section.options) if isinstance(section, PlatformConfig) else plain


def _home_channel(home: HomeChannel) -> dict[str, object]:
    parts = msgspec.to_builtins(home)
    return {name: parts[name] for name in ("chat_id", "thread_id", "name") if parts[name]}
