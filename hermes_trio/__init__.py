"""Hermes on Trio: talk to an AI agent from the chats you already use.

The gateway never loses, repeats or half-finishes a conversation: not when a turn is stopped, not
when it restarts, not when the machine dies.

The layers of the package, and of the rooms inside it, are drawn in docs/change/layers.md, which is
made from the import contracts in pyproject.toml.

The names in `__all__` are what we promise to keep. They are imported when they are first used, so
that `hermes-trio --help` waits for none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base.errors import ConfigInvalid as ConfigInvalid
    from .base.errors import GatewayError as GatewayError
    from .base.errors import InvalidId as InvalidId
    from .base.messages import Attachment as Attachment
    from .base.messages import HomeChannel as HomeChannel
    from .base.messages import MessageEvent as MessageEvent
    from .base.messages import SessionSource as SessionSource
    from .base.messages import build_session_key as build_session_key
    from .base.world import World as World
    from .config.config_file import load_config as load_config
    from .config.schema import GatewayConfig as GatewayConfig
    from .config.schema import PlatformConfig as PlatformConfig
    from .embed import open_gateway as open_gateway
    from .embed import serve as serve
    from .gateway.commands.table import COMMANDS as COMMANDS
    from .host.files.file_lock import sole_use as sole_use
    from .host.processes.peers import is_from_agent as is_from_agent
    from .state.rules.store import SessionStore as SessionStore
    from .state.tables.session_entry import SessionEntry as SessionEntry

__version__ = "0.1.0"

__all__ = [
    "COMMANDS",
    "Attachment",
    "ConfigInvalid",
    "GatewayConfig",
    "GatewayError",
    "HomeChannel",
    "InvalidId",
    "MessageEvent",
    "PlatformConfig",
    "SessionEntry",
    "SessionSource",
    "SessionStore",
    "World",
    "__version__",
    "build_session_key",
    "is_from_agent",
    "load_config",
    "open_gateway",
    "serve",
    "sole_use",
]

_HOMES = {
    "COMMANDS": "gateway.commands.table",
    "Attachment": "base.messages",
    "ConfigInvalid": "base.errors",
    "GatewayConfig": "config.schema",
    "GatewayError": "base.errors",
    "HomeChannel": "base.messages",
    "InvalidId": "base.errors",
    "MessageEvent": "base.messages",
    "PlatformConfig": "config.schema",
    "SessionEntry": "state.tables.session_entry",
    "SessionSource": "base.messages",
    "SessionStore": "state.rules.store",
    "World": "base.world",
    "build_session_key": "base.messages",
    "is_from_agent": "host.processes.peers",
    "load_config": "config.config_file",
    "open_gateway": "embed",
    "serve": "embed",
    "sole_use": "host.files.file_lock",
}


if not TYPE_CHECKING:  # a type checker would take any name then

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
