"""Signs of progress beside a running agent: typing, "still working", and the warning about inactivity. They
run in the turn's nursery and end with it.

They may touch the link and the lane of the chat, and store nothing.
"""

from __future__ import annotations

from typing import Protocol

import trio

from ...config.schema import AgentConfig
from ...log import Log
from ...platform.contract import FloodWait, PlatformError
from ..links.link import Connection, calling
from ..outbound import texts
from ..outbound.chats import Chats
from ..outbound.lane import Stream
from ..outbound.rows import Chat
from .handle import TurnHandle

TYPING_EVERY = 2.0
TYPING_WITHIN = 1.5

log = Log(__name__)


class ShownTurn(Protocol):
    """The turn, as far as its activity is watched."""

    @property
    def active_at(self) -> float: ...


async def show_typing(
    chats: Chats, connection: Connection, handle: TurnHandle, chat: Chat, thread_id: str | None
) -> None:
    """Show the typing sign. During a flood wait of the chat none is sent, and a
    refused one holds the chat's lane."""
    while True:
        link = await connection.up()
        try:
            with trio.move_on_after(TYPING_WITHIN):
                if not handle.questions and not chats.held_for(chat):
                    with calling(connection):
                        await link.typing(chat.chat_id, thread_id)
        except FloodWait as flood:
            chats.lane(chat).hold(flood.seconds)
        except PlatformError as error:
            log.debug("typing sign not sent", chat=chat.chat_id, error=str(error))
        await trio.sleep(TYPING_EVERY)


async def show_still_working(
    chats: Chats, handle: TurnHandle, chat: Chat, thread_id: str | None, *, every: float
) -> None:
    """Tell every `every` seconds that the turn still runs. On a platform with edits that is one message,
    which in the end says how long the turn took."""
    if not every:
        return
    began = trio.current_time()
    message = Stream(f"{handle.run_id}:working", thread_id)
    try:
        while True:
            await trio.sleep(every)
            if handle.questions:
                continue
            text = texts.still_working(trio.current_time() - began)
            lane = chats.lane(chat)
            if lane.edits:
                lane.show(message, text)
            else:
                lane.notice(text, thread_id=thread_id)
    finally:
        if message.text:
            chats.lane(chat).show(message, texts.worked(trio.current_time() - began))


async def warn_of_inactivity(
    chats: Chats, turn: ShownTurn, chat: Chat, thread_id: str | None, *, agent: AgentConfig
) -> None:
    """Warn once of a long inactivity, before the limit ends the turn."""
    if not agent.gateway_timeout_warning or not agent.gateway_timeout:
        return
    while trio.current_time() < (then := turn.active_at + agent.gateway_timeout_warning):  # noqa: ASYNC110
        await trio.sleep_until(then)
    text = texts.inactive(agent.gateway_timeout_warning, agent.gateway_timeout)
    chats.lane(chat).notice(text, thread_id=thread_id)
