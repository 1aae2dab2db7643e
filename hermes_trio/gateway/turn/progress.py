"""Signs of progress beside a running agent: typing, "still working", and the warning about inactivity. They
are a task in the turn's nursery and end with it.

They may touch the link and the lane of the chat, and store nothing.
"""

from __future__ import annotations

import math
from typing import Protocol

import trio

from ...config.schema import AgentConfig
from ...log import Log
from ...platform.contract import FloodWait, PlatformError
from ..ending.control import Control
from ..links.link import Connection, calling
from ..outbound import texts
from ..outbound.chats import Chats
from ..outbound.lane import Lane, Stream
from ..outbound.rows import Chat
from .handle import TurnHandle

TYPING_EVERY = 2.0
TYPING_WITHIN = 1.5

log = Log(__name__)


class ShownTurn(Protocol):
    """The turn, as far as its activity is watched."""

    @property
    def active_at(self) -> float: ...


async def show_progress(
    chats: Chats,
    connection: Connection,
    handle: TurnHandle,
    turn: ShownTurn,
    chat: Chat,
    thread_id: str | None,
    agent: AgentConfig,
    control: Control,
) -> None:
    """Show the typing sign; tell every `agent.gateway_notify_interval` seconds that the turn still runs, in
    one message on a platform with edits, which in the end says how long the turn took; and warn once of a
    long inactivity, before the limit ends the turn. Runs until it is cancelled. A turn that waits to be cut
    shows no typing sign.

    One task for all of it: thousands of turns may run, and a stop has to end each of their tasks.
    """
    began = trio.current_time()
    types_at = began if connection.adapter.traits.typing else math.inf
    tells_every = agent.gateway_notify_interval or math.inf
    tells_at = began + tells_every
    warns_after = (agent.gateway_timeout and agent.gateway_timeout_warning) or math.inf
    message = Stream(f"{handle.run_id}:working", thread_id)
    try:
        while True:
            await trio.sleep_until(min(types_at, tells_at, turn.active_at + warns_after))
            now = trio.current_time()
            if now >= types_at:
                if not handle.questions and not chats.held_for(chat) and not control.grace_is_over:
                    await _show_typing(chats, connection, chat, thread_id)
                types_at = trio.current_time() + TYPING_EVERY
            if now >= tells_at:
                tells_at = now + tells_every
                if not handle.questions:
                    _tell_still_working(chats.lane(chat), message, now - began, thread_id)
            if now >= turn.active_at + warns_after:
                warns_after = math.inf
                text = texts.inactive(agent.gateway_timeout_warning, agent.gateway_timeout)
                chats.lane(chat).notice(text, thread_id=thread_id)
    finally:
        if message.text:
            chats.lane(chat).show(message, texts.worked(trio.current_time() - began))


async def _show_typing(chats: Chats, connection: Connection, chat: Chat, thread_id: str | None) -> None:
    """Show the typing sign if the link is up. A refused one holds the lane of the chat."""
    if connection.link is None:
        return
    try:
        with trio.move_on_after(TYPING_WITHIN), calling(connection):
            await connection.link.typing(chat.chat_id, thread_id)
    except FloodWait as flood:
        chats.lane(chat).hold(flood.seconds)
    except PlatformError as error:
        log.debug("typing sign not sent", chat=chat.chat_id, error=str(error))


def _tell_still_working(lane: Lane, message: Stream, seconds: float, thread_id: str | None) -> None:
    text = texts.still_working(seconds)
    if lane.edits:
        lane.show(message, text)
    else:
        lane.notice(text, thread_id=thread_id)
