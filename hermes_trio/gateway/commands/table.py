"""The chat commands and their help, in the order of the help text and of the menus of platforms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A chat command. Without help it is not listed."""

    help: str = ""


COMMANDS = {
    "help": CommandInfo("lists the commands"),
    "status": CommandInfo("says what is going on here"),
    "stop": CommandInfo("ends what is running and drops what waits (/stop all: also in the background)"),
    "new": CommandInfo("begins a new session"),
    "retry": CommandInfo("answers your last message again"),
    "undo": CommandInfo("forgets your last message and its answer"),
    "queue": CommandInfo("TEXT waits for its turn without interrupting"),
    "steer": CommandInfo("TEXT goes into the turn that runs"),
    "background": CommandInfo("TEXT is worked on beside this conversation"),
    "approve": CommandInfo("lets happen what is waiting for a yes (session, always, all)"),
    "deny": CommandInfo("refuses it (always: takes back what was ever allowed for always)"),
    "model": CommandInfo("says which model answers"),
    "compress": CommandInfo("shortens what the model is sent of this session (TEXT: what matters most)"),
    "usage": CommandInfo("says what this session has used"),
    "sethome": CommandInfo("has this chat told when the gateway goes down, and when a restart is over"),
    "whoami": CommandInfo("says who you are to the gateway"),
    "restart": CommandInfo("restarts the gateway"),
    "start": CommandInfo(),
}
"""Every command of a chat by its name, without the slash. A command without help is not listed to people."""


def command_menu() -> Mapping[str, str]:
    """Return the names and the help of the listed commands, for the command menu of a platform."""
    return {name: info.help for name, info in COMMANDS.items() if info.help}
