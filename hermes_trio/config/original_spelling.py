"""Translate a configuration of hermes-agent, the original, into our spelling.

A key is translated if it has the same meaning here under another name or in another place. The table in
`original_limits` covers the keys that limit the agent. If a file has both spellings, ours counts, with a
warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..base.errors import ConfigFinding
from .config_text import Scalar, Tree
from .config_values import join
from .schema import GatewayConfig
from .section import keys

OPENROUTER = "https://openrouter.ai/api/v1"
_OPENROUTER_DEFAULT = "openrouter/auto"
_NESTED = (
    "session_reset",
    "streaming",
    "group_sessions_per_user",
    "thread_sessions_per_user",
    "unauthorized_dm_behavior",
)
"""Keys that the original also reads below `gateway`."""
_WEB = ("host", "port", "key")


def our_spelling(tree: dict[str, Tree], findings: list[ConfigFinding]) -> tuple[dict[str, Tree], list[str]]:
    """Return the tree in our spelling, and a warning for each key with another meaning or no effect here. A
    key of a platform that has two different values is added to `findings`."""
    tree = dict(tree)
    warnings: list[str] = []
    warnings += _nested(tree, findings)
    warnings += _model(tree)
    warnings += _approvals(tree)
    _platforms(tree, findings)
    warnings += _api_server(tree)
    _mcp_servers(tree)
    return tree, warnings


def _nested(tree: dict[str, Tree], findings: list[ConfigFinding]) -> Iterator[str]:
    """Move keys from below `gateway` to the top level."""
    gateway = tree.get("gateway")
    if not isinstance(gateway, dict):
        return
    gateway = dict(gateway)
    for name in _NESTED:
        if name in gateway:
            yield from _moved(tree, name, gateway.pop(name), f"gateway.{name}", name)
    theirs, ours = gateway.get("platforms"), tree.get("platforms")
    if isinstance(theirs, dict) and isinstance(ours, dict | None):
        del gateway["platforms"]
        tree["platforms"] = platforms = dict(ours or {})
        for name, platform in theirs.items():
            where = f"gateway.platforms.{name}", f"platforms.{name}"
            platforms[name] = _both(platform, platforms.get(name), where, findings)
    tree["gateway"] = gateway


def _moved(tree: dict[str, Tree], name: str, value: Tree, source: str, target: str) -> Iterator[str]:
    """Put a value into a section, or yield a warning if there is a value already."""
    if tree.get(name) is None:
        tree[name] = value
    elif value is not None:
        yield f"{source} is ignored, because there is a {target}"


def _both(theirs: Tree, ours: Tree, where: tuple[str, str], findings: list[ConfigFinding]) -> Tree:
    """Return one mapping made of two in different places."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return theirs if ours is None else ours
    return _merged(theirs, ours, where, findings)


def _merged(
    theirs: dict[str, Tree], ours: dict[str, Tree], where: tuple[str, str], findings: list[ConfigFinding]
) -> dict[str, Tree]:
    for name, value in theirs.items():
        if value is not None and ours.get(name) not in (None, value):
            key, other = (join(place, name) for place in where)
            problem = f"there is another value at {other}"
            findings.append(ConfigFinding(key, problem, "Keep one of them."))
    return {**theirs, **{name: value for name, value in ours.items() if value is not None}}


def _model(tree: dict[str, Tree]) -> Iterator[str]:
    model = tree.get("model")
    if isinstance(model, Scalar):
        tree["model"] = model = {"default": model} if model.text.strip() else {}
    if not isinstance(model, dict):
        return
    name, provider = model.get("name") or _text(model.get("default")), model.get("provider")
    if model.get("name") and _text(model.get("default")):
        yield "model.default is ignored, because there is a model.name"
    base_url = model.get("base_url")
    match provider:
        case Scalar(text="custom"):
            provider = Scalar("openai", "openai")
        case Scalar(text="auto" | ""):
            provider = None
        case Scalar(text="openrouter"):
            provider = Scalar("openai", "openai")
            base_url = _text(base_url) or Scalar(OPENROUTER, OPENROUTER)
            name = name or Scalar(_OPENROUTER_DEFAULT, _OPENROUTER_DEFAULT)
    rest = {key: value for key, value in model.items() if key != "default"}
    tree["model"] = {**rest, "name": name, "provider": provider, "base_url": _text(base_url)}


def _text(value: Tree) -> Tree:
    """Return a value, or None for an empty text, which the original writes if there is no value."""
    return None if isinstance(value, Scalar) and not value.text.strip() else value


def _approvals(tree: dict[str, Tree]) -> Iterator[str]:
    approvals = tree.get("approvals")
    if not isinstance(approvals, dict):
        return
    match approvals.get("mode"):
        case Scalar(text="manual" | "smart" as mode):
            tree["approvals"] = {**approvals, "mode": Scalar("ask", "ask")}
            if mode == "smart":
                yield "approvals.mode: smart is read as ask: a person decides, not a model"


def _platforms(tree: dict[str, Tree], findings: list[ConfigFinding]) -> None:
    """Move the keys of a platform that stand elsewhere below `platforms`."""
    platforms, behavior = tree.get("platforms"), tree.get("unauthorized_dm_behavior")
    if not isinstance(platforms, dict):
        return
    tree["platforms"] = platforms = dict(platforms)
    sections = {key.name for key in keys(GatewayConfig)}
    for name, ours in platforms.items():
        if name not in sections and isinstance(tree.get(name), dict):
            ours = _both(
                _platform(tree.pop(name), name, findings), ours, (name, f"platforms.{name}"), findings
            )
        platforms[name] = ours = _platform(ours, f"platforms.{name}", findings)
        if behavior is not None and isinstance(ours, dict | None):
            own = (ours or {}).get("unauthorized_dm_behavior")
            platforms[name] = {**(ours or {}), "unauthorized_dm_behavior": behavior if own is None else own}
    if platforms:
        tree.pop("unauthorized_dm_behavior", None)


def _platform(platform: Tree, path: str, findings: list[ConfigFinding]) -> Tree:
    """Return a platform with the keys from below `extra` beside its other keys."""
    if not isinstance(platform, dict):
        return platform
    extra, rest = platform.get("extra"), {name: value for name, value in platform.items() if name != "extra"}
    if isinstance(extra, dict | None) and "extra" in platform:
        platform = _merged(extra or {}, rest, (f"{path}.extra", path), findings)
    home = platform.get("home_channel")
    if isinstance(home, dict) and "platform" in home:
        home = {name: value for name, value in home.items() if name != "platform"}
        platform = {**platform, "home_channel": home}
    return platform


def _api_server(tree: dict[str, Tree]) -> Iterator[str]:
    """Use the keys of the original's API server for our page and API."""
    platforms, web = tree.get("platforms"), tree.get("web")
    if not isinstance(platforms, dict) or "api_server" not in platforms:
        return
    server = platforms["api_server"]
    if not isinstance(server, dict | None):
        return  # reported as for any platform
    server = server or {}
    tree["platforms"] = {name: one for name, one in platforms.items() if name != "api_server"}
    if isinstance(web, dict | None):
        tree["web"] = web = dict(web or {})
        for name in _WEB:
            if _text(server.get(name)) is not None:
                yield from _moved(web, name, server[name], f"platforms.api_server.{name}", f"web.{name}")
    enabled = server.get("enabled")
    if isinstance(enabled, Scalar) and enabled.text.lower() in ("false", "no", "off"):
        yield (
            "platforms.api_server.enabled: false has no effect: "
            "the page and the API always listen on web.host"
        )
    for name in sorted(server.keys() - {*_WEB, "enabled", "unauthorized_dm_behavior"}):
        yield f"platforms.api_server.{name} is an unknown key"


def _mcp_servers(tree: dict[str, Tree]) -> None:
    """Replace a single name by a list, as the original does in the selection of the tools of a server."""
    servers = tree.get("mcp_servers")
    if not isinstance(servers, dict):
        return
    servers = dict(servers)
    for name, server in servers.items():
        tools = server.get("tools") if isinstance(server, dict) else None
        if isinstance(server, dict) and isinstance(tools, dict):
            lists = {key: [value] if _is_a_name(key, value) else value for key, value in tools.items()}
            servers[name] = {**server, "tools": lists}
    tree["mcp_servers"] = servers


def _is_a_name(key: str, value: Tree) -> bool:
    return key in ("include", "exclude") and isinstance(value, Scalar) and bool(value.text.strip())
