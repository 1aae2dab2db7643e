"""Find, read and check the configuration: from `<home>/config.yaml` to a `GatewayConfig`.

A wrong value stops the start, because a gateway that ignores a setting is worse than none. An unknown key
causes only a warning, because people bring configurations of hermes-agent, the original (`original_spelling`
translates the keys that have the same meaning). In security settings a warning is not enough: a restriction
with a typing error, such as `alow_from: [42]`, would silently have no effect. There an unknown key is an
error.
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
from ..masking.secret_words import is_secret
from .config_text import Tree, parse_env, parse_yaml, read_text
from .config_values import collect_findings, join, read_section
from .original_limits import apply_limits, check_variables
from .original_spelling import our_spelling
from .schema import ApprovalsConfig, GatewayConfig, McpToolsConfig, ModelConfig, PlatformConfig, Provider
from .section import Section, keys

# Security settings, besides the keys of the original in `original_limits`, are: each key of `approvals` and
# of the tools of a server; in every section each key whose name contains a word for allowing, denying,
# admins, access, pairing, security or sets of tools (except a secret: `access_token` is an own key of a
# platform), or is a key of the original that lets people in; and each name that differs from one of these by
# a typing error.
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


PROGRAM = "the program"
"""The origin of a value that a program has given."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, with its warnings and the origin of its values."""

    config: GatewayConfig
    warnings: tuple[str, ...]
    path: Path
    origins: Mapping[str, str]
    """The path of each key that was set, and its origin: `config.yaml`, or the name of a variable."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment, with the variables of `.env`."""


def home_directory(environ: Mapping[str, str]) -> Path:
    """Return the home directory: `$HERMES_HOME`, else `~/.hermes-trio`. Raise `ConfigInvalid` for a path that
    is not absolute, and `HomeUnusable` for a directory that this account cannot read."""
    value = environ.get("HERMES_HOME") or "~/.hermes-trio"
    try:
        home = Path(value).expanduser()
    except RuntimeError as error:
        problem = f"the ~ in {value!r} stands for no directory here"
        raise ConfigInvalid("HERMES_HOME", problem, "Give it as a full path.") from error
    if not home.is_absolute():
        problem = f"{value!r} depends on the directory in which the command is started"
        raise ConfigInvalid("HERMES_HOME", problem, "Give it as a full path.")
    # Checked here, because a file in an unreadable directory looks like a missing file. Other problems of the
    # directory are reported where they matter.
    try:
        with suppress(FileNotFoundError, NotADirectoryError):
            os.stat(os.path.join(home, os.curdir))
    except OSError as error:
        raise home_error(home, error) from error
    return home


def load_config(
    home: Path, environ: Mapping[str, str], check: Callable[[Loaded], object] | None = None
) -> Loaded:
    """Return the configuration of a home; the defaults if it has no `config.yaml`.

    `environ` wins over `<home>/.env`. Raise one `ConfigInvalid` with all mistakes, each with its key and a
    remedy. They include the mistakes for which `check` raises `ConfigInvalid`.
    """
    path, env_path = home / "config.yaml", home / ".env"
    variables, malformed = parse_env(read_text(env_path) or "", env_path)
    environ = {**variables, **environ}
    findings: list[ConfigFinding] = []
    tree, replaced = our_spelling(parse_yaml(read_text(path) or "", path), findings)
    tree, harmless = apply_limits(tree, findings)
    check_variables(environ, findings)
    unknown = list(_unknown_keys(GatewayConfig, tree, "", findings))
    config = read_section(GatewayConfig, tree, "", environ, findings)
    in_file = dict.fromkeys(_paths(tree, ""), path.name)
    model, in_environment = _model(config.model, in_file, environ)
    loaded = Loaded(
        config=msgspec.structs.replace(_without_mistakes(config, findings), model=model),
        warnings=(*malformed, *replaced, *harmless, *unknown, *_open_to_all(config)),
        path=path,
        origins={**in_file, **in_environment},
        environ=environ,
    )
    if check is not None:
        with collect_findings(findings):
            check(loaded)
    if findings:
        error = ConfigInvalid.of(findings)
        error.warnings = loaded.warnings
        raise error
    return loaded


def given_by_program(config: GatewayConfig, home: Path, environ: Mapping[str, str]) -> Loaded:
    """Return a configuration that a program has made, with the origins of its model. A secret that is the one
    of the environment for the provider counts as taken from there."""
    model, variable = config.model, _PROVIDER_KEYS.get(config.model.provider, "")
    is_variable = model.api_key is not None and model.api_key == environ.get(variable)
    origins = {"model.provider": PROGRAM, "model.api_key": variable if is_variable else PROGRAM}
    return Loaded(config, (), home / "config.yaml", origins, environ)


def _open_to_all(config: GatewayConfig) -> Iterator[str]:
    """Yield the warnings for each platform on which everybody may talk."""
    for name, platform in config.platforms.items():
        if not platform.enabled or platform.allow_from != "all":
            continue
        if config.approvals.mode == "off":
            yield (
                f"platforms.{name}.allow_from is all and approvals.mode is off, so every stranger there may "
                "have every command run"
            )
        if not platform.allow_admin_from:
            yield (
                f"platforms.{name}.allow_from is all and platforms.{name}.allow_admin_from names nobody, "
                "so nobody there may approve commands or give admin commands"
            )


def _without_mistakes(config: GatewayConfig, findings: Sequence[ConfigFinding]) -> GatewayConfig:
    """Return the configuration without the platforms that have mistakes."""
    mistakes = {f"{finding.key}." for finding in findings}
    platforms = {
        name: platform
        for name, platform in config.platforms.items()
        if not any(key.startswith(f"platforms.{name}.") for key in mistakes)
    }
    return msgspec.structs.replace(config, platforms=platforms)


def _unknown_keys(kind: type[Section], tree: Tree, path: str, findings: list[ConfigFinding]) -> Iterator[str]:
    """Yield a warning for each unknown key. An unknown key of a security setting is added to `findings`."""
    if not isinstance(tree, dict):
        return  # `read_section` reports it
    known = {key.name: key for key in keys(kind)}
    for name, value in tree.items():
        key, where = known.get(name), join(path, name)
        if key is None:
            near = _nearest(name, path, known, 0.8 if kind is PlatformConfig else 0.7)
            if kind in _SECURITY_SECTIONS or _is_about_security(name):
                problem = "unknown key, and it may be a security setting"
                remedy = f"Did you mean {near}?" if near else "Remove it."
                findings.append(ConfigFinding(where, problem, remedy))
                continue
            # A platform has own keys, which only its adapter knows.
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
    return f"{where} is an unknown key" + (f"; did you mean {near}?" if near else "")


def _is_about_security(name: str) -> bool:
    word = name.lower().replace("-", "_")
    if get_close_matches(word, _SECURITY_KEYS, 1, 0.8):
        return True
    return _SECURITY_NAME.search(word) is not None and not is_secret(word)


def _nearest(name: str, path: str, siblings: Iterable[str], cutoff: float) -> str | None:
    """Return the key that was probably meant: a similar one here, or the same one in another section."""
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
    """Return the model with the values from the environment, and the origin of each of these."""
    origins: dict[str, str] = {}
    provider: Provider = model.provider
    if "model.provider" not in given:
        by_variable = [(name, key) for name, key in _PROVIDER_KEYS.items() if environ.get(key)]
        if model.base_url or model.api_key:
            # A server or a secret without a provider: most servers use the API of OpenAI.
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
    """Yield the path of each key that has a value."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from _paths(value, join(path, name))
    elif tree is not None:
        yield path
