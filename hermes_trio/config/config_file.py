"""Finding, reading and checking the configuration: from `<home>/config.yaml` to a `GatewayConfig`.

A wrong value stops the start, because a gateway that runs with something else than it was told is
worse than none. An unknown key is only warned about, since people bring configurations of
hermes-agent, the original (`original_spelling` takes what means the same). Where a key decides who
may do what, or what the agent may do, that is no longer safe: `alow_from: [42]` would be silently
nobody, a restriction with a typing error silently none. There an unknown key is an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

import msgspec

from ..base.errors import ConfigFinding, ConfigInvalid, home_error
from .config_text import Tree, parse_env, parse_yaml, read_text
from .config_values import collected, join, section
from .original_limits import judge, judge_variables
from .original_spelling import our_spelling
from .schema import ApprovalsConfig, GatewayConfig, McpToolsConfig, ModelConfig, PlatformConfig, Provider
from .section import Section, is_secret, keys

# What counts as security, besides the keys of the original in `original_limits`: every key of `approvals` and
# of the tools of a server; every key, wherever it stands, whose name speaks of allowing, denying, admins,
# access, pairing, security or sets of tools (and is no secret: `access_token` is a
# platform's own) or is one by which the original let people in; and every key that is one of these
# but for a typing error.
_SECURITY_SECTIONS = (ApprovalsConfig, McpToolsConfig)
_SECURITY_NAME = re.compile(
    r"(?:^|_)(?:allow|deny|admins?(?:_|$))|^(?:access|pairing|security)|^(?:dm|group)_policy$|toolsets?$"
)
_SECURITY_KEYS = (
    "allow_from",
    "allow_admin_from",
    "unauthorized_dm_behavior",
    "require_mention",
    "approvals",
)

_HOME_CHANNEL_KEYS = ("chat_id", "thread_id", "name")
_PROVIDER_KEYS: Mapping[Provider, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, and what is worth telling about how it came about."""

    config: GatewayConfig
    warnings: tuple[str, ...]
    path: Path
    origins: Mapping[str, str]
    """Which keys were set, by their path, and where: `config.yaml`, or a variable's name."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment it was read with, with what `.env` adds to it."""


def home_directory(environ: Mapping[str, str]) -> Path:
    """The directory that holds all of it: `$HERMES_HOME`, else `~/.hermes-trio`. Raises `ConfigInvalid`, and
    `HomeUnusable` for one that this account may not look into."""
    value = environ.get("HERMES_HOME") or "~/.hermes-trio"
    try:
        home = Path(value).expanduser()
    except RuntimeError as error:
        problem = f"there is no home directory to put in place of the ~ in {value!r}"
        raise ConfigInvalid("HERMES_HOME", problem, "Give it as a full path.") from error
    if not home.is_absolute():
        problem = f"{value!r} depends on where the command is started"
        raise ConfigInvalid("HERMES_HOME", problem, "Give it as a full path.")
    # Told once and here: behind a closed door a file that is there looks like none. Whatever else may be
    # wrong with the directory is told by who needs it.
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.stat(os.path.join(home, os.curdir))
    except OSError as error:
        raise home_error(home, error) from error
    return home


def load_config(
    home: Path, environ: Mapping[str, str], check: Callable[[Loaded], object] | None = None
) -> Loaded:
    """The configuration of a home; all defaults if it has no `config.yaml`.

    `environ` wins over `<home>/.env`. Raises one `ConfigInvalid` with all mistakes, each with its key and a
    remedy: those of the file, and those that `check` finds in the rest of it.
    """
    path, env_path = home / "config.yaml", home / ".env"
    variables, malformed = parse_env(read_text(env_path) or "", env_path)
    environ = {**variables, **environ}
    findings: list[ConfigFinding] = []
    tree, replaced = our_spelling(parse_yaml(read_text(path) or "", path), findings)
    tree, harmless = judge(tree, findings)
    judge_variables(environ, findings)
    unknown = list(_unknown_keys(GatewayConfig, tree, "", findings))
    config = section(GatewayConfig, tree, "", environ, findings)
    given = dict.fromkeys(_paths(tree, ""), path.name)
    model, from_environment = _model(config.model, given, environ)
    loaded = Loaded(
        config=msgspec.structs.replace(_without_mistakes(config, findings), model=model),
        warnings=(*malformed, *replaced, *harmless, *unknown, *_without_admins(config)),
        path=path,
        origins={**given, **from_environment},
        environ=environ,
    )
    if check is not None:
        with collected(findings):
            check(loaded)
    if findings:
        error = ConfigInvalid.of(findings)
        error.warnings = loaded.warnings
        raise error
    return loaded


def _without_admins(config: GatewayConfig) -> Iterator[str]:
    """A warning for each platform where everybody may talk, and so nobody may approve or administer."""
    for name, platform in config.platforms.items():
        if platform.enabled and platform.allow_from == "all" and not platform.allow_admin_from:
            yield (
                f"platforms.{name}.allow_from is all and platforms.{name}.allow_admin_from names nobody, "
                "so nobody there may approve commands or give admin commands"
            )


def _without_mistakes(config: GatewayConfig, findings: Sequence[ConfigFinding]) -> GatewayConfig:
    """The configuration without the platforms in which something is wrong."""
    wrong = {f"{finding.key}." for finding in findings}
    platforms = {
        name: platform
        for name, platform in config.platforms.items()
        if not any(key.startswith(f"platforms.{name}.") for key in wrong)
    }
    return msgspec.structs.replace(config, platforms=platforms)


def _unknown_keys(kind: type[Section], tree: Tree, path: str, findings: list[ConfigFinding]) -> Iterator[str]:
    """Yield a warning for each unknown key; add one that may decide who may do what to `findings`."""
    if not isinstance(tree, dict):
        return  # `section` tells what is wrong with it
    known = {key.name: key for key in keys(kind)}
    for name, value in tree.items():
        key, where = known.get(name), join(path, name)
        if key is None:
            near = _nearest(name, path, known, 0.8 if kind is PlatformConfig else 0.7)
            if kind in _SECURITY_SECTIONS or _is_about_security(name):
                problem = "not a key I know, and it may decide who may do what"
                remedy = f"Did you mean {near}?" if near else "Remove it."
                findings.append(ConfigFinding(where, problem, remedy))
                continue
            # A platform has keys of its own, which only its adapter knows.
            if kind is not PlatformConfig or near:
                yield _unknown(where, near)
        elif key.section:
            yield from _unknown_keys(key.section, value, where, findings)
        elif key.named and isinstance(value, dict):
            for chosen in value:
                yield from _unknown_keys(key.named, value[chosen], join(where, chosen), findings)
        elif name == "home_channel" and isinstance(value, dict):
            for part in value:
                if part not in _HOME_CHANNEL_KEYS:
                    near = _nearest(part, where, _HOME_CHANNEL_KEYS, 0.7)
                    yield _unknown(join(where, part), near)


def _unknown(where: str, near: str | None) -> str:
    return f"{where} is not a key I know" + (f"; did you mean {near}?" if near else "")


def _is_about_security(name: str) -> bool:
    word = name.lower().replace("-", "_")
    if get_close_matches(word, _SECURITY_KEYS, 1, 0.8):
        return True
    return _SECURITY_NAME.search(word) is not None and not is_secret(word)


def _nearest(name: str, path: str, siblings: Iterable[str], cutoff: float) -> str | None:
    """The key that was probably meant: one spelled like it here, or the same one elsewhere."""
    if near := get_close_matches(name, siblings, 1, cutoff):
        return join(path, near[0])
    if path.startswith("platforms."):
        return None  # `mode`, `key` or `timeout` are good names for a platform's own keys
    sections = ((key.name, key.section) for key in keys(GatewayConfig) if key.section)
    elsewhere = (join(at, key.name) for at, kind in sections for key in keys(kind))
    return next((there for there in elsewhere if there.endswith(f".{name}")), None)


def _model(
    model: ModelConfig, given: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[ModelConfig, dict[str, str]]:
    """The model with what the environment adds to it, and the names of what added it."""
    origins: dict[str, str] = {}
    provider: Provider = model.provider
    if "model.provider" not in given:
        by_variable = [(name, key) for name, key in _PROVIDER_KEYS.items() if environ.get(key)]
        if model.base_url or model.api_key:
            # A server or a secret of one's own, and no word about whose: most speak OpenAI's way.
            provider = "openai"
            origins["model.provider"] = "model.base_url" if model.base_url else "model.api_key"
        elif by_variable:
            provider, origins["model.provider"] = by_variable[0]
    variable = _PROVIDER_KEYS.get(provider, "")
    api_key = model.api_key or environ.get(variable) or None
    if api_key and not model.api_key:
        origins["model.api_key"] = variable
    return msgspec.structs.replace(model, provider=provider, api_key=api_key), origins


def _paths(tree: Tree, path: str) -> Iterator[str]:
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from _paths(value, join(path, name))
    elif tree is not None:
        yield path
