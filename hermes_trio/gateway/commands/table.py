"""The chat commands and their help, in the order of the help text and of the menus of platforms.

Values only; `obey` holds the effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """A chat command. Without help it is not listed."""

    help: str = ""


COMMANDS = {
    "help": CommandInfo("lists the commands"),
    "status": CommandInfo("shows the state of this session and of the gateway"),
    "stop": CommandInfo(
        "ends the running turn and drops waiting messages (/stop all: also in the background)"
    ),
    "new": CommandInfo("begins a new session"),
    "retry": CommandInfo("answers your last message again"),
    "undo": CommandInfo("forgets your last message and its answer"),
    "queue": CommandInfo("TEXT waits for its turn without interrupting"),
    "steer": CommandInfo("TEXT joins the running turn"),
    "background": CommandInfo("TEXT is worked on in the background"),
    "approve": CommandInfo("allows the oldest request (session, always, all)"),
    "deny": CommandInfo("refuses it (always: takes back all permissions for always)"),
    "model": CommandInfo("shows which model answers"),
    "compress": CommandInfo("shortens this session for the model (TEXT: what matters most)"),
    "usage": CommandInfo("shows the tokens that this session has used"),
    "schedule": CommandInfo("lists what is scheduled here (WHEN: TEXT adds; pause, resume, run, remove ID)"),
    "sethome": CommandInfo("makes this chat get a notice when the gateway goes down, and when it is back"),
    "whoami": CommandInfo("shows who you are to the gateway"),
    "restart": CommandInfo("restarts the gateway"),
    "start": CommandInfo(),
}
"""Every command of a chat by its name, without the slash. A command without help is not listed to people."""


def command_menu() -> Mapping[str, str]:
    """Return the names and the help of the listed commands, for the command menu of a platform."""
    return {name: info.help for name, info in COMMANDS.items() if info.help}
