"""The keys by which a configuration of hermes-agent, the original, limits the agent or who may use it.

Every such key has a row here. A row says what becomes of the key in this program:

    taken      it is a key of ours, with the same meaning
    refused    nothing here does the same: the gateway does not start with a value that limits
    harmless   without it the agent may do no more than before; a warning names it

Some values of a refused key limit nothing, such as `false`: these pass. To accept an agent
without the limit, the key is removed from the file, which every refusal says.
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
    """One key, what it limits in the original, and what becomes of it here."""

    key: str
    """Its path; `*` stands for any name."""
    verdict: Verdict
    meaning: str
    """What it limits; for a harmless one, why nothing is lost."""
    remedy: str = ""
    """How to say the same here."""
    passes: tuple[str, ...] = ()
    """Values that limit nothing; `[]` is an empty list or mapping. Empty text and no value never limit.
    For a harmless one: values that mean what is done here."""


_ACCOUNT = "Run the gateway itself in a container, or in an account that may do no more."
_TOOLSETS = "Name the tools that are not wanted in agent.disabled_toolsets, which counts everywhere."
_PROFILES = "Run a gateway of its own for each profile, each in a home of its own."
_WHO = "Only allow_from and allow_admin_from decide here who may talk."
_MENTIONS = "Only require_mention decides here what is answered in a group."

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
        "which certificates the server is trusted with",
        "The certificates of this machine are what counts here; SSL_CERT_FILE names others.",
        ("true", "false"),
    ),
    Limit(
        "hooks.pre_tool_call",
        "refused",
        "scripts that may forbid a call of a tool",
        "Disable the tools themselves with agent.disabled_toolsets.",
        ("[]",),
    ),
    Limit(
        "memory.memory_enabled",
        "refused",
        "whether the agent keeps notes",
        "Write `disabled_toolsets: [memory]` below agent.",
        ("true",),
    ),
    Limit(
        "memory.write_approval",
        "refused",
        "a person's yes before a note is kept",
        "Write `disabled_toolsets: [memory]` below agent for no notes at all.",
        ("false",),
    ),
    Limit(
        "profile_routes", "refused", "another profile, with limits of its own, answers", _PROFILES, ("[]",)
    ),
    Limit(
        "gateway.profile_routes",
        "refused",
        "another profile, with limits of its own, answers",
        _PROFILES,
        ("[]",),
    ),
    Limit("max_concurrent_sessions", "harmless", "gateway.max_running_turns says how many turns run at once"),
    Limit("gateway.api_server", "harmless", "gateway.max_running_turns says how many turns run at once"),
    Limit("tool_loop_guardrails", "harmless", "agent.max_turns ends a turn that goes in circles"),
    Limit("delegation", "harmless", "a helper makes at most 50 requests, and hands on no work"),
    Limit("code_execution", "harmless", "there is no tool execute_code"),
    Limit("browser", "harmless", "there are no browser tools"),
    Limit("computer_use", "harmless", "there is no tool computer_use"),
    Limit("skills", "harmless", "skills are not loaded"),
    Limit("cron", "harmless", "jobs do not run"),
    # Commands and files.
    Limit(
        "terminal.backend",
        "refused",
        "commands run in a place of their own, away from this machine",
        _ACCOUNT,
        ("local",),
    ),
    Limit("terminal.docker_network", "harmless", "commands run in no container", passes=("true",)),
    Limit("terminal.cwd", "taken", "the directory in which commands start"),
    Limit("terminal.timeout", "taken", "seconds for a command"),
    Limit("terminal.env_passthrough", "taken", "secret variables that commands see all the same"),
    Limit("approvals.mode", "taken", "whether a person is asked (manual and smart are read as ask)"),
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
    Limit("approvals.destructive_slash_confirm", "harmless", "it asks people about their own commands"),
    Limit(
        "command_allowlist",
        "harmless",
        "these commands are asked about again; `/approve always` in a chat allows one for always",
    ),
    Limit(
        "gateway.strict",
        "refused",
        "the directories from which files are sent into a chat",
        "Write `disabled_toolsets: [file]` below agent for no files at all.",
        ("false",),
    ),
    Limit("gateway.media_delivery_allow_dirs", "harmless", "it adds directories"),
    Limit("gateway.trust_recent_files", "harmless", "it counts with gateway.strict only"),
    # What is asked of the network, and what is told to others.
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
        "a scanner looks at each command",
        "With approvals.mode ask a person decides about each dangerous command.",
        ("false",),
    ),
    Limit("security.tirith_path", "harmless", "it says where the scanner is"),
    Limit("security.tirith_timeout", "harmless", "it says how long the scanner may take"),
    Limit(
        "security.tirith_fail_open",
        "refused",
        "no command runs where the scanner cannot",
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
    Limit("security.website_blocklist.domains", "harmless", "it counts where the blocklist is enabled"),
    Limit("security.website_blocklist.shared_files", "harmless", "it counts where the blocklist is enabled"),
    Limit("security.website_blocklist", "refused", "websites that are never fetched", passes=("[]",)),
    Limit("security.acked_advisories", "harmless", "it silences warnings"),
    Limit(
        "security.allow_lazy_installs",
        "harmless",
        "nothing is installed by itself",
        passes=("false",),
    ),
    Limit("security.*", "refused", "a key of security that is not known", "It cannot be said here."),
    Limit(
        "privacy.redact_pii",
        "refused",
        "names and numbers of people that the model is not told",
        "It is told the name of whoever writes.",
        ("false",),
    ),
    # People and chats. `allow_from` and what begins with allow or deny elsewhere is refused by its name.
    Limit("platforms.*.allow_from", "taken", "who may talk"),
    Limit("platforms.*.allow_admin_from", "taken", "who may do more than talk"),
    Limit("platforms.*.require_mention", "taken", "what is answered in a group"),
    Limit("platforms.*.unauthorized_dm_behavior", "taken", "what a stranger gets"),
    Limit("platforms.*.dm_policy", "refused", "who may write to the bot alone", _WHO),
    Limit("platforms.*.group_policy", "refused", "the groups in which it answers", _WHO),
    Limit("platforms.*.group_allow_from", "refused", "who may talk in a group", _WHO),
    Limit("platforms.*.group_allow_admin_from", "refused", "who may do more than talk in a group", _WHO),
    Limit("platforms.*.user_allowed_commands", "refused", "commands for who is no admin", _WHO),
    Limit("platforms.*.group_user_allowed_commands", "refused", "commands for who is no admin", _WHO),
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
        "what is answered in a thread",
        _MENTIONS,
        ("false",),
    ),
    Limit(
        "platforms.*.bots_require_inline_mention",
        "refused",
        "how another bot gets an answer",
        _MENTIONS,
        ("false",),
    ),
    Limit("platforms.*.server_actions", "refused", "what the agent may do on the server", _WHO),
    Limit("platforms.*.allow_bots", "harmless", "other bots are never answered"),
    Limit("platforms.*.guest_mode", "harmless", "strangers are never answered"),
    Limit("platforms.*.free_response_chats", "harmless", "there, too, the bot has to be mentioned"),
    Limit("platforms.*.free_response_channels", "harmless", "there, too, the bot has to be mentioned"),
    Limit("platforms.*.free_response_topics", "harmless", "there, too, the bot has to be mentioned"),
    Limit("platforms.*.mention_patterns", "harmless", "only its name counts as a mention"),
)

VARIABLES: tuple[Limit, ...] = (
    Limit("TERMINAL_ENV", "refused", "where commands run", _ACCOUNT, ("local",)),
    Limit("HERMES_WRITE_SAFE_ROOT", "refused", "the directories that may be written to", _ACCOUNT),
)
"""The same for variables of the environment and of `.env`."""

# Every set of tools here has the name that it has in the original, whose `hermes-…` sets hold all of these.
_OUR_TOOLSETS = frozenset(
    {"terminal", "file", "web", "memory", "todo", "session_search", "clarify", "delegation"}
)
_SPELLED = {"yes": "true", "on": "true", "1": "true", "no": "false", "off": "false", "0": "false"}


def judge(tree: dict[str, Tree], findings: list[ConfigFinding]) -> tuple[dict[str, Tree], list[str]]:
    """Return the tree without the limiting keys that are not ours, and a warning for each harmless one that
    has a value. A value that limits is added to `findings`."""
    warnings: list[str] = []
    before = tree
    for limit in LIMITS:
        if limit.verdict == "taken":
            continue
        for path, value in list(_found(tree, limit.key.split("."), ())):
            tree = _without(tree, path)
            _judge(limit, path, value, findings, warnings)
    # A section that held nothing else is no unknown key.
    return {name: value for name, value in tree.items() if value != {} or before[name] == {}}, warnings


def judge_variables(environ: Mapping[str, str], findings: list[ConfigFinding]) -> None:
    """Add each variable that limits the agent in the original to `findings`."""
    for limit in VARIABLES:
        text = environ.get(limit.key, "")
        _judge(limit, (limit.key,), Scalar(text, text), findings, [])


def _judge(
    limit: Limit, path: tuple[str, ...], value: Tree, findings: list[ConfigFinding], warnings: list[str]
) -> None:
    key, plain = ".".join(path), _plain(value)
    if plain == "" or plain in limit.passes or (plain == "[]" and limit.verdict == "harmless"):
        return
    if limit.verdict == "harmless":
        warnings.append(f"{key} is a key of hermes-agent and is not used here: {limit.meaning}")
    elif "toolsets" not in limit.key or not _toolsets(value) >= _OUR_TOOLSETS:
        problem = (
            f"{_shown(path[-1], value)} is a limit of hermes-agent ({limit.meaning}) that is not kept here"
        )
        remedy = f"{limit.remedy} Remove the key to start without this limit.".lstrip()
        findings.append(ConfigFinding(key, problem, remedy))


def _found(tree: Tree, pattern: list[str], path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Tree]]:
    """The paths that a pattern matches, each with its value."""
    if not pattern:
        yield path, tree
    elif isinstance(tree, dict):
        for name in tree if pattern[0] == "*" else [pattern[0]]:
            if name in tree:
                yield from _found(tree[name], pattern[1:], (*path, name))


def _without(tree: dict[str, Tree], path: tuple[str, ...]) -> dict[str, Tree]:
    """A copy of the tree that has no such key. A section that is empty then stays."""
    name, *rest = path
    inner = tree[name]
    if rest and isinstance(inner, dict):
        return {**tree, name: _without(inner, tuple(rest))}
    return {key: value for key, value in tree.items() if key != name}


def _plain(value: Tree) -> str:
    """A value as the rows spell it. The original reads YAML 1.1, in which `yes` and `off` are switches."""
    if value is None:
        return ""
    if isinstance(value, Scalar):
        text = value.text.strip().lower()
        return _SPELLED.get(text, text)
    return "…" if value else "[]"


def _toolsets(value: Tree) -> frozenset[str]:
    """The sets of tools of ours that a list holds."""
    names = {each.text for each in value if isinstance(each, Scalar)} if isinstance(value, list) else set()
    is_all = any(name.startswith("hermes-") and name != "hermes-webhook" for name in names)
    return _OUR_TOOLSETS if is_all else frozenset(names)


def _shown(name: str, value: Tree) -> str:
    """A value as the file has it, on one line, without secrets."""
    if isinstance(value, dict):
        return "a mapping"
    parts = value if isinstance(value, list) else [value]
    texts = [str(masked(name, each.text)) for each in parts if isinstance(each, Scalar)]
    text = repr(texts) if isinstance(value, list) else repr("".join(texts))
    return text if len(text) <= 80 else text[:80] + "…"
