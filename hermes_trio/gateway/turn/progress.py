"""What runs beside an agent so that a person knows it is there. Children of the turn's nursery: they
end with it, wherever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from ...log import Log
from ...platform.contract import FloodWait, PlatformError
from ..links.link import calling
from ..outbound import texts
from ..outbound.rows import Chat, Stream

if TYPE_CHECKING:
    from ..parts import Gateway
    from .context import TurnContext

TYPING_EVERY = 2.0
TYPING_WITHIN = 1.5

log = Log(__name__)


async def typing(gateway: Gateway, turn: TurnContext, chat: Chat, thread_id: str | None) -> None:
    """Show that somebody is typing, where a platform has a sign for it. Within a flood wait of the chat no
    sign is sent, and one that is refused as too much holds everything else there too."""
    connection = gateway.connection(chat)
    while connection.adapter.traits.typing:
        link = await connection.up()
        try:
            with trio.move_on_after(TYPING_WITHIN):
                if not turn.waits_for_somebody and not gateway.lanes.held_for(chat):
                    with calling(connection):
                        await link.typing(chat.chat_id, thread_id)
        except FloodWait as flood:
            gateway.lanes.of(chat).hold(flood.seconds)
        except PlatformError as error:
            log.debug("no typing sign", chat=chat.chat_id, error=str(error))
        await trio.sleep(TYPING_EVERY)


async def still_working(gateway: Gateway, turn: TurnContext, chat: Chat, thread_id: str | None) -> None:
    """Say now and then that the turn still runs. Where a message can be edited it is one message, and
    says in the end how long it took."""
    every = gateway.config.agent.gateway_notify_interval
    if not every:
        return
    began = trio.current_time()
    own = Stream(f"{turn.run_id}:working", thread_id)
    try:
        while True:
            await trio.sleep(every)
            if turn.waits_for_somebody:
                continue
            said = texts.still_working(trio.current_time() - began)
            lane = gateway.lanes.of(chat)
            if lane.edits:
                lane.show(own, said)
            else:
                lane.notice(said, thread_id=thread_id)
    finally:
        if own.text:
            gateway.lanes.of(chat).show(own, texts.worked(trio.current_time() - began))


async def warn_of_silence(gateway: Gateway, turn: TurnContext, chat: Chat, thread_id: str | None) -> None:
    """Say once that nothing has happened for long, before the limit ends the turn."""
    agent = gateway.config.agent
    if not agent.gateway_timeout_warning or not agent.gateway_timeout:
        return
    while trio.current_time() < (then := turn.active_at + agent.gateway_timeout_warning):  # noqa: ASYNC110
        await trio.sleep_until(then)
    said = texts.silent(agent.gateway_timeout_warning, agent.gateway_timeout)
    gateway.lanes.of(chat).notice(said, thread_id=thread_id)
