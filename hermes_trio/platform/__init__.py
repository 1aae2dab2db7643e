"""Names for those who write an adapter, the code of a platform.

    adapter      Adapter, BaseLink, Link, Traits, FOR_EVER: the contract; `contract` describes it;
                 RememberingAdapter, Memory, HeldMemory for a platform that does not keep the place
    messages     MessageEvent, SessionSource, Attachment, HomeChannel; Outgoing, Button, Preformatted,
                 Draft, STOPPED_DRAFT
    errors       PlatformError and its subclasses
    commands     Question for `hermes-trio setup`, Finding for `hermes-trio doctor`,
                 Trial and TrialMessage for `hermes-trio setup --simulate`
    services     Log, chunks, command_menu, install_command, is_from_agent, sole_use

Each name is imported when it is first used: `hermes-trio --help` imports this package and waits for none of
them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..base.extras import install_command as install_command
    from ..base.messages import Attachment as Attachment
    from ..base.messages import HomeChannel as HomeChannel
    from ..base.messages import MessageEvent as MessageEvent
    from ..base.messages import SessionSource as SessionSource
    from ..gateway.commands.table import command_menu as command_menu
    from ..gateway.outbound.split import chunks as chunks
    from ..host.files.file_lock import sole_use as sole_use
    from ..host.processes.peers import is_from_agent as is_from_agent
    from ..log import Log as Log
    from .base_link import BaseLink as BaseLink
    from .contract import FOR_EVER as FOR_EVER
    from .contract import STOPPED_DRAFT as STOPPED_DRAFT
    from .contract import Adapter as Adapter
    from .contract import Button as Button
    from .contract import ChatGone as ChatGone
    from .contract import CredentialsRefused as CredentialsRefused
    from .contract import Draft as Draft
    from .contract import FloodWait as FloodWait
    from .contract import HeldMemory as HeldMemory
    from .contract import Link as Link
    from .contract import LinkLost as LinkLost
    from .contract import Memory as Memory
    from .contract import NotSent as NotSent
    from .contract import OutcomeUnknown as OutcomeUnknown
    from .contract import Outgoing as Outgoing
    from .contract import PlatformError as PlatformError
    from .contract import Preformatted as Preformatted
    from .contract import Refused as Refused
    from .contract import RememberingAdapter as RememberingAdapter
    from .contract import Traits as Traits
    from .doctor_checks import Finding as Finding
    from .setup_questions import Question as Question
    from .trial import Trial as Trial
    from .trial import TrialMessage as TrialMessage

__all__ = [
    "FOR_EVER",
    "STOPPED_DRAFT",
    "Adapter",
    "Attachment",
    "BaseLink",
    "Button",
    "ChatGone",
    "CredentialsRefused",
    "Draft",
    "Finding",
    "FloodWait",
    "HeldMemory",
    "HomeChannel",
    "Link",
    "LinkLost",
    "Log",
    "Memory",
    "MessageEvent",
    "NotSent",
    "OutcomeUnknown",
    "Outgoing",
    "PlatformError",
    "Preformatted",
    "Question",
    "Refused",
    "RememberingAdapter",
    "SessionSource",
    "Traits",
    "Trial",
    "TrialMessage",
    "chunks",
    "command_menu",
    "install_command",
    "is_from_agent",
    "sole_use",
]

_MODULES = {
    ".base_link": ("BaseLink",),
    ".contract": (
        "FOR_EVER",
        "STOPPED_DRAFT",
        "Adapter",
        "Button",
        "ChatGone",
        "CredentialsRefused",
        "Draft",
        "FloodWait",
        "HeldMemory",
        "Link",
        "LinkLost",
        "Memory",
        "NotSent",
        "OutcomeUnknown",
        "Outgoing",
        "PlatformError",
        "Preformatted",
        "Refused",
        "RememberingAdapter",
        "Traits",
    ),
    ".doctor_checks": ("Finding",),
    ".setup_questions": ("Question",),
    ".trial": ("Trial", "TrialMessage"),
    "..base.extras": ("install_command",),
    "..base.messages": ("Attachment", "HomeChannel", "MessageEvent", "SessionSource"),
    "..gateway.commands.table": ("command_menu",),
    "..gateway.outbound.split": ("chunks",),
    "..host.files.file_lock": ("sole_use",),
    "..host.processes.peers": ("is_from_agent",),
    "..log": ("Log",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # a type checker would accept any name then

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
