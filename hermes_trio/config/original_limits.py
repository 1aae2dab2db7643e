"""The keys with which a configuration of hermes-agent, the original, limits the agent or its users.

Each such key has a row here, with its verdict in this program:

    taken      it is one of our keys, with the same meaning
    refused    nothing here does the same: the gateway does not start with a value that limits
    harmless   without it the agent may do no more than before; a warning names it

Some values of a refused key limit nothing, such as `false`, and pass. A person who accepts an agent without
the limit removes the key from the file; every error about a limit says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ..base.errors import ConfigFinding
from .config_text import Scalar, Tree
from .section import masked

Verdict = Literal["taken", "refused", "harmless"]


@dataclass(frozen=True, slots=True)
class Limit:
    """One key, its meaning in the original, and its verdict here."""

    key: str
    """The path of the key; `*` stands for any name."""
    verdict: Verdict
    meaning: str
    """The subject of the limit; for a harmless key, the reason why nothing is lost."""
    remedy: str = ""
    """The way to get the same limit here."""
    passes: tuple[str, ...] = ()
    """Values that limit nothing; `[]` is an empty list or mapping. Empty text and no value never limit. For a
    harmless key: values that agree with what this program does."""


_ACCOUNT = "Run the gateway itself in a container, or in an account with no more rights than that."
_ELSEWHERE = "Set terminal.sandbox to docker or ssh, and name your container or host."
_TOOLSETS = "List the unwanted sets of tools in agent.disabled_toolsets, which applies to every platform."
_PROFILES = "Run a separate gateway for each profile, each with its own home."
_WHO = "Here only allow_from and allow_admin_from decide who may talk."
_MENTIONS = "Here only require_mention decides which messages are answered in a group."

LIMITS: tuple[Limit, ...] = (
    # Tools.
    Limit("agent.disabled_toolsets", "taken", "sets of tools that the agent does not get"),
    Limit("agent.max_turns", "taken", "model requests in one turn"),
    Limit("toolsets", "refused", "the sets of tools that the agent gets", _TOOLSETS),
    Limit("platform_toolsets.*", "refused", "the sets of tools that the agent gets there", _TOOLSETS),
    Limit("mcp_servers.*.enabled", "taken", "whether the server is used"),
    Limit("mcp_servers.*.tools.include", "taken", "the only tools of the server that are used"),
    Limit("mcp_servers.*.tools.exclude", "taken", "tools of the server that are not used"),
    Limit("mcp_servers.*.tools.resources", "harmless", "resources of a server are not offered here"),
    Limit("mcp_servers.*.tools.prompts", "harmless", "prompts of a server are not offered here"),
    Limit("mcp_servers.*.sampling", "harmless", "a server cannot ask the model here"),
    Limit("mcp_servers.*.elicitation", "harmless", "a server cannot ask a person here"),
    Limit(
        "mcp_servers.*.ssl_verify",
        "refused",
        "the certificates that are trusted for the server",
        "Here the certificates of this machine count; SSL_CERT_FILE names others.",
        ("true", "false"),
    ),
    Limit(
        "hooks.pre_tool_call",
        "refused",
        "scripts that can forbid a call of a tool",
        "Disable the tools themselves with agent.disabled_toolsets.",
        ("[]",),
    ),
    Limit(
        "memory.memory_enabled",
        "refused",
        "permission to keep notes",
        "Write `disabled_toolsets: [memory]` below agent.",
        ("true",),
    ),
    Limit(
        "memory.write_approval",
        "refused",
        "approval by a person before a note is kept",
        "Write `disabled_toolsets: [memory]` below agent to have no notes at all.",
        ("false",),
    ),
    Limit("profile_routes", "refused", "answers by another profile, with its own limits", _PROFILES, ("[]",)),
    Limit(
        "gateway.profile_routes",
        "refused",
        "answers by another profile, with its own limits",
        _PROFILES,
        ("[]",),
    ),
    Limit("max_concurrent_sessions", "harmless", "gateway.max_running_turns limits simultaneous turns"),
    Limit("gateway.api_server", "harmless", "gateway.max_running_turns limits simultaneous turns"),
    Limit("tool_loop_guardrails", "harmless", "agent.max_turns ends a turn that repeats itself"),
    Limit("delegation", "harmless", "a helper makes at most 50 requests, and cannot delegate"),
    Limit("code_execution", "harmless", "there is no tool execute_code"),
    Limit("browser", "harmless", "there are no browser tools"),
    Limit("computer_use", "harmless", "there is no tool computer_use"),
    Limit("skills", "harmless", "all skills in the two places for them are loaded"),
    Limit("cron", "harmless", "jobs do not run"),
    # Commands and files.
    Limit(
        "terminal.backend",
        "refused",
        "commands in an environment apart from this machine",
        _ELSEWHERE,
        ("local",),
    ),
    Limit("terminal.docker_network", "harmless", "commands do not run in a container", passes=("true",)),
    Limit("terminal.cwd", "taken", "the directory in which commands start"),
    Limit("terminal.timeout", "taken", "seconds for a command"),
    Limit("terminal.env_passthrough", "taken", "variables that commands see although they are secret"),
    Limit("approvals.mode", "taken", "approval by a person (manual and smart are read as ask)"),
    Limit("approvals.timeout", "taken", "seconds to wait for that person"),
    Limit(
        "approvals.deny",
        "refused",
        "commands that are never run",
        "With approvals.mode ask a person decides about each dangerous command.",
        ("[]",),
    ),
    Limit("approvals.cron_mode", "harmless", "jobs do not run", passes=("deny",)),
    Limit("approvals.mcp_reload_confirm", "harmless", "there is no such command in a chat"),
    Limit("approvals.destructive_slash_confirm", "harmless", "it is about people's own commands"),
    Limit(
        "command_allowlist",
        "harmless",
        "these commands need approval again; `/approve always` in a chat allows one permanently",
    ),
    Limit(
        "gateway.strict",
        "refused",
        "the directories from which files are sent into a chat",
        "Write `disabled_toolsets: [file]` below agent to send no files at all.",
        ("false",),
    ),
    Limit("gateway.media_delivery_allow_dirs", "harmless", "it adds directories"),
    Limit("gateway.trust_recent_files", "harmless", "it has an effect with gateway.strict only"),
    # Network and privacy.
    Limit(
        "security.allow_private_urls",
        "harmless",
        "private addresses are never fetched",
        passes=("false",),
    ),
    Limit("security.redact_secrets", "harmless", "secrets are always masked", passes=("true",)),
    Limit(
        "security.tirith_enabled",
        "refused",
        "a scanner that checks each command",
        "With approvals.mode ask a person decides about each dangerous command.",
        ("false",),
    ),
    Limit("security.tirith_path", "harmless", "it is the path of the scanner"),
    Limit("security.tirith_timeout", "harmless", "it is the timeout of the scanner"),
    Limit(
        "security.tirith_fail_open",
        "refused",
        "commands that the scanner could not check",
        "With approvals.mode ask a person decides about each dangerous command.",
        ("true",),
    ),
    Limit(
        "security.website_blocklist.enabled",
        "refused",
        "websites that are never fetched",
        "Write `disabled_toolsets: [web]` below agent, or block them in your network.",
        ("false",),
    ),
    Limit(
        "security.website_blocklist.domains", "harmless", "it has an effect with an enabled blocklist only"
    ),
    Limit(
        "security.website_blocklist.shared_files",
        "harmless",
        "it has an effect with an enabled blocklist only",
    ),
    Limit("security.website_blocklist", "refused", "websites that are never fetched", passes=("[]",)),
    Limit("security.acked_advisories", "harmless", "it silences warnings"),
    Limit(
        "security.allow_lazy_installs",
        "harmless",
        "nothing is installed automatically",
        passes=("false",),
    ),
    Limit("security.*", "refused", "an unknown key of security", "There is no such limit here."),
    Limit(
        "privacy.redact_pii",
        "refused",
        "names and numbers of people that are hidden from the model",
        "Here the model gets the name of the person who writes.",
        ("false",),
    ),
    # People and chats. Other keys whose names begin with allow or deny are refused by their names.
    Limit("platforms.*.allow_from", "taken", "people who may talk"),
    Limit("platforms.*.allow_admin_from", "taken", "people with the rights of an admin"),
    Limit("platforms.*.require_mention", "taken", "the messages that are answered in a group"),
    Limit("platforms.*.unauthorized_dm_behavior", "taken", "the answer to a stranger"),
    Limit("platforms.*.dm_policy", "refused", "people who may write to the bot directly", _WHO),
    Limit("platforms.*.group_policy", "refused", "the groups in which it answers", _WHO),
    Limit("platforms.*.group_allow_from", "refused", "people who may talk in a group", _WHO),
    Limit("platforms.*.group_allow_admin_from", "refused", "admins in a group", _WHO),
    Limit("platforms.*.user_allowed_commands", "refused", "commands for people who are no admins", _WHO),
    Limit(
        "platforms.*.group_user_allowed_commands", "refused", "commands for people who are no admins", _WHO
    ),
    Limit("platforms.*.allowed_chats", "refused", "the chats in which it answers", _WHO),
    Limit("platforms.*.allowed_channels", "refused", "the channels in which it answers", _WHO),
    Limit("platforms.*.allowed_rooms", "refused", "the rooms in which it answers", _WHO),
    Limit("platforms.*.allowed_topics", "refused", "the topics in which it answers", _WHO),
    Limit("platforms.*.group_allowed_chats", "refused", "the groups in which everybody may talk", _WHO),
    Limit("platforms.*.ignored_threads", "refused", "threads in which it does not answer", _MENTIONS),
    Limit("platforms.*.ignore_root_dm", "refused", "direct chats that are not answered", _WHO, ("false",)),
    Limit(
        "platforms.*.exclusive_bot_mentions",
        "refused",
        "messages that mention another bot",
        _MENTIONS,
        ("false",),
    ),
    Limit(
        "platforms.*.thread_require_mention",
        "refused",
        "the messages that are answered in a thread",
        _MENTIONS,
        ("false",),
    ),
    Limit(
        "platforms.*.bots_require_inline_mention",
        "refused",
        "the messages of other bots that are answered",
        _MENTIONS,
        ("false",),
    ),
    Limit("platforms.*.server_actions", "refused", "actions of the agent on the server", _WHO),
    Limit("platforms.*.allow_bots", "harmless", "other bots are never answered"),
    Limit("platforms.*.guest_mode", "harmless", "strangers are never answered"),
    Limit("platforms.*.free_response_chats", "harmless", "the bot must be mentioned there too"),
    Limit("platforms.*.free_response_channels", "harmless", "the bot must be mentioned there too"),
    Limit("platforms.*.free_response_topics", "harmless", "the bot must be mentioned there too"),
    Limit("platforms.*.mention_patterns", "harmless", "only its name counts as a mention"),
)

VARIABLES: tuple[Limit, ...] = (
    Limit("TERMINAL_ENV", "refused", "the environment in which commands run", _ELSEWHERE, ("local",)),
    Limit("HERMES_WRITE_SAFE_ROOT", "refused", "the directories that may be written to", _ACCOUNT),
)
"""Rows for the variables of the environment and of `.env`."""

# Each set of tools has the same name in the original, whose `hermes-…` sets contain all of these.
_OUR_TOOLSETS = frozenset(
    {"terminal", "file", "web", "memory", "todo", "session_search", "clarify", "delegation"}
)
_SPELLED = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}


def apply_limits(tree: dict[str, Tree], findings: list[ConfigFinding]) -> tuple[dict[str, Tree], list[str]]:
    """Return the tree without the refused and the harmless keys, and a warning for each harmless key that has
    a value. A refused key with a value that limits is added to `findings`."""
    warnings: list[str] = []
    before = tree
    for limit in LIMITS:
        if limit.verdict == "taken":
            continue
        for path, value in list(_found(tree, limit.key.split("."), ())):
            tree = _without(tree, path)
            _apply_limit(limit, path, value, findings, warnings)
    # A section that is empty only now is not reported as unknown.
    return {name: value for name, value in tree.items() if value != {} or before[name] == {}}, warnings


def check_variables(environ: Mapping[str, str], findings: list[ConfigFinding]) -> None:
    """Add each variable that limits the agent in the original to `findings`."""
    for limit in VARIABLES:
        text = environ.get(limit.key, "")
        _apply_limit(limit, (limit.key,), Scalar(text, text), findings, [])


def _apply_limit(
    limit: Limit, path: tuple[str, ...], value: Tree, findings: list[ConfigFinding], warnings: list[str]
) -> None:
    key, plain = ".".join(path), _plain(value)
    if plain == "" or plain in limit.passes or (plain == "[]" and limit.verdict == "harmless"):
        return
    if limit.verdict == "harmless":
        warnings.append(f"{key} is a key of hermes-agent and is not used here: {limit.meaning}")
    elif "toolsets" not in limit.key or not _toolsets(value) >= _OUR_TOOLSETS:
        shown = _shown(path[-1], value)
        problem = f"{shown} is a limit of hermes-agent ({limit.meaning}) that is not supported here"
        remedy = f"{limit.remedy} Remove the key to start without this limit.".lstrip()
        findings.append(ConfigFinding(key, problem, remedy))


def _found(tree: Tree, pattern: list[str], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Tree]]:
    """Yield each path that matches a pattern, with its value."""
    if not pattern:
        yield path, tree
    elif isinstance(tree, dict):
        for name in tree if pattern[0] == "*" else [pattern[0]]:
            if name in tree:
                yield from _found(tree[name], pattern[1:], (*path, name))


def _without(tree: dict[str, Tree], path: tuple[str, ...]) -> dict[str, Tree]:
    """Return a copy of the tree without a key. A section that becomes empty stays."""
    name, *rest = path
    inner = tree[name]
    if rest and isinstance(inner, dict):
        return {**tree, name: _without(inner, tuple(rest))}
    return {key: value for key, value in tree.items() if key != name}


def _plain(value: Tree) -> str:
    """Return a value as the rows spell it. The original reads YAML 1.1, in which `yes` and `off` are
    booleans."""
    if value is None:
        return ""
    if isinstance(value, Scalar):
        text = value.text.strip().lower()
        return _SPELLED.get(text, text)
    return "…" if value else "[]"


def _toolsets(value: Tree) -> frozenset[str]:
    """Return our sets of tools that a list contains."""
    names = {each.text for each in value if isinstance(each, Scalar)} if isinstance(value, list) else set()
    is_all = any(name.startswith("hermes-") and name != "hermes-webhook" for name in names)
    return _OUR_TOOLSETS if is_all else frozenset(names)


def _shown(name: str, value: Tree) -> str:
    """Return a value as the file has it, on one line, without secrets."""
    if isinstance(value, dict):
        return "a mapping"
    parts = value if isinstance(value, list) else [value]
    texts = [str(masked(name, each.text)) for each in parts if isinstance(each, Scalar)]
    text = repr(texts) if isinstance(value, list) else repr("".join(texts))
    return text if len(text) <= 80 else text[:80] + "…"
