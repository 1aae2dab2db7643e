"""The way of a message inwards: access, inbox, and then to whom it belongs.

A message is stored before anybody is told that it was received. A command is obeyed at once, also in the
middle of a turn; an answer goes to whoever asked; all else waits in the inbox for its session, which is
woken. While a turn runs there, the busy mode says what becomes of it:

| mode | |
|---|---|
| interrupt | the turn is cut, and what was said begins the next one |
| queue | it waits for its turn, in the order of arrival |
| steer | it goes into the running turn behind the next tool result; what no tool result came for waits |

An interruption waits like a queued message while the agent is in a part that must not be cut. Whoever has
to wait is told so, at most every half minute.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Literal

import structlog
import trio

from ..messages import MessageEvent
from ..state import dead_chats, inbox, pairing
from ..state.turns import Outcome
from . import commands, words
from .asking import answer
from .lane import Chat
from .run import Task
from .session import Actor

if TYPE_CHECKING:
    from .gateway import Gateway

MOST_WAITING = 32
"""So many messages may wait in a session."""
TELL_EVERY = 30.0
FOLLOW_UP = 3.0
"""Seconds after the begin of a turn in which another message is a part of what was being said."""

Mode = Literal["interrupt", "queue", "steer"]

log = structlog.wrap_logger(logging.getLogger(__name__))


async def accept(gateway: Gateway, event: MessageEvent) -> None:
    """Take in what was said: stored before this returns, so that it can be acknowledged."""
    if not await gateway.access.may_talk(event.source):
        await _refuse(gateway, event)
        return
    await _hear(gateway, event)
    key, command = gateway.store.key_of(event.source), commands.parse(event)
    if command is None:
        told = await take(gateway, key, event, gateway.config.display.busy_input_mode)
        if told is not None:
            _tell(gateway, key, event, told)
        return
    at, own_key = gateway.world.time(), gateway.world.new_id()
    stored = await gateway.database.write(
        inbox.store, event, session_key=key, own_key=own_key, at=at, done=True
    )
    if not stored.seen_before:
        await commands.obey(gateway, command, key, event)


async def take(
    gateway: Gateway, key: str, event: MessageEvent, mode: Mode, *, message_key: str | None = None
) -> str | None:
    """Take in a message for the agent of this session. Returns what to tell of it, if it has to wait."""
    stored = await gateway.database.write(
        inbox.store,
        event,
        session_key=key,
        own_key=gateway.world.new_id(),
        at=gateway.world.time(),
        message_key=message_key,
        most=MOST_WAITING,
    )
    if stored.seen_before:
        return None
    if stored.crowded_out:
        return words.crowded_out(MOST_WAITING)
    actor = gateway.sessions.actor(key)
    if actor is not None and await _answers(gateway, actor, stored.inbox_id, event):
        return None
    if not gateway.sessions.wake(key):
        return words.after_restart() if gateway.control.current is not None else words.after_drain()
    if actor is not None and actor.task is not None:
        return _meet(actor.task, stored.inbox_id, mode)
    return None


def _meet(task: Task, inbox_id: int, mode: Mode) -> str | None:
    """A message meets a turn that runs."""
    if any(row.inbox_id == inbox_id for row in task.rows):
        return None  # it has begun with this very message, while that was being stored
    if mode == "steer":
        task.steered.append(inbox_id)
        return words.steered()
    if mode == "queue":
        return words.queued()
    if task.not_now is not None:
        return words.not_now(task.not_now)
    task.end(Outcome.SUPERSEDED)
    # Just after the begin it is a part of what was being said, and nothing to speak of.
    return words.interrupting() if trio.current_time() - task.began > FOLLOW_UP else None


async def _answers(gateway: Gateway, actor: Actor, inbox_id: int, event: MessageEvent) -> bool:
    """Whether this is what somebody waits for. Then it is of the turn that asked."""
    task = actor.task
    asked = next((asked for asked in task.asked if asked.takes(event.text)), None) if task else None
    if task is None or asked is None:
        return False
    if asked.kind == "approval" and not await gateway.access.is_admin(event.source):
        return False
    if not await answer(gateway, asked, event.text, by=event.source.participant or ""):
        return False
    await gateway.database.write(inbox.join_turn, task.turn_id, [inbox_id])
    return True


def _tell(gateway: Gateway, key: str, event: MessageEvent, text: str) -> None:
    """Tell somebody what becomes of the message: while the gateway takes no turns once in a chat, else if
    nothing was told in this session a moment ago."""
    if not gateway.sessions.open:
        chat = Chat.of(event.source)
        if chat not in gateway.told:
            gateway.told.add(chat)
            gateway.reply(event, text)
        return
    actor, now = gateway.sessions.actor(key), trio.current_time()
    if actor is None or now - actor.told_at >= TELL_EVERY:
        if actor is not None:
            actor.told_at = now
        gateway.reply(event, text)


async def _hear(gateway: Gateway, event: MessageEvent) -> None:
    """Somebody is heard from a chat: it is not gone."""
    chat = Chat.of(event.source)
    if gateway.dead.pop(chat, None) is not None:
        await gateway.database.write(dead_chats.clear, *chat)


async def _refuse(gateway: Gateway, event: MessageEvent) -> None:
    """Keep nothing of what somebody said who is not let in. It is acknowledged all the same, or it
    would come back for ever; a stranger may be shown how to be let in."""
    source = event.source
    log.info("somebody was not let in", platform=source.platform, user=source.user_id)
    code = await gateway.access.new_code(source)
    if code is not None:
        # What is said by a lane and not owed is nowhere stored, and so the code is not.
        gateway.reply(event, words.pairing_code(code, pairing.VALID))
