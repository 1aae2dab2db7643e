"""Keys of `config.yaml` for the variables with which hermes-agent, the original, is configured in `.env`.

A token stays a variable, to which the key refers. Names of people become a list. A variable that nothing here
uses is not taken, because a secret without a use is only a danger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from .config_text import Scalar, Tree

_TRUE = ("true", "1", "yes", "on")
_MODEL_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
_WEB = {"API_SERVER_HOST": "host", "API_SERVER_PORT": "port"}

Path = tuple[str, ...]


@dataclass(slots=True)
class FromEnvironment:
    """Settings and secrets that the variables of the original become."""

    values: dict[Path, object] = field(default_factory=dict)
    """Values for keys that the configuration does not have."""
    variables: dict[str, str] = field(default_factory=dict)
    """The variables that are used here."""
    left: dict[str, str] = field(default_factory=dict)
    """The names of the others, each with the reason."""


def from_environment(
    variables: Mapping[str, str], tree: dict[str, Tree], text: str, platforms: Collection[str]
) -> FromEnvironment:
    """Return what the variables become beside a configuration, given as its text and as its tree in our
    spelling. `platforms` are the installed ones."""
    found = FromEnvironment()
    for name, value in variables.items():
        if value and (name in _MODEL_KEYS or f"${{{name}}}" in text or f"${{{name}:-" in text):
            found.variables[name] = value
    used = set(found.variables)
    for path, setting, names in _keys(variables, tree, platforms):
        used.update(names)
        if _at(tree, path) is None:
            found.values[path] = setting
            is_reference = isinstance(setting, str) and setting.startswith("${")
            found.variables |= {name: variables[name] for name in names[:1] if is_reference}
    for name, value in variables.items():
        if value and name not in used:
            found.left[name] = _reason(name, value, platforms)
    return found


def _keys(
    variables: Mapping[str, str], tree: dict[str, Tree], platforms: Collection[str]
) -> Iterator[tuple[Path, object, list[str]]]:
    """Yield each key with its value and the variables from which it comes."""
    provider = _at(tree, ("model", "base_url"))
    if variables.get("OPENROUTER_API_KEY") and isinstance(provider, Scalar) and "openrouter" in provider.text:
        yield ("model", "api_key"), "${OPENROUTER_API_KEY}", ["OPENROUTER_API_KEY"]
    if variables.get("API_SERVER_ENABLED", "").lower() in _TRUE:
        for name, key in _WEB.items():
            if value := variables.get(name):
                yield ("web", key), int(value) if value.isdecimal() else value, [name, "API_SERVER_ENABLED"]
        if variables.get("API_SERVER_KEY"):
            yield ("web", "key"), "${API_SERVER_KEY}", ["API_SERVER_KEY", "API_SERVER_ENABLED"]
    for platform in platforms:
        prefix = platform.upper()
        if not variables.get(token := f"{prefix}_BOT_TOKEN"):
            continue
        at = ("platforms", platform)
        yield (*at, "token"), f"${{{token}}}", [token]
        if variables.get(second := f"{prefix}_APP_TOKEN"):
            yield (*at, "app_token"), f"${{{second}}}", [second]
        names = [name for name in (f"{prefix}_ALLOWED_USERS", "GATEWAY_ALLOWED_USERS") if variables.get(name)]
        if people := [one.strip() for name in names for one in variables[name].split(",") if one.strip()]:
            yield (*at, "allow_from"), list(dict.fromkeys(people)), names
        if chat := variables.get(home := f"{prefix}_HOME_CHANNEL"):
            more = {"name": f"{home}_NAME", "thread_id": f"{home}_THREAD_ID"}
            given = {key: variables[name] for key, name in more.items() if variables.get(name)}
            yield (*at, "home_channel"), {"chat_id": chat, **given}, [home, *more.values()]


def _at(tree: dict[str, Tree], path: Path) -> Tree:
    """Return the value at a path; None if there is none."""
    value: Tree = tree
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _reason(name: str, value: str, platforms: Collection[str]) -> str:
    prefix, _, rest = name.partition("_")
    if name.endswith("_ALLOW_ALL_USERS"):
        if value.lower() not in _TRUE:
            return "nobody is let in here who is not named"
        return "if everybody may talk, write `allow_from: all` below the platform yourself"
    if rest == "BOT_TOKEN" and prefix.lower() not in platforms:
        return f"no platform {prefix.lower()} is installed"
    return "no key of config.yaml uses it; add a reference to it if one should"
