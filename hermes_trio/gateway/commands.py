"""Chat commands: they go to the session's control at once, also in the middle of a turn, and are never
sent to a model. A command is done when it is stored: it happens once and never replays."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..messages import MessageEvent
from ..state.turns import Outcome
from . import words
from .ending import Cause, Ending
from .session import begin_anew, stop

if TYPE_CHECKING:
    from .gateway import Gateway

_COMMAND = re.compile(r"/([a-z][a-z0-9_-]*)(?:@\w+)?(?:\s+(.*))?", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Command:
    """What a person asked the gateway itself to do."""

    name: str
    rest: str


def parse(event: MessageEvent) -> Command | None:
    """The command in a message, if it is one. A path such as `/etc/hosts` is none."""
    found = _COMMAND.fullmatch(event.text.strip())
    return Command(found[1].lower(), (found[2] or "").strip()) if found else None


async def obey(gateway: Gateway, command: Command, key: str, event: MessageEvent) -> None:
    """Do what was asked, and say so."""
    lane, source = gateway.lane_of(event.source), event.source

    def reply(text: str) -> None:
        lane.notice(text, thread_id=source.thread_id, reply_to=event.message_id)

    match command.name:
        case "stop":
            actor = gateway.sessions.actor(key)
            reply(words.stopped(actor is not None and actor.task is not None))
            stop(gateway, key, Outcome.STOPPED)
        case "new" | "reset":
            reply(words.new_session())
            await begin_anew(gateway, key)
        case "restart":
            reply(words.restart_asked(len(gateway.sessions.running)))
            grace = gateway.config.agent.restart_drain_timeout
            gateway.remember_requester(source, event)
            gateway.control.ask(Ending(Cause.RESTART, grace, asked_by=key, requester=event))
        case "help":
            reply(words.help_text())
        case _:
            reply(words.unknown_command(command.name))
