"""Hermes on Trio: talk to an AI agent from the chats you already use.

The gateway never loses or repeats a turn: not when the turn is stopped, not when the gateway restarts, and
not when the machine fails.

The layers of the package, and of the rooms inside it, are drawn in docs/change/layers.md, which is
made from the import contracts in pyproject.toml.

The names in `__all__` are public, for programs that embed the gateway. `hermes_trio.platform` has the names
for adapters, `hermes_trio.tools` those for tools, and `hermes_trio.testing` those for tests. Each name is
imported when it is first used, so `hermes-trio --help` starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base.errors import ConfigInvalid as ConfigInvalid
    from .base.errors import GatewayError as GatewayError
    from .base.errors import InvalidId as InvalidId
    from .base.events import ApprovalRequest as ApprovalRequest
    from .base.events import Event as Event
    from .base.events import MessageDelta as MessageDelta
    from .base.events import QuestionRequest as QuestionRequest
    from .base.events import ReasoningAvailable as ReasoningAvailable
    from .base.events import RequestClosed as RequestClosed
    from .base.events import RunCancelled as RunCancelled
    from .base.events import RunCompleted as RunCompleted
    from .base.events import RunFailed as RunFailed
    from .base.events import ToolCompleted as ToolCompleted
    from .base.events import ToolStarted as ToolStarted
    from .base.messages import HomeChannel as HomeChannel
    from .base.messages import MessageEvent as MessageEvent
    from .base.messages import SessionSource as SessionSource
    from .base.messages import build_session_key as build_session_key
    from .base.world import World as World
    from .config.config_file import load_config as load_config
    from .config.schema import GatewayConfig as GatewayConfig
    from .config.schema import ModelConfig as ModelConfig
    from .config.schema import PlatformConfig as PlatformConfig
    from .embed import blocking as blocking
    from .embed.embedding import open_gateway as open_gateway
    from .embed.embedding import serve as serve
    from .embed.foreign_agents import AsyncioTurn as AsyncioTurn
    from .embed.foreign_agents import BlockingTurn as BlockingTurn
    from .embed.foreign_agents import TurnOver as TurnOver
    from .embed.foreign_agents import asyncio_agent as asyncio_agent
    from .embed.foreign_agents import asyncio_tool as asyncio_tool
    from .embed.foreign_agents import blocking_agent as blocking_agent
    from .embed.gateway_handle import Gateway as Gateway
    from .embed.gateway_handle import Run as Run
    from .embed.gateway_handle import RunUnanswered as RunUnanswered
    from .embed.host_signals import stopped_by_signals as stopped_by_signals
    from .embed.mounted_web import MountedWeb as MountedWeb
    from .gateway.ending.endings_table import Ending as Ending
    from .gateway.turn.agent_function import Agent as Agent
    from .gateway.turn.context import TurnContext as Turn
    from .host.home.state_file import Status as Status
    from .state.rules.store import SessionStore as SessionStore
    from .state.tables.session_entry import SessionEntry as SessionEntry
    from .state.tables.transcript import TranscriptRow as TranscriptRow

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "ApprovalRequest",
    "AsyncioTurn",
    "BlockingTurn",
    "ConfigInvalid",
    "Ending",
    "Event",
    "Gateway",
    "GatewayConfig",
    "GatewayError",
    "HomeChannel",
    "InvalidId",
    "MessageDelta",
    "MessageEvent",
    "ModelConfig",
    "MountedWeb",
    "PlatformConfig",
    "QuestionRequest",
    "ReasoningAvailable",
    "RequestClosed",
    "Run",
    "RunCancelled",
    "RunCompleted",
    "RunFailed",
    "RunUnanswered",
    "SessionEntry",
    "SessionSource",
    "SessionStore",
    "Status",
    "ToolCompleted",
    "ToolStarted",
    "TranscriptRow",
    "Turn",
    "TurnOver",
    "World",
    "__version__",
    "asyncio_agent",
    "asyncio_tool",
    "blocking",
    "blocking_agent",
    "build_session_key",
    "load_config",
    "open_gateway",
    "serve",
    "stopped_by_signals",
]

_MODULES = {
    "base.errors": ("ConfigInvalid", "GatewayError", "InvalidId"),
    "base.events": (
        "ApprovalRequest",
        "Event",
        "MessageDelta",
        "QuestionRequest",
        "ReasoningAvailable",
        "RequestClosed",
        "RunCancelled",
        "RunCompleted",
        "RunFailed",
        "ToolCompleted",
        "ToolStarted",
    ),
    "base.messages": ("HomeChannel", "MessageEvent", "SessionSource", "build_session_key"),
    "base.world": ("World",),
    "config.config_file": ("load_config",),
    "config.schema": ("GatewayConfig", "ModelConfig", "PlatformConfig"),
    "embed.embedding": ("open_gateway", "serve"),
    "embed.foreign_agents": (
        "AsyncioTurn",
        "BlockingTurn",
        "TurnOver",
        "asyncio_agent",
        "asyncio_tool",
        "blocking_agent",
    ),
    "embed.gateway_handle": ("Gateway", "RunUnanswered", "Run"),
    "embed.host_signals": ("stopped_by_signals",),
    "embed.mounted_web": ("MountedWeb",),
    "gateway.ending.endings_table": ("Ending",),
    "gateway.turn.agent_function": ("Agent",),
    "gateway.turn.context": ("TurnContext",),
    "host.home.state_file": ("Status",),
    "state.rules.store": ("SessionStore",),
    "state.tables.session_entry": ("SessionEntry",),
    "state.tables.transcript": ("TranscriptRow",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}
_RENAMED = {"Turn": "TurnContext"}
"""Public names that differ from the name in their module."""


if not TYPE_CHECKING:  # a type checker would take any name then

    def __getattr__(name: str) -> object:
        inner = _RENAMED.get(name, name)
        if name == "blocking":
            return import_module(".embed.blocking", __name__)
        if name not in __all__ or inner not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f".{_HOMES[inner]}", __name__), inner)


def __dir__() -> list[str]:
    return __all__
