"""Change `config.yaml` and `.env`, and keep everything else in them, such as comments."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from io import StringIO
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.util import load_yaml_guess_indent

from ..base.errors import ConfigInvalid, home_error
from ..config.config_file import load_config
from ..config.config_text import parse_env, read_text
from ..gateway.links.adapters import GROUP, make_adapter
from ..host.files.json_files import write_small
from ..host.files.private_files import make_private_dir

_NEW = "# Written by `hermes-trio setup`. `hermes-trio config show` explains every key.\n"


@dataclass(slots=True)
class Changes:
    """New values for the configuration and the variables."""

    values: dict[tuple[str, ...], object] = field(default_factory=dict)
    """The values, by the path of their keys; None removes a key."""
    variables: dict[str, str] = field(default_factory=dict)


def stored_variables(home: Path) -> dict[str, str]:
    """Return the variables in the `.env` of a home."""
    path = home / ".env"
    return parse_env(read_text(path) or "", path)[0]


def write(
    home: Path, changes: Changes, environ: Mapping[str, str], platform: str | None = None
) -> list[Path]:
    """Write the changes to files that only their owner can read, and return the changed files. Raise
    `ConfigInvalid` and change nothing if the gateway would not start with the new configuration or with the
    platform that is set up."""
    config, env = home / "config.yaml", home / ".env"
    before = {path: read_text(path) for path in (config, env)}
    after = {
        env: with_variables(before[env] or "", changes.variables),
        config: with_values(before[config] or _NEW, changes.values, config),
    }
    _check(after, environ, platform)
    try:
        make_private_dir(home)
        for path, text in after.items():
            if text and text != before[path]:
                write_small(path.resolve(), text.encode())  # a symbolic link stays
            elif path.exists() and path == env:
                path.chmod(0o600)
    except OSError as error:
        raise home_error(home, error) from error
    return [path for path, text in after.items() if text != (before[path] or "")]


def _check(after: Mapping[Path, str], environ: Mapping[str, str], platform: str | None) -> None:
    """Load the new files from a temporary directory."""
    with tempfile.TemporaryDirectory() as trial:
        for path, text in after.items():
            write_small(Path(trial, path.name), text.encode())
        config = load_config(Path(trial), environ).config
    if platform in {entry.name for entry in entry_points(group=GROUP)}:
        make_adapter(platform, config.platforms[platform])


def with_values(text: str, values: Mapping[tuple[str, ...], object], path: Path) -> str:
    """Return the text of a configuration with these values; everything else in it stays."""
    yaml = YAML()
    yaml.preserve_quotes, yaml.width = True, 4096
    _, indent, offset = load_yaml_guess_indent(text)
    if indent:
        yaml.indent(mapping=indent, sequence=(offset or 0) + 2, offset=offset or 0)
    tree = yaml.load(text)
    stream = StringIO()
    if tree:
        yaml.dump(_set(tree, values, path), stream)
        return stream.getvalue()
    # The file has only comments, which the parser does not return.
    yaml.dump(_set(CommentedMap(), values, path), stream)
    return text.rstrip("\n") + "\n\n" + stream.getvalue()


def _set(tree: CommentedMap, values: Mapping[tuple[str, ...], object], path: Path) -> CommentedMap:
    for keys, value in values.items():
        section = tree
        for key in keys[:-1]:
            if section.get(key) is None:
                section[key] = CommentedMap()
            section = section[key]
            if not isinstance(section, CommentedMap):
                raise ConfigInvalid(str(path), f"{key} is not a mapping", "Correct it, or remove it.")
        if value is not None:
            section[keys[-1]] = value
        elif keys[-1] in section:
            del section[keys[-1]]
    return tree


def with_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return the text of an `.env` with these variables; everything else in it stays."""
    lines = text.splitlines()
    for name, value in variables.items():
        quoted = f"'{value}'" if "'" not in value else '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
        assignment = re.compile(rf"\s*(?:export\s+)?{re.escape(name)}\s*=")
        found = [number for number, line in enumerate(lines) if assignment.match(line)]
        for number in found or [len(lines)]:
            lines[number : number + 1] = [f"{name}={quoted}"]
    return "".join(f"{line}\n" for line in lines)
