"""The configuration as values. Every key stands here once: type, default and one-line help.

`hermes-trio config show` and the documentation are made from these structs; `config_file` finds
and reads the file. Values are frozen: a changed configuration is a new one, made by a new start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..base.messages import HomeChannel
from .section import Section

# The upper bound, 115 days, keeps out `inf`, which timers of the operating system do not take.
Seconds = Annotated[float, Meta(ge=0, le=10_000_000)]
SignedSeconds = Annotated[float, Meta(ge=-10_000_000, le=10_000_000)]
Days = Annotated[int, Meta(ge=1, le=36_500)]
Count = Annotated[int, Meta(ge=1, le=1_000_000_000)]
# An empty id would match a message whose sender is unknown; `all` in a list lets in nobody, and
# whoever writes it means something else.
SenderId = Annotated[str, Meta(pattern=r"^(?!(?:all|\*)$).*\S")]


Provider = Literal["openai", "anthropic", "demo"]


class FallbackConfig(Section, frozen=True):
    name: Annotated[
        str | None, Meta(description="Which model to ask then; left out: there is no other one.")
    ] = None
    provider: Annotated[
        Literal["openai", "anthropic"] | None,
        Meta(
            description="Whose way it is asked; left out: as the first one.",
            extra={"wants": "one of openai, anthropic"},
        ),
    ] = None
    base_url: Annotated[
        str | None,
        Meta(description="Address of its server; left out: as for the first one, or its provider's."),
    ] = None
    api_key: Annotated[
        str | None, Meta(description="Secret for it; left out: the environment's for its provider.")
    ] = None


class ModelConfig(Section, frozen=True):
    provider: Annotated[
        Provider,
        Meta(description="Who answers; left out: whose key is in the environment, a local server, or demo."),
    ] = "demo"
    base_url: Annotated[
        str | None, Meta(description="Address of the model's server; left out: the provider's own.")
    ] = None
    name: Annotated[
        str | None, Meta(description="Which model to ask; left out: the provider's usual one.")
    ] = None
    api_key: Annotated[
        str | None,
        Meta(description="Secret for the provider; left out: the environment's for it."),
    ] = None
    context_length: Annotated[
        Count | None,
        Meta(description="Tokens the model can take; left out: what is known of the model."),
    ] = None
    fallback: Annotated[
        FallbackConfig, Meta(description="Another model, for turns in which this one cannot answer.")
    ] = FallbackConfig()


# The names are those of the original. Its sets of tools that are not here may be named as well.
ToolsetName = Literal[
    "terminal", "file", "web", "memory", "todo", "session_search", "clarify", "delegation",
    "browser", "code_execution", "computer_use", "context_engine", "cronjob", "discord", "discord_admin",
    "feishu_doc", "feishu_drive", "homeassistant", "image_gen", "kanban", "project", "search", "skills",
    "spotify", "tts", "video", "video_gen", "vision", "x_search", "yuanbao",
]  # fmt: skip


class AgentConfig(Section, frozen=True):
    restart_drain_timeout: Annotated[
        SignedSeconds,
        Meta(description="Seconds running turns may go on after a stop or restart was asked for."),
    ] = 0
    max_turns: Annotated[
        Count, Meta(description="Model requests within one turn, after which it has to answer.")
    ] = 90
    gateway_timeout: Annotated[
        Seconds, Meta(description="Seconds without any activity that end a turn; 0 is never.")
    ] = 1800
    gateway_timeout_warning: Annotated[
        Seconds, Meta(description="Seconds without activity until the chat is warned; 0 is never.")
    ] = 900
    gateway_notify_interval: Annotated[
        Seconds, Meta(description="Seconds between 'still working' notices; 0 is none.")
    ] = 180
    clarify_timeout: Annotated[
        Seconds, Meta(description="Seconds the agent waits for an answer to its question.")
    ] = 3600
    api_max_retries: Annotated[
        int, Meta(ge=0, le=1000, description="How often a failed model request is tried again.")
    ] = 3
    disabled_toolsets: Annotated[
        tuple[ToolsetName, ...],
        Meta(
            description="Sets of tools that the agent does not get.",
            extra={"wants": "a list of sets such as terminal, file, web, memory, delegation"},
        ),
    ] = ()
    stuck_after: Annotated[
        Count, Meta(description="Lives in a row that cut a session's turn until it is suspended.")
    ] = 3
    gateway_auto_continue_freshness: Annotated[
        SignedSeconds,
        Meta(description="Seconds in which a cut turn resumes by itself; 0 or less is no limit."),
    ] = 3600
    crash_recovery: Annotated[
        Literal["resume", "suspend"],
        Meta(description="What becomes of turns that a crash cut."),
    ] = "resume"

    def __post_init__(self) -> None:
        # People of the original write -1 for "no grace"; below zero there is only zero.
        if self.restart_drain_timeout < 0:
            msgspec.structs.force_setattr(self, "restart_drain_timeout", 0.0)


class DisplayConfig(Section, frozen=True):
    busy_input_mode: Annotated[
        Literal["interrupt", "queue", "steer"],
        Meta(description="What a message does while a turn runs: cut it, wait, or join it."),
    ] = "interrupt"
    background_process_notifications: Annotated[
        Literal["all", "result", "error", "off"],
        Meta(description="What a chat hears of its background processes."),
    ] = "all"


class StreamingConfig(Section, frozen=True):
    enabled: Annotated[bool, Meta(description="Show an answer while it is being written.")] = True
    edit_interval: Annotated[
        Seconds, Meta(description="Seconds between two edits of a message being written.")
    ] = 0.8
    cursor: Annotated[str, Meta(description="What stands behind text that is not finished.")] = " ▉"


class SessionReset(Section, frozen=True):
    mode: Annotated[
        Literal["none", "idle", "daily", "both"],
        Meta(description="When a conversation begins anew by itself."),
    ] = "none"
    at_hour: Annotated[
        int, Meta(ge=0, le=23, description="Hour of the day of the daily reset, local time.")
    ] = 4
    idle_minutes: Annotated[Count, Meta(description="Minutes without a message until the idle reset.")] = 1440
    notify: Annotated[bool, Meta(description="Tell the chat that its session was reset.")] = True
    notify_exclude_platforms: Annotated[
        tuple[str, ...], Meta(description="Platforms whose chats are not told.")
    ] = ("api", "webhook")
    bg_process_max_age_hours: Annotated[
        float,
        Meta(
            ge=0,
            le=100_000,
            description="Hours for which a background process keeps its session from a reset.",
        ),
    ] = 24


class TerminalConfig(Section, frozen=True):
    cwd: Annotated[
        str | None,
        Meta(description="Directory in which commands start; left out: the gateway's own."),
    ] = None
    timeout: Annotated[Seconds, Meta(description="Seconds a foreground command may take.")] = 180
    env_passthrough: Annotated[
        tuple[str, ...],
        Meta(description="Environment variables that commands see although they may be secret."),
    ] = ()


class ApprovalsConfig(Section, frozen=True):
    mode: Annotated[
        Literal["ask", "off"],
        Meta(description="Whether a person is asked before a dangerous command runs."),
    ] = "ask"
    timeout: Annotated[Seconds, Meta(description="Seconds to wait for that person; no answer is a no.")] = 60


class JournalConfig(Section, frozen=True):
    fsync: Annotated[
        Literal["terminal-only", "eager"],
        Meta(description="What of a run is forced to the disk: its end, or every batch."),
    ] = "terminal-only"


class TurnLimits(Section, frozen=True):
    max_running_turns: Annotated[
        Count | None, Meta(description="Turns that may run at a time; left out: any number.")
    ] = None
    resume_at_once: Annotated[
        Count, Meta(description="Cut turns that may resume at a time after a start.")
    ] = 8


class RetentionConfig(Section, frozen=True):
    journal_days: Annotated[Days, Meta(description="Days that run journals are kept.")] = 30
    inbox_days: Annotated[Days, Meta(description="Days that answered messages are kept.")] = 7
    outbox_days: Annotated[Days, Meta(description="Days that sent answers are kept.")] = 7
    spool_days: Annotated[Days, Meta(description="Days that output of processes is kept.")] = 7
    session_days: Annotated[Days, Meta(description="Days that unused sessions are kept.")] = 90


class WebConfig(Section, frozen=True):
    host: Annotated[str, Meta(description="Address on which the page and the API listen.")] = "127.0.0.1"
    port: Annotated[
        int, Meta(ge=0, le=65535, description="Port of the page and the API; 0 is any free one.")
    ] = 8642
    key: Annotated[
        Annotated[str, Meta(min_length=1)] | None,
        Meta(description="Secret of the API; left out: made on first start, in <home>/web.key."),
    ] = None


class McpToolsConfig(Section, frozen=True):
    include: Annotated[
        tuple[str, ...], Meta(description="Names of its only tools that are used; empty: all of them.")
    ] = ()
    exclude: Annotated[
        tuple[str, ...],
        Meta(description="Names of its tools that are not used; counts where include is empty."),
    ] = ()

    def lets(self, name: str) -> bool:
        """Return whether the tool of this name is used."""
        return name in self.include if self.include else name not in self.exclude


class McpServerConfig(Section, frozen=True):
    """A program, or an address, that offers tools by the Model Context Protocol."""

    enabled: Annotated[bool, Meta(description="Whether its tools are offered to the model.")] = True
    command: Annotated[
        str | None, Meta(description="The program that is the server; or leave it out and give a url.")
    ] = None
    args: Annotated[tuple[str, ...], Meta(description="What that program is started with.")] = ()
    env: Annotated[
        Mapping[str, str],
        Meta(description="Environment variables it gets besides PATH, HOME and the like: its secrets."),
    ] = {}
    url: Annotated[str | None, Meta(description="Address of a server that is reached by HTTP.")] = None
    headers: Annotated[Mapping[str, str], Meta(description="What is sent along to that address.")] = {}
    timeout: Annotated[Seconds, Meta(description="Seconds one call of a tool may take.")] = 120
    tools: Annotated[McpToolsConfig, Meta(description="Which of its tools are used.")] = McpToolsConfig()


class PlatformConfig(Section, frozen=True):
    """The settings of one platform: the keys below `platforms.NAME`."""

    enabled: Annotated[bool, Meta(description="Whether the gateway connects to it.")] = True
    token: Annotated[str | None, Meta(description="Secret that the platform gave the bot.")] = None
    base_url: Annotated[
        str | None, Meta(description="Address of a server of one's own; left out: the public one.")
    ] = None
    home_channel: Annotated[
        HomeChannel | None,
        Meta(
            description="Chat that hears of starts and stops: its id, or chat_id, thread_id, name.",
            extra={"wants": "a chat id, or a mapping with at least a chat_id"},
        ),
    ] = None
    allow_from: Annotated[
        tuple[SenderId, ...] | Literal["all"],
        Meta(
            description="Who may talk to the agent: a list of ids, or the word all. Empty: nobody.",
            extra={"wants": "a list of ids such as [42, 43], or the word all without brackets"},
        ),
    ] = ()
    allow_admin_from: Annotated[
        tuple[SenderId, ...],
        Meta(
            description="Ids that may restart it and approve commands. Empty: all listed or paired.",
            extra={"wants": "a list of ids such as [42, 43]"},
        ),
    ] = ()
    unauthorized_dm_behavior: Annotated[
        Literal["pair", "ignore"] | None,
        Meta(
            description="What a stranger gets: a pairing code, or nothing, as where ids are listed.",
            extra={"wants": "one of pair, ignore"},
        ),
    ] = None
    require_mention: Annotated[
        bool, Meta(description="In groups, answer only where the bot is mentioned.")
    ] = True
    gateway_restart_notification: Annotated[
        bool, Meta(description="Tell its chats when the gateway stops or restarts.")
    ] = True
    options: Mapping[str, object] = {}
    """Every further key of the platform, for its adapter to judge."""


class GatewayConfig(Section, frozen=True):
    """The configuration of a gateway: every key of `config.yaml`."""

    model: Annotated[ModelConfig, Meta(description="The model that thinks.")] = ModelConfig()
    agent: Annotated[AgentConfig, Meta(description="How turns run, end and resume.")] = AgentConfig()
    display: Annotated[DisplayConfig, Meta(description="What chats see.")] = DisplayConfig()
    streaming: Annotated[StreamingConfig, Meta(description="Answers that grow while they are written.")] = (
        StreamingConfig()
    )
    session_reset: Annotated[
        SessionReset, Meta(description="When conversations begin anew by themselves.")
    ] = SessionReset()
    reset_by_platform: Annotated[
        Mapping[str, SessionReset],
        Meta(description="Another session_reset for a platform, by its name."),
    ] = {}
    reset_by_type: Annotated[
        Mapping[str, SessionReset],
        Meta(description="Another session_reset for a type of chat, such as dm or group."),
    ] = {}
    terminal: Annotated[TerminalConfig, Meta(description="Commands the agent runs.")] = TerminalConfig()
    approvals: Annotated[ApprovalsConfig, Meta(description="Dangerous commands and who allows them.")] = (
        ApprovalsConfig()
    )
    mcp_servers: Annotated[
        Mapping[str, McpServerConfig],
        Meta(description="Servers whose tools the model gets too, by name; needs hermes-trio[mcp]."),
    ] = {}
    journal: Annotated[JournalConfig, Meta(description="The record of every run.")] = JournalConfig()
    gateway: Annotated[TurnLimits, Meta(description="How much happens at a time.")] = TurnLimits()
    retention: Annotated[RetentionConfig, Meta(description="How long things are kept.")] = RetentionConfig()
    web: Annotated[WebConfig, Meta(description="The page and the HTTP API.")] = WebConfig()
    group_sessions_per_user: Annotated[
        bool, Meta(description="In a group, everybody has a conversation of their own.")
    ] = True
    thread_sessions_per_user: Annotated[
        bool, Meta(description="In a thread, everybody has a conversation of their own.")
    ] = False
    platforms: Annotated[Mapping[str, PlatformConfig], Meta(description="Where people chat, by name.")] = {}


def reset_policy(config: GatewayConfig, platform: str, chat_type: str) -> SessionReset:
    """The reset policy of a chat: its platform's, else its type's, else the general one."""
    by_type = config.reset_by_type.get(chat_type, config.session_reset)
    return config.reset_by_platform.get(platform, by_type)
