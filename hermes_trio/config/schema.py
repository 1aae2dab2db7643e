"""The schema of the configuration: each key once, with its type, its default and one line of help.

`hermes-trio config show` and the documentation are made from these structs; `config_file` finds and reads the
file. The values are frozen: a changed configuration takes effect with a new start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..base.messages import HomeChannel
from .database_section import DatabaseConfig
from .heartbeat_section import HeartbeatConfig
from .remote_section import DockerConfig, SshConfig
from .retention_section import BackupConfig, RetentionConfig
from .section import Section

# The upper bound of 115 days excludes `inf`, which timers of the operating system do not accept.
Seconds = Annotated[float, Meta(ge=0, le=10_000_000)]
SignedSeconds = Annotated[float, Meta(ge=-10_000_000, le=10_000_000)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
# An empty id would match a message with an unknown sender. `all` inside a list is a mistake: as an id it
# would let in nobody.
SenderId = Annotated[str, Meta(pattern=r"^(?!(?:all|\*)$).*\S")]


Provider = Literal["openai", "anthropic", "demo"]


class FallbackConfig(Section, frozen=True):
    """The model that is asked in a turn after the first one has failed."""

    name: Annotated[
        str | None, Meta(description="Name of the fallback model. Left out: there is no fallback.")
    ] = None
    provider: Annotated[
        Literal["openai", "anthropic"] | None,
        Meta(
            description="Provider of the fallback model. Left out: that of the first model.",
            extra={"allowed": "one of openai, anthropic"},
        ),
    ] = None
    base_url: Annotated[
        str | None,
        Meta(description="Address of its server. Left out: that of the first model or of its provider."),
    ] = None
    api_key: Annotated[
        str | None,
        Meta(description="Secret for it. Left out: the variable of the environment for its provider."),
    ] = None


class ModelConfig(Section, frozen=True):
    """The model, its server and its secret."""

    provider: Annotated[
        Provider,
        Meta(description="Provider. Left out: by the keys in the environment, else a local server or demo."),
    ] = "demo"
    base_url: Annotated[
        str | None, Meta(description="Address of the model server. Left out: the address of the provider.")
    ] = None
    name: Annotated[
        str | None, Meta(description="Name of the model. Left out: the usual model of the provider.")
    ] = None
    api_key: Annotated[
        str | None,
        Meta(description="Secret for the provider. Left out: its variable of the environment."),
    ] = None
    context_length: Annotated[
        Count | None,
        Meta(description="Tokens that the model can take. Left out: the known number for the model."),
    ] = None
    fallback: Annotated[
        FallbackConfig, Meta(description="Another model, for turns in which this one cannot answer.")
    ] = FallbackConfig()


# The names of the original. Its sets of tools that do not exist here are accepted as well.
ToolsetName = Literal[
    "terminal", "file", "web", "memory", "todo", "session_search", "clarify", "delegation",
    "browser", "code_execution", "computer_use", "context_engine", "cronjob", "discord", "discord_admin",
    "feishu_doc", "feishu_drive", "homeassistant", "image_gen", "kanban", "project", "search", "skills",
    "spotify", "tts", "video", "video_gen", "vision", "x_search", "yuanbao",
]  # fmt: skip


class AgentConfig(Section, frozen=True):
    """Limits of turns, and the rules for resuming them."""

    restart_drain_timeout: Annotated[
        SignedSeconds,
        Meta(description="Seconds for which running turns may continue after a stop or restart."),
    ] = 0
    max_turns: Annotated[
        Count, Meta(description="Model requests in one turn; after the last one the model has to answer.")
    ] = 90
    gateway_timeout: Annotated[
        Seconds, Meta(description="Seconds without activity after which a turn ends; 0 means never.")
    ] = 1800
    gateway_timeout_warning: Annotated[
        Seconds, Meta(description="Seconds without activity after which the chat is warned; 0 means never.")
    ] = 900
    gateway_notify_interval: Annotated[
        Seconds, Meta(description="Seconds between 'still working' notices; 0 means none.")
    ] = 180
    clarify_timeout: Annotated[
        Seconds, Meta(description="Seconds for which the agent waits for the answer to its question.")
    ] = 3600
    api_max_retries: Annotated[
        int, Meta(ge=0, le=1000, description="Number of retries of a failed model request.")
    ] = 3
    disabled_toolsets: Annotated[
        tuple[ToolsetName, ...],
        Meta(
            description="Sets of tools that the agent does not get.",
            extra={"allowed": "a list of sets such as terminal, file, web, memory, delegation"},
        ),
    ] = ()
    stuck_after: Annotated[
        Count, Meta(description="Consecutive lives that cut a turn of a session before it is suspended.")
    ] = 3
    gateway_auto_continue_freshness: Annotated[
        SignedSeconds,
        Meta(description="Seconds within which a cut turn is resumed; 0 or less means no limit."),
    ] = 3600
    crash_recovery: Annotated[
        Literal["resume", "suspend"],
        Meta(description="Resume or suspend the turns that were cut by a crash."),
    ] = "resume"

    def __post_init__(self) -> None:
        # In the original, -1 means "no grace". Every number below zero means zero.
        if self.restart_drain_timeout < 0:
            msgspec.structs.force_setattr(self, "restart_drain_timeout", 0.0)


class DisplayConfig(Section, frozen=True):
    """Behaviour of a chat while the agent works."""

    busy_input_mode: Annotated[
        Literal["interrupt", "queue", "steer"],
        Meta(description="Effect of a message on a running turn: cut it, wait for it, or join it."),
    ] = "interrupt"
    background_process_notifications: Annotated[
        Literal["all", "result", "error", "off"],
        Meta(description="Notices that a chat gets about its background processes."),
    ] = "all"


class StreamingConfig(Section, frozen=True):
    """Growing answers."""

    enabled: Annotated[bool, Meta(description="Show an answer while it is written.")] = True
    edit_interval: Annotated[Seconds, Meta(description="Seconds between two edits of a growing message.")] = (
        0.8
    )
    cursor: Annotated[str, Meta(description="Text at the end of an unfinished message.")] = " ▉"


class SessionReset(Section, frozen=True):
    """The policy for automatic resets of conversations."""

    mode: Annotated[
        Literal["none", "idle", "daily", "both"],
        Meta(description="Cause of an automatic reset: none, idle time, an hour of the day, or both."),
    ] = "none"
    at_hour: Annotated[int, Meta(ge=0, le=23, description="Hour of the daily reset, in local time.")] = 4
    idle_minutes: Annotated[Count, Meta(description="Minutes without a message until the idle reset.")] = 1440
    notify: Annotated[bool, Meta(description="Tell the chat that its session was reset.")] = True
    notify_exclude_platforms: Annotated[
        tuple[str, ...], Meta(description="Platforms whose chats are not told of a reset.")
    ] = ("api", "webhook")
    bg_process_max_age_hours: Annotated[
        float,
        Meta(
            ge=0,
            le=100_000,
            description="Hours for which a background process prevents the reset of its session.",
        ),
    ] = 24


class TerminalConfig(Section, frozen=True):
    """Commands that the agent runs."""

    cwd: Annotated[
        str | None,
        Meta(description="The work directory: commands start there and may write there."),
    ] = None
    timeout: Annotated[Seconds, Meta(description="Seconds that a foreground command may take.")] = 180
    env_passthrough: Annotated[
        tuple[str, ...],
        Meta(description="Environment variables that commands get besides the usual ones such as PATH."),
    ] = ()
    sandbox: Annotated[
        Literal["auto", "bubblewrap", "landlock", "off", "docker", "ssh"],
        Meta(description="What confines commands, or where they run; auto is the best one of this machine."),
    ] = "auto"
    network: Annotated[
        Literal["ask", "on", "off"],
        Meta(description="Network for commands: after a yes, always, or never."),
    ] = "ask"
    readable: Annotated[tuple[str, ...], Meta(description="Hidden paths that commands may read.")] = ()
    writable: Annotated[tuple[str, ...], Meta(description="More paths that commands may write.")] = ()
    docker: Annotated[DockerConfig, Meta(description="The container of commands.")] = DockerConfig()
    ssh: Annotated[SshConfig, Meta(description="The host of commands.")] = SshConfig()


class ApprovalsConfig(Section, frozen=True):
    """Approval of dangerous commands by a person."""

    mode: Annotated[
        Literal["ask", "off"],
        Meta(description="Ask a person before a dangerous command runs, or do not ask (off)."),
    ] = "ask"
    timeout: Annotated[
        Seconds, Meta(description="Seconds to wait for the person; without an answer the command is denied.")
    ] = 300


class JournalConfig(Section, frozen=True):
    """The run journals."""

    fsync: Annotated[
        Literal["terminal-only", "eager"],
        Meta(description="Writes that are forced to the disk: only the end of a run, or every batch."),
    ] = "terminal-only"


class TurnLimits(Section, frozen=True):
    """Limits of simultaneous turns."""

    max_running_turns: Annotated[
        Count | None, Meta(description="Turns that may run at the same time. Left out: no limit.")
    ] = None
    resume_at_once: Annotated[
        Count, Meta(description="Cut turns that may be resumed at the same time after a start.")
    ] = 8


class WebConfig(Section, frozen=True):
    """The server of the page and of the HTTP API."""

    host: Annotated[str, Meta(description="Address on which the page and the API listen.")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port of the page and the API; 0 means any free port.")
    ] = 8642
    key: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="Secret of the API. Left out: made at the first start, in <home>/web.key."),
    ] = None


class McpToolsConfig(Section, frozen=True):
    """The selection of the tools of an MCP server."""

    include: Annotated[
        tuple[str, ...], Meta(description="Names of the only tools that are used; empty means all tools.")
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        Meta(description="Names of tools that are not used; ignored if include is not empty."),
    ] = ()

    def uses(self, name: str) -> bool:
        """Return whether the tool of this name is used."""
        return name in self.include if self.include else name not in self.exclude


class McpServerConfig(Section, frozen=True):
    """A server of the Model Context Protocol: a program or an address."""

    enabled: Annotated[bool, Meta(description="Offer the tools of this server to the model.")] = True
    command: Annotated[
        str | None, Meta(description="Program that is the server; or leave it out and give a url.")
    ] = None
    args: Annotated[tuple[str, ...], Meta(description="Arguments of that program.")] = ()
    cwd: Annotated[str | None, Meta(description="Working directory; by default `mcp` in the home.")] = None
    env: Annotated[
        Mapping[str, str],
        Meta(description="Environment variables, such as secrets, besides PATH, HOME and the like."),
    ] = {}
    url: Annotated[str | None, Meta(description="Address of a server that is reached by HTTP.")] = None
    headers: Annotated[
        Mapping[str, str], Meta(description="HTTP headers that are sent to that address.")
    ] = {}
    timeout: Annotated[Seconds, Meta(description="Seconds that one call of a tool may take.")] = 120
    tools: Annotated[McpToolsConfig, Meta(description="Tools of the server that are used.")] = (
        McpToolsConfig()
    )


class PlatformConfig(Section, frozen=True):
    """The settings of one platform: the keys below `platforms.NAME`."""

    enabled: Annotated[bool, Meta(description="Connect to this platform.")] = True
    token: Annotated[str | None, Meta(description="Secret that the platform gave to the bot.")] = None
    base_url: Annotated[
        str | None, Meta(description="Address of your own server. Left out: the public server.")
    ] = None
    home_channel: Annotated[
        HomeChannel | None,
        Meta(
            description="Chat for announcements of starts and stops: id, or chat_id, thread_id, name.",
            extra={"allowed": "a chat id, or a mapping with at least a chat_id"},
        ),
    ] = None
    allow_from: Annotated[
        tuple[SenderId, ...] | Literal["all"],
        Meta(
            description="People who may talk to the agent: a list of ids, or all. Empty: nobody.",
            extra={"allowed": "a list of ids such as [42, 43], or the word all without brackets"},
        ),
    ] = ()
    allow_admin_from: Annotated[
        tuple[SenderId, ...],
        Meta(
            description="Ids that may restart it and approve commands. Empty: all listed or paired.",
            extra={"allowed": "a list of ids such as [42, 43]"},
        ),
    ] = ()
    unauthorized_dm_behavior: Annotated[
        Literal["pair", "ignore"] | None,
        Meta(
            description="Answer to a stranger: a pairing code, or nothing (usual if ids are listed).",
            extra={"allowed": "one of pair, ignore"},
        ),
    ] = None
    require_mention: Annotated[
        bool, Meta(description="In groups, answer only messages that mention the bot.")
    ] = True
    gateway_restart_notification: Annotated[
        bool, Meta(description="Tell its chats when the gateway stops or restarts.")
    ] = True
    options: Mapping[str, object] = {}
    """All other keys of the platform. Its adapter checks them."""


class GatewayConfig(Section, frozen=True):
    """The configuration of a gateway: every key of `config.yaml`."""

    model: Annotated[ModelConfig, Meta(description="The model that answers.")] = ModelConfig()
    agent: Annotated[AgentConfig, Meta(description="Limits of turns, and their resumption.")] = AgentConfig()
    display: Annotated[DisplayConfig, Meta(description="Behaviour of a chat while the agent works.")] = (
        DisplayConfig()
    )
    streaming: Annotated[
        StreamingConfig, Meta(description="Answers that are shown while they are written.")
    ] = StreamingConfig()
    session_reset: Annotated[SessionReset, Meta(description="Automatic resets of conversations.")] = (
        SessionReset()
    )
    reset_by_platform: Annotated[
        Mapping[str, SessionReset],
        Meta(description="Another session_reset for one platform, by its name."),
    ] = {}
    reset_by_type: Annotated[
        Mapping[str, SessionReset],
        Meta(description="Another session_reset for one type of chat, such as dm or group."),
    ] = {}
    terminal: Annotated[TerminalConfig, Meta(description="Commands that the agent runs.")] = TerminalConfig()
    approvals: Annotated[ApprovalsConfig, Meta(description="Approval of dangerous commands.")] = (
        ApprovalsConfig()
    )
    mcp_servers: Annotated[
        Mapping[str, McpServerConfig],
        Meta(description="Servers with further tools for the model, by name; needs hermes-trio[mcp]."),
    ] = {}
    database: Annotated[DatabaseConfig, Meta(description="The store of all messages and sessions.")] = (
        DatabaseConfig()
    )
    journal: Annotated[JournalConfig, Meta(description="The record of every run.")] = JournalConfig()
    gateway: Annotated[TurnLimits, Meta(description="Limits of simultaneous turns.")] = TurnLimits()
    retention: Annotated[RetentionConfig, Meta(description="Times for which data is kept.")] = (
        RetentionConfig()
    )
    backup: Annotated[BackupConfig, Meta(description="Backups that the gateway makes by itself.")] = (
        BackupConfig()
    )
    heartbeat: Annotated[HeartbeatConfig, Meta(description="Sign of life for a watcher.")] = HeartbeatConfig()
    web: Annotated[WebConfig, Meta(description="The page and the HTTP API.")] = WebConfig()
    group_sessions_per_user: Annotated[
        bool, Meta(description="In a group, each person has a separate conversation.")
    ] = True
    thread_sessions_per_user: Annotated[
        bool, Meta(description="In a thread, each person has a separate conversation.")
    ] = False
    platforms: Annotated[Mapping[str, PlatformConfig], Meta(description="The chat platforms, by name.")] = {}


def reset_policy(config: GatewayConfig, platform: str, chat_type: str) -> SessionReset:
    """Return the reset policy of a chat: that of its platform, else of its type, else the general one."""
    by_type = config.reset_by_type.get(chat_type, config.session_reset)
    return config.reset_by_platform.get(platform, by_type)
