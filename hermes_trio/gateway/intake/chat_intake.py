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

from functools import partial
from typing import TYPE_CHECKING

from ...base.errors import GatewayError
from ...base.messages import MessageEvent
from ...log import Log
from ...state.tables import dead_chats, inbox, pairing
from ...state.tables.inbox import Stored
from ..commands import parse, table
from ..outbound import texts
from ..outbound.rows import Chat
from ..session.session import Mode
from ..turn import questions
from ..turn.questions import OpenQuestion

if TYPE_CHECKING:
    from ..parts import Gateway

MOST_WAITING = 32
"""So many messages may wait in a session."""

log = Log(__name__)


async def accept(gateway: Gateway, event: MessageEvent) -> None:
    """Take in what was said: stored before this returns, so that it can be acknowledged."""
    if event.kind == "unreadable":
        platform, why = event.source.platform, event.text.partition("\n")[0]
        log.error("a platform told what cannot be read; the inbox keeps it", platform=platform, why=why)
        await _keep_done(gateway, gateway.store.key_of(event.source), event)
        return
    if not await gateway.access.may_talk(event.source):
        await _refuse(gateway, event)
        return
    await _hear(gateway, event)
    if event.kind == "callback" and event.text.startswith(questions.PRESS):
        await _press(gateway, gateway.store.key_of(event.source), event)
        return
    key, command = gateway.store.key_of(event.source), parse.parse(event)
    if command is None:
        stored = await _keep(gateway, key, event)
        # When it is stored it never comes again: what the disk refuses from here on is tried again here.
        answer = partial(answers, gateway, key, stored.inbox_id, event)
        if not stored.seen_before and not await gateway.connection(Chat.of(event.source)).stored(answer):
            told = meet(gateway, key, event, stored, gateway.config.display.busy_input_mode)
            if told is not None:
                _tell(gateway, key, event, told)
        return
    stored = await _keep_done(gateway, key, event)
    # What stands behind a command becomes a row of its own, which may be missing when it comes again.
    if stored.seen_before and not (command.name in parse.SAYING and command.rest):
        return
    try:
        await table.obey(gateway, command, key, event)
    except GatewayError as error:
        log.error("command not obeyed", command=command.name, error=str(error))
        gateway.reply(event, texts.not_obeyed(command.name, error))


async def take(
    gateway: Gateway,
    key: str,
    event: MessageEvent,
    mode: Mode,
    *,
    message_key: str | None,
    at_once: str | None = None,
) -> str | None:
    """Take in what was made of a command. Returns what to tell of it: `at_once` if it need not wait, and
    nothing if it was taken in before."""
    stored = await _keep(gateway, key, event, message_key=message_key)
    if stored.seen_before:
        return None
    return meet(gateway, key, event, stored, mode) or at_once


def meet(gateway: Gateway, key: str, event: MessageEvent, stored: Stored, mode: Mode) -> str | None:
    """Let a message that is stored meet its session. Returns what to tell of it, if it has to wait."""
    if stored.crowded_out:
        gateway.reply(event, texts.crowded_out(MOST_WAITING))  # to everybody: this one is not kept
        return None
    actor = gateway.sessions.wake(key)
    if actor is None:
        return texts.after_restart() if gateway.control.current is not None else texts.after_drain()
    return actor.meet(event, stored.inbox_id, mode)


async def _keep(gateway: Gateway, key: str, event: MessageEvent, *, message_key: str | None = None) -> Stored:
    return await gateway.database.write(
        inbox.store,
        event,
        session_key=key,
        own_key=gateway.world.new_id(),
        at=gateway.world.time(),
        message_key=message_key,
        most=MOST_WAITING,
    )


async def _keep_done(gateway: Gateway, key: str, event: MessageEvent) -> Stored:
    """Keep what waits for no turn."""
    own_key, at = gateway.world.new_id(), gateway.world.time()
    return await gateway.database.write(
        inbox.store, event, session_key=key, own_key=own_key, at=at, done=True
    )


async def answers(gateway: Gateway, key: str, inbox_id: int, event: MessageEvent) -> bool:
    """Whether this is what somebody waits for. Then it is of the turn that asked."""
    for asked in questions.waiting(gateway, key) if event.kind != "internal" else ():
        meant = asked.meant(event.text)
        if meant is not None:
            if not await _may_answer(gateway, event, asked):
                continue
            by = event.source.participant or ""
            return await questions.answer(gateway, asked, meant, by=by, inbox_id=inbox_id)
    return False


async def _press(gateway: Gateway, key: str, event: MessageEvent) -> None:
    """A button was pressed. It is an answer, and nothing else: what it does not answer any more it never
    will, so it waits for no turn."""
    stored = await _keep_done(gateway, key, event)
    if stored.seen_before:
        return
    asked_id, value = questions.pressed(event.text)
    # Whoever may approve may do so for others; what else is asked is asked of one.
    here = [*questions.waiting(gateway, key), *questions.anybodys_approvals(gateway, event.source)]
    asked = next((one for one in here if one.id == asked_id), None)
    if asked is not None and not await _may_answer(gateway, event, asked):
        gateway.reply(event, texts.may_not_approve(event.source.platform))
        return
    meant = asked.meant(value) if asked is not None else None
    by = event.source.participant or ""
    if asked is not None and meant is not None:
        answer = partial(questions.answer, gateway, asked, meant, by=by)
        if await gateway.connection(Chat.of(event.source)).stored(answer):
            return
    gateway.reply(event, texts.pressed_in_vain())


async def _may_answer(gateway: Gateway, event: MessageEvent, asked: OpenQuestion) -> bool:
    """Whether this person may answer: for an approval it takes a right of its own."""
    return asked.kind == "question" or await gateway.access.may_approve(event.source, asked.asked_of)


def _tell(gateway: Gateway, key: str, event: MessageEvent, text: str) -> None:
    """Tell somebody what becomes of the message: while the gateway takes no turns once in a chat, else if
    nothing was told in this session a moment ago."""
    actor, chat = gateway.sessions.wake(key), Chat.of(event.source)
    if actor is not None:
        may_tell = actor.may_tell()
    else:
        may_tell = chat not in gateway.told
        gateway.told.add(chat)
    if may_tell:
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
        gateway.reply(event, texts.pairing_code(code, pairing.VALID))
